"""The command line: one file a verb, each a plain function.

Holds `main` and `call`. Exit codes: 0 done, 1 the answer is no, 2 the input or the call is wrong.
"""

import errno
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from syncwall import __version__
from syncwall.cli.verbs import VERBS
from syncwall.problems import InputError, refuse_unknown

_ASKED: Final = ("-h", "--help", "--help-all", "help")
"""How people ask for help; the last one in the place of a verb or part only."""
_HELP: Final = """\
usage: syncwall VERB [options]

How fast a training run on many GPUs will be, and what to change.

{verbs}

First steps:
  syncwall predict --model llama-3.1-8b --cluster dgx-h100 --gpus 128
  syncwall show clusters
  syncwall show model llama-3.1-405b

`syncwall VERB --help` lists the flags that most calls need, `--help-all` every
flag of a verb; `syncwall --version` prints the version.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from syncwall.show.write.characters import fall_back

    fall_back()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _print_no_more()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _print_no_more()
        print(f"the answer cannot be written: {error.strerror}", file=sys.stderr)
        return 2


def _print_no_more() -> None:
    """Let what is still to be printed go nowhere, so that the end of the process is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if not words or words[0] in _ASKED:
        verbs = "\n".join(f"  {verb:<11} {does}" for verb, does in VERBS.items())
        print(_HELP.format(verbs=verbs), end="")
        return 0
    if words[0] == "--version":
        print(f"syncwall {__version__}")
        return 0
    verb, *rest = words
    refuse_unknown(verb, VERBS, f'unknown verb "{verb}"')
    return call(verb, rest)


def call(verb: str, arguments: Sequence[str]) -> int:
    """Hand `arguments` to the function of a verb; a wrong call ends the process with code 2."""
    module = import_module(f"syncwall.cli.{verb}")
    parts: dict[str, str] = getattr(module, "PARTS", {})
    if not parts:
        return _call(getattr(module, verb), verb, arguments)
    part, *rest = arguments or ["--help"]
    if part in _ASKED:
        lines = "\n".join(f"  {name:<12} {does}" for name, does in parts.items())
        print(f"usage: syncwall {verb} PART [options]\n\n{VERBS[verb]}\n\n{lines}\n")
        print(f"`syncwall {verb} PART --help` lists the flags of a part.")
        return 0
    refuse_unknown(part, parts, f'unknown part "{part}" of {verb}')
    function = getattr(import_module(f"syncwall.cli.{verb}.{part}"), part)
    return _call(function, f"{verb} {part}", rest)


def _with_script_arguments(words: Sequence[str]) -> list[str]:
    """`words` in which all that stands behind -- is one, the arguments of a script."""
    at = list(words).index("--") if "--" in words else len(words)
    behind = [f"--arguments={shlex.join(words[at + 1 :])}"] if words[at + 1 :] else []
    return [*words[:at], *behind]


def _call(function: Callable[..., int], command: str, arguments: Sequence[str]) -> int:
    if command in ("capture", "watch"):
        arguments = _with_script_arguments(arguments)
    if any(word in _ASKED[:3] for word in arguments):
        from syncwall.cli.help import help_text

        print(help_text(function, command, every="--help-all" in arguments))
        return 0
    import tyro

    from syncwall.cli.flags import with_values
    from syncwall.cli.output import with_json_file

    config = (tyro.conf.FlagCreatePairsOff,)
    words = with_values(function, with_json_file(arguments))
    return int(tyro.cli(function, prog=f"syncwall {command}", args=words, config=config))
