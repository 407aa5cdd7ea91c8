"""The command line: one file a verb, each a plain function.

Holds `main`. Exit codes: 0 done, 1 the answer is no, 2 the input or the call is wrong.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

import tyro

from syncwall import __version__
from syncwall.cli.show import show
from syncwall.problems import InputError

VERBS: Final[dict[str, Callable[..., int]]] = {"show": show}
"""Every verb; a verb returns its exit code and imports what it needs when it is called."""

_ABOUT: Final = """\
How fast a training run on many GPUs will be, where the time goes, what to change.

First steps:
  syncwall show clusters
  syncwall show model llama-3.1-405b
  syncwall show cluster dgx-h100 --json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        print(f"syncwall {__version__}")
        return 0
    try:
        return parse_and_run(arguments)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parse_and_run(arguments: Sequence[str]) -> int:
    """Hand `arguments` to the verb they name; a wrong call ends the process with code 2."""
    return int(
        tyro.extras.subcommand_cli_from_dict(
            VERBS,
            prog="syncwall",
            description=_ABOUT,
            args=arguments or ["--help"],
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    )
