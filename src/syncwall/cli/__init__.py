"""The command line: a verb is parsed into its question, asked, and the answer written.

Holds `main`. Exit codes: 0 done, 1 the answer is no, 2 the input or the call is wrong, 3 it cannot be told.
"""

import errno
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from syncwall import __version__
from syncwall.cli.commands import DOES, PARTS, as_flag
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
        print(error.spelled(as_flag), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _discard_output()
        return 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _discard_output()
        print(f"the answer cannot be written: {error.strerror}", file=sys.stderr)
        return 2


def _discard_output() -> None:
    """Let what is still to be printed go nowhere, so that the end of the process is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if not words or words[0] in _ASKED:
        verbs = "\n".join(f"  {verb:<11} {does}" for verb, does in DOES.items())
        print(_HELP.format(verbs=verbs), end="")
        return 0
    if words[0] == "--version":
        print(f"syncwall {__version__}")
        return 0
    verb, *rest = words
    refuse_unknown(verb, DOES, f'unknown verb "{verb}"')
    if verb not in PARTS:
        return _call(verb, rest)
    part, *rest = rest or ["--help"]
    if part in _ASKED:
        lines = "\n".join(f"  {name:<12} {does}" for name, does in PARTS[verb].items())
        print(f"usage: syncwall {verb} PART [options]\n\n{DOES[verb]}\n\n{lines}\n")
        print(f"`syncwall {verb} PART --help` lists the flags of a part.")
        return 0
    refuse_unknown(part, PARTS[verb], f'unknown part "{part}" of {verb}')
    return _call(f"{verb} {part}", rest)


def _call(command: str, words: Sequence[str]) -> int:
    from syncwall.cli.call import called

    if command in ("capture", "watch"):
        words = _with_script_arguments(words)
    if any(word in _ASKED[:3] for word in words):
        from syncwall.cli.help import help_text

        print(help_text(command, every="--help-all" in words))
        return 0
    return called(command, words)


def _with_script_arguments(words: Sequence[str]) -> list[str]:
    """Join everything after `--` into one argument, for the script."""
    at = list(words).index("--") if "--" in words else len(words)
    behind = [f"--arguments={shlex.join(words[at + 1 :])}"] if words[at + 1 :] else []
    return [*words[:at], *behind]
