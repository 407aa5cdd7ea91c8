"""The command line: one file a verb, each a plain function.

Holds `main` and `VERBS`. Exit codes: 0 done, 1 the answer is no, 2 the input or the call is wrong.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from syncwall import __version__
from syncwall.problems import InputError, known_are

VERBS: Final = {
    "predict": "how long a training step takes, where the time goes, what to change",
    "plan": "which layout, how many GPUs, what network and which fabric to take",
    "show": "what the catalogue knows of devices, links, clusters, models and prices",
    "validate": "how far predictions are from published runs",
    "explain": "why a run is slow, from traces, logs and topologies that you have",
    "measure": "what links, devices and training steps really reach, under torchrun or srun",
    "lab": "real experiments on several hosts made on one Linux machine",
    "serve": "the same as pages in a browser: pictures, sliders, links to share",
    "report": "runs, jobs and results of measure and lab as an article: one HTML page, or Markdown",
}
"""Every verb with what it does; `syncwall.cli.<verb>` holds a function of that name, imported only
when the verb is called. A verb with parts is a folder: `PARTS` says what each does, and
`syncwall.cli.<verb>.<part>` holds the function."""

_HELP: Final = """\
usage: syncwall VERB [options]

How fast a training run on many GPUs will be, where the time goes, what to change.

{verbs}

First steps:
  syncwall predict --model llama-3.1-8b --cluster dgx-h100 --nodes 16 --layout.shard fsdp
  syncwall show clusters
  syncwall show model llama-3.1-405b

`syncwall VERB --help` lists the options of a verb; `syncwall --version` prints the version.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        verbs = "\n".join(f"  {verb:<9} {does}" for verb, does in VERBS.items())
        print(_HELP.format(verbs=verbs), end="")
        return 0
    if words[0] == "--version":
        print(f"syncwall {__version__}")
        return 0
    verb, *rest = words
    _refuse_unknown(verb, VERBS, f'unknown verb "{verb}"')
    return call(verb, rest)


def _refuse_unknown(word: str, known: Mapping[str, str], said: str) -> None:
    """Refuse a word that is not `known`, with the nearest one."""
    if word not in known:
        raise InputError.of(f"{said}{known_are(word, known)}")


def call(verb: str, arguments: Sequence[str]) -> int:
    """Hand `arguments` to the function of a verb; a wrong call ends the process with code 2."""
    module = import_module(f"syncwall.cli.{verb}")
    parts: dict[str, str] = getattr(module, "PARTS", {})
    if not parts:
        return _call(getattr(module, verb), f"syncwall {verb}", arguments)
    part, *rest = arguments or ["--help"]
    if part in ("-h", "--help", "help"):
        lines = "\n".join(f"  {name:<12} {does}" for name, does in parts.items())
        print(f"usage: syncwall {verb} PART [options]\n\n{VERBS[verb]}\n\n{lines}\n")
        print(f"`syncwall {verb} PART --help` lists the options of a part.")
        return 0
    _refuse_unknown(part, parts, f'unknown part "{part}" of {verb}')
    function = getattr(import_module(f"syncwall.cli.{verb}.{part}"), part)
    return _call(function, f"syncwall {verb} {part}", rest)


def _call(function: Callable[..., int], name: str, arguments: Sequence[str]) -> int:
    import tyro

    config = (tyro.conf.FlagCreatePairsOff,)
    return int(tyro.cli(function, prog=name, args=arguments, config=config))
