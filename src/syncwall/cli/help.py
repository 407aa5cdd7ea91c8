"""What `--help` prints: the flags of a verb in groups, a sentence each, in 80 columns.

Holds `help_text`. `--help` lists what most calls need, `--help-all` every flag.
"""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from inspect import getdoc
from typing import Final

from syncwall.cli.commands import types_of
from syncwall.cli.flags import Flag, flags_of

_RUN: Final = ("FILE", "--model", "--cluster", "--gpus")
_LAYOUT: Final = ("--tp", "--pp", "--shard", "--global-batch")
_NEEDED: Final = {
    "predict": (
        *_RUN,
        "--seq",
        "--from",
        *_LAYOUT,
        "--framework",
        "--tokens",
        "--json",
        "--html",
    ),
    "compare": (
        *_RUN,
        "OTHER",
        "--against",
        *_LAYOUT,
        "--tokens",
        "--json",
        "--html",
    ),
    "plan layouts": (
        *_RUN,
        "--seq",
        "--tp",
        "--pp",
        "--global-batch",
        "--objective",
        "--within",
        "--top",
        "--save",
        "--settings",
        "--json",
    ),
    "plan wall": (*_RUN, *_LAYOUT, "--least", "--most", "--best-layout", "--chart", "--json"),
    "plan network": (*_RUN, *_LAYOUT, "--efficiency", "--exposed", "--strong", "--json"),
    "plan fabric": (
        *_RUN,
        "--kind",
        "--switch",
        "--radix",
        "--oversubscription",
        "--growth",
        "--copper",
        "--degraded",
        "--drawing",
        "--json",
    ),
    "plan placement": ("FILE", "--fabric", "--routing", "--qps", "--save", "--json"),
    "watch": (
        "--expect",
        "--baseline",
        "--fail-above",
        "--events",
        "--attach",
        "--prometheus",
        "--webhook",
        "--alert",
        "--to",
        "--life",
        "--json",
        "--html",
    ),
}
"""Flags that `--help` shows of verbs with more than it has room for; of the others it shows all."""
_DEGREES: Final = ("--tp", "--pp", "--cp", "--ep", "--etp")
_SEARCHED: Final = {
    "plan layouts": "searched",
    "plan wall": "searched if no layout is given, else 1",
    "plan network": "searched if no layout is given, else 1",
}
"""What verbs that search layouts do about degrees that are left out."""
_GROUPS: Final = ("run", "layout", "software", "job", "options")
"""Groups that come first, in this order; output comes last."""
_EXAMPLES: Final = {
    "SIZE": "25MiB",
    "RATE": "400Gb/s",
    "TIME": "30min",
    "PRICE": "'$2.99/GPU-hour'",
    "DATE": "2026-12-01",
    "SHARE": "5%",
    "RATIO": "3:1",
}
_WIDEST: Final = 100
_COLUMN: Final = 24
"""Where texts start."""


def help_text(command: str, *, every: bool) -> str:
    """The help of `syncwall COMMAND`: its usage, what it does, and its flags."""
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    types = types_of(command)
    flags = flags_of(*types)
    if command in _SEARCHED:
        flags = [_in_a_search(one, _SEARCHED[command]) for one in flags]
    needed = _NEEDED.get(command)
    shown = flags
    if needed is not None and not every:
        by_name = {one.short: one for one in flags}
        shown = [by_name[name] for name in needed]
    said = getdoc(types[0]) or ""
    paragraphs = [
        f"usage: syncwall {command} {_usage(flags)}",
        *(textwrap.fill(" ".join(one.split()), width) for one in said.split("\n\n")),
        *_groups(shown, width),
    ]
    left = len(flags) - len(shown)
    if left:
        paragraphs.append(f"`syncwall {command} --help-all` lists {left} more flags.")
    return "\n\n".join(paragraphs)


def _in_a_search(flag: Flag, default: str) -> Flag:
    """A flag of a verb that searches layouts, and takes the batch that was published."""
    if flag.short == "--global-batch":
        told = flag.text.partition(";")[0]
        return replace(flag, text=f"{told}; the model's published ones if not given")
    return replace(flag, default=default) if flag.short in _DEGREES else flag


def _usage(flags: Sequence[Flag]) -> str:
    words = []
    for one in flags:
        if not one.is_named:
            name = f"{one.name} ..." if one.is_repeated else one.name
            words.append(name if one.is_required else f"[{name}]")
    return " ".join([*words, "[flags]"])


def _groups(flags: Sequence[Flag], width: int) -> Iterator[str]:
    names = list(dict.fromkeys([*_GROUPS, *(one.group for one in flags), "output"]))
    names.append(names.pop(names.index("output")))
    for name in names:
        inside = [one for one in flags if one.group == name]
        prefixed = any(one.short != one.name for one in inside)
        title = f"{name} (in full --{name}.NAME)" if prefixed else name
        if inside:
            yield "\n".join([f"{title}:", *(_lines(one, width) for one in inside)])


def _lines(flag: Flag, width: int) -> str:
    """A flag and its text beside it, or below if it is long."""
    head = f"  {flag.short} {flag.takes}".rstrip() if flag.is_named else f"  {flag.name}"
    below = len(head) > _COLUMN - 2
    text = textwrap.fill(
        _sentence(flag),
        width,
        break_long_words=False,
        break_on_hyphens=False,
        initial_indent=" " * _COLUMN,
        subsequent_indent=" " * _COLUMN,
    )
    return f"{head}\n{text}" if below else f"{head:<{_COLUMN}}{text[_COLUMN:]}"


def _sentence(flag: Flag) -> str:
    """What a flag means, the words or the unit that it takes, and its default."""
    is_said = "|" in flag.takes or all(word in flag.text for word in flag.choices)
    example = _EXAMPLES.get(flag.takes, "")
    wanted = example and flag.default in ("", "off") and "such as" not in flag.text
    more = [
        "" if is_said else ", ".join(flag.choices),
        f"such as {example}" if wanted else "",
        "seconds" if flag.takes == "S" else "",
        f"default: {flag.default}" if flag.default else "",
    ]
    tail = "; ".join(filter(None, more))
    return f"{flag.text} ({tail})" if tail else flag.text
