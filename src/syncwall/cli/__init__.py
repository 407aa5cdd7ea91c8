"""The command line: one file a verb, each a plain function.

Holds `main` and `VERBS`. Exit codes: 0 done, 1 the answer is no, 2 the input or the call is wrong.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from syncwall import __version__
from syncwall.problems import InputError, did_you_mean

VERBS: Final = {
    "predict": "how long a training step takes, where the time goes, what to change",
    "show": "what the catalogue knows of devices, links, clusters, models and prices",
    "validate": "how far predictions are from published runs",
}
"""Every verb with what it does; `syncwall.cli.<verb>` holds a function of that name, imported only
when the verb is called."""

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
    if verb not in VERBS:
        hint = did_you_mean(verb, VERBS) or f"; known are {', '.join(VERBS)}"
        raise InputError.of(f'unknown verb "{verb}"{hint}')
    return call(verb, rest)


def call(verb: str, arguments: Sequence[str]) -> int:
    """Hand `arguments` to the function of a verb; a wrong call ends the process with code 2."""
    import tyro

    function = getattr(import_module(f"syncwall.cli.{verb}"), verb)
    config = (tyro.conf.FlagCreatePairsOff,)
    return int(tyro.cli(function, prog=f"syncwall {verb}", args=arguments, config=config))
