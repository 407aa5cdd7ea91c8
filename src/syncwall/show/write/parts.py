"""Parts of an answer for the pages of `syncwall serve`: markup for a place of a page.

Holds `markup`, which writes blocks and texts, `tag` for a single element, and what pages have
beside blocks: `tile`, `proposals`, `bar`. Text is escaped. The policy of pages allows no styles in
markup and no scripts: they draw `data-width`, `data-left` and `data-colour` themselves, and set
the keys in `data-set` when somebody clicks.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from syncwall.cause import LEAST_SHARE, Cause
from syncwall.show import blocks
from syncwall.show.numbers import percent
from syncwall.show.terms import meaning
from syncwall.show.write.whole_files import written

_CAUSES: Final = {str(cause): cause for cause in Cause}
_ADDRESS: Final = re.compile(r"https?://[^\s,;]+|arXiv:(\d{4}\.\d{4,5})")


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Part = str | blocks.Block | None | Iterable["Part"]
"""What can stand in a page; nothing is left out."""


def markup(*parts: Part) -> Markup:
    """All of them one after the other."""
    return Markup("".join(map(_markup, parts)))


def _markup(part: Part) -> str:  # noqa: PLR0911 - one for each kind
    match part:
        case None:
            return ""
        case Markup():
            return part
        case blocks.Cell():
            return _cell(part)
        case str():
            return escape(part)
        case blocks.Table():
            return table(part)
        case blocks.Breakdown():
            return ledger(part)
        case Iterable():
            return markup(*part)
    return written(part)


def tag(name: str, *children: Part, data: Mapping[str, Any] | None = None, **more: Any) -> Markup:
    """An element; attributes that are None or False are left out, `class_` is `class`."""
    named = {key.rstrip("_").replace("_", "-"): one for key, one in more.items() if one != ""}
    named |= {f"data-{key}": value for key, value in (data or {}).items()}
    given = "".join(
        f" {key}" if value is True else f' {key}="{escape(_text(value))}"'
        for key, value in named.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{given}>{markup(*children)}</{name}>")


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def term(words: str) -> Markup:
    """`words`, which say what they mean to who points at them if they are a term."""
    known = meaning(words)
    return tag("abbr", words, title=known) if known else markup(words)


def unseen(name: str) -> Markup:
    """A name that only those hear who cannot see the table."""
    return tag("span", name, class_="visually-hidden")


def items(lines: Iterable[Part]) -> Markup:
    """Lines of a list."""
    return markup(tag("li", line) for line in lines)


def quiet(*parts: Part) -> Markup:
    """A sentence that steps back."""
    return tag("p", *parts, class_="quiet")


def button(words: Part, keys: Mapping[str, Any], kind: str = "link", **more: Any) -> Markup:
    """Sets `keys` in the address; null takes one away."""
    data = {**more.pop("data", {}), "set": dict(keys)}
    return tag("button", words, type="button", class_=kind, data=data, **more)


def linked(text: str) -> Markup:
    """`text` whose first web address, or number at arXiv, is a link."""
    found = _ADDRESS.search(text)
    if found is None:
        return markup(text)
    href = f"https://arxiv.org/abs/{found[1]}" if found[1] else found[0]
    link = tag("a", re.sub("^https?://", "", found[0]), href=href, rel="noreferrer")
    return markup(text[: found.start()], link, text[found.end() :])


def scrolled(label: str, *parts: Part) -> Markup:
    """What may be wider than the page, and is then scrolled."""
    return tag("div", parts, class_="wide", tabindex=0, role="region", aria_label=label)


def panel(title: str, *parts: Part, beside: Part = None) -> Markup:
    """A section of a page; what stands `beside` its title is small."""
    name = tag("h2", title)
    head = tag("div", name, tag("span", beside, class_="small row"), class_="head")
    return tag("section", head if beside else name, parts, class_="panel")


def swatch(colour: str, kind: str = "swatch") -> Markup:
    """A patch of colour before a name."""
    return tag("span", class_=kind, data={"colour": colour})


def tile(key: str, name: str, value: str, beside: Part, exact: float | None = None) -> Markup:
    """A number that stands out, and a word beside it; `exact` is the number behind the text."""
    return tag(
        "div",
        tag("div", term(name), class_="name"),
        tag("div", value, class_="value"),
        tag("div", beside, class_="beside"),
        class_="tile",
        data={"tile": key, "value": exact},
    )


def proposal(
    change: str,
    gain: str,
    beside: Part,
    keys: Mapping[str, Any],
    *,
    gained: float | None,
    is_worse: bool = False,
) -> Markup:
    """A change that applies itself."""
    said = tag("span", gain, class_=f"gain {'worse' if is_worse else 'better'}")
    inside = tag("span", change), said, tag("small", beside)
    return button(inside, keys, kind="", data={"gained": gained})


def proposals(made: Sequence[Markup]) -> Markup:
    """Changes that apply themselves."""
    return tag("div", made, class_="proposals")


def bar(parts: Iterable[tuple[str, float, str, bool]], whole: float, **more: Any) -> Markup:
    """Parts of a whole beside each other: what each says, its value, its colour, if it waits."""
    drawn = (
        tag(
            "span",
            title=said,
            class_="wait" if is_wait else None,
            data={"width": 100 * value / whole, "colour": colour},
        )
        for said, value, colour, is_wait in parts
    )
    last = more.pop("last", None)
    return tag("div", drawn, last, class_="ledger-bar", aria_hidden="true", **more)


def _colour(name: str) -> str:
    return _CAUSES[name].colour if name in _CAUSES else "other"


def cause_bar(of: blocks.Breakdown, **more: Any) -> Markup:
    """The causes of a ledger in one bar."""
    parts = []
    for one in shares(of):
        title = _CAUSES[one.name].title if one.name in _CAUSES else one.name
        said = f"{title} {of.text(one.value)}"
        parts.append((said, one.value, _colour(one.name), one.is_wait))
    return bar(parts, of.whole, **more)


def cause_name(name: str) -> Markup:
    """A cause behind its colour."""
    return markup(swatch(_colour(name)), term(name))


def shares(of: blocks.Breakdown) -> list[blocks.Share]:
    """Parts with a line: computation first, waiting last."""
    places = {name: place for place, name in enumerate(_CAUSES)}
    listed = [one for one in of.parts if one.value >= LEAST_SHARE * of.whole]
    return sorted(listed, key=lambda one: places.get(one.name, len(places)))


def ledger(of: blocks.Breakdown) -> Markup:
    """One bar of all causes, and a line for each."""
    shown = shares(of)
    largest = max((one.value for one in shown), default=1.0)
    rows = [
        tag(
            "tr",
            tag("th", cause_name(one.name), scope="row", class_="words"),
            tag(
                "td",
                tag("span", data={"width": 100 * one.value / largest, "colour": _colour(one.name)}),
                class_="ledger-line",
                aria_hidden="true",
            ),
            tag("td", of.text(one.value)),
            tag("td", percent(one.value / of.whole, 1), class_="quiet"),
            data={"cause": one.name, "value": one.value},
        )
        for one in shown
    ]
    total = tag("th", of.total, scope="row", class_="words"), tag("td")
    end = tag("td", of.text(of.whole)), tag("td", "100%", class_="quiet")
    rows.append(tag("tr", *total, *end, class_="sum"))
    head = (tag("th", name, scope="col") for name in ("cause", "bar", "time", "share"))
    lines = tag("thead", tag("tr", head), class_="visually-hidden"), tag("tbody", rows)
    return tag("div", cause_bar(of), tag("table", *lines), class_="ledger")


def table(of: blocks.Table, **more: Any) -> Markup:
    """Names of the columns above, a row for each thing below; its first cell is its name."""
    kinds = ["words" if of.is_words(n) else "" for n in range(len(of.head))]
    head = (
        tag("th", term(name), scope="col", class_=kind) for name, kind in zip(of.head, kinds, strict=True)
    )
    hidden = "visually-hidden" if more.pop("is_head_hidden", False) else None
    rows = (_row(row, kinds, number in of.strong) for number, row in enumerate(of.rows))
    return tag("table", tag("thead", tag("tr", head), class_=hidden), tag("tbody", rows), **more)


def _row(row: Sequence[str], kinds: Sequence[str], is_strong: bool) -> Markup:
    if len(row) == 1:
        return tag("tr", tag("th", row[0], scope="rowgroup", colspan=len(kinds), class_="words"))
    cells = []
    for number, (cell, kind) in enumerate(zip(row, kinds, strict=True)):
        own = cell if isinstance(cell, blocks.Cell) else blocks.Cell(cell)
        name, scope = ("td", None) if number else ("th", "row")
        classes = " ".join(filter(None, (kind, own.kind)))
        cells.append(tag(name, cell, scope=scope, class_=classes, data=own.data))
    first = row[0]
    data = first.row if isinstance(first, blocks.Cell) else {}
    return tag("tr", cells, class_="sum" if is_strong else None, data=data)


def _cell(cell: blocks.Cell) -> Markup:
    text = markup(cell.text) if cell.keys is None else button(cell.text, cell.keys)
    return markup(text, tag("div", cell.below, class_="quiet small") if cell.below else None)
