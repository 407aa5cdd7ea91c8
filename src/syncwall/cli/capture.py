"""`syncwall capture`: records one training step of a user's own script, without a GPU.

Holds `capture`.
"""

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from syncwall.ask.question import Argument, LocalFile
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError, visible

if TYPE_CHECKING:
    from syncwall.capture.script import Script


class CaptureCommand(Command):
    """Record one training step of a script that torchrun would start, as it is, without a GPU.

    What stands behind -- goes to the script: syncwall capture train.py --world 1024 -- --lr 3e-4.
    The script runs here, with your rights but without a network: capture only what you trust.
    """

    script: Annotated[tuple[str, ...], Argument("SCRIPT", positional=True)] = ()
    """The file, as torchrun gets it."""
    world: Annotated[int, Argument("N")] = 8
    """Ranks of the job, WORLD_SIZE of the script."""
    rank: Annotated[int, Argument("N")] = 0
    """The rank to record; if it pipelines, one rank of each other stage, too."""
    ranks: Annotated[str | None, Argument("LIST")] = None
    """Only these ranks, one after the other: 0,1,2,3."""
    nproc_per_node: Annotated[int, Argument("N")] = 8
    """Ranks of a node, LOCAL_WORLD_SIZE of the script."""
    module: Annotated[str | None, Argument("NAME", letter="-m")] = None
    """Run this module instead of a file, as torchrun -m does."""
    arguments: Annotated[str, Argument("TEXT")] = ""
    """Arguments of the script as one text, the same as behind --."""
    traceback: bool = False
    """Print all of what the script raises, if it does, and not only its own line."""
    timeout: Annotated[float, Argument("S")] = 600.0
    """Give up after so much CPU time, or four times as long on the clock."""
    save: Annotated[LocalFile, Argument("FILE", letter="-o", group="output")] = Path("run.work.json.gz")
    """Where the program goes, for predict --work; -o for short."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        if sys.platform == "win32":
            raise InputError.of("a script is recorded on Linux or macOS; from Python, anywhere")
        from syncwall.capture.program_file import write_program
        from syncwall.capture.script import ScriptLimits, record_script
        from syncwall.documents import refuse_unwritable
        from syncwall.work.program import CapturedStep

        started = replace(_script(self.script, self.module, self.arguments), shows_traceback=self.traceback)
        numbers = _ranks(self.ranks, self.rank, self.world)
        if self.timeout < 1 or self.nproc_per_node < 1:
            raise InputError.of("--timeout and --nproc-per-node are 1 at least")
        self.out.check()
        refuse_unwritable(self.save)
        limits = ScriptLimits(cpu_s=self.timeout, wall_s=4.0 * self.timeout)
        began = time.monotonic()
        try:
            program = record_script(
                started,
                world_size=self.world,
                ranks=numbers,
                whole_pipeline=self.ranks is None,
                ranks_per_node=self.nproc_per_node,
                limits=limits,
                say=_say,
            )
        except KeyboardInterrupt:
            print("interrupted; nothing is left running", file=sys.stderr)
            return 130
        seconds = time.monotonic() - began
        write_program(program, self.save)
        self.out.write(CapturedStep(program, str(self.save), seconds))
        return 0


def _script(files: tuple[str, ...], module: str | None, arguments: str) -> "Script":
    from syncwall.capture.script import Script

    try:
        words = tuple(shlex.split(arguments))
    except ValueError as error:
        raise InputError.of(f"--arguments: {error}") from None
    if len(files) + (module is not None) != 1:
        raise InputError.of(
            "name one script, or a module with -m; its own arguments stand behind --: "
            "syncwall capture train.py --world 1024 -- --lr 3e-4"
        )
    return Script(module or files[0], words, is_module=module is not None)


def _ranks(listed: str | None, rank: int, world: int) -> list[int]:
    if world < 1:
        raise InputError.of(f"--world: {world} is not a number of ranks")
    words = listed.split(",") if listed else [str(rank)]
    numbers = [int(word) if word.strip().isdecimal() else -1 for word in words]
    for word, number in zip(words, numbers, strict=True):
        if not 0 <= number < world:
            raise InputError.of(f"--ranks: {word} is not a rank of a job of {world:,}")
    return list(dict.fromkeys(numbers))


def _say(words: str) -> None:
    print(visible(words), file=sys.stderr, flush=True)
