"""`syncwall capture`: records one training step of a user's own script, without a GPU.

Holds `capture`.
"""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.problems import InputError, visible

if TYPE_CHECKING:
    from syncwall.capture.script import Script


def capture(  # noqa: PLR0913, PLR0917 - the flags of the verb
    script: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SCRIPT")] = (),
    /,
    world: Annotated[int, tyro.conf.arg(metavar="N")] = 8,
    rank: Annotated[int, tyro.conf.arg(metavar="N")] = 0,
    ranks: Annotated[str | None, tyro.conf.arg(metavar="LIST")] = None,
    nproc_per_node: Annotated[int, tyro.conf.arg(metavar="N")] = 8,
    module: Annotated[str | None, tyro.conf.arg(aliases=["-m"], metavar="NAME")] = None,
    arguments: Annotated[str, tyro.conf.arg(metavar="TEXT")] = "",
    timeout: Annotated[float, tyro.conf.arg(metavar="S")] = 600.0,
    save: Annotated[Path, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = Path("run.work.json.gz"),
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
) -> int:
    """Record one training step of a script that torchrun would start, as it is, without a GPU.

    What stands behind -- goes to the script: syncwall capture train.py --world 1024 -- --lr 3e-4.
    The script runs here, with your rights but without a network: capture only what you trust.

    Args:
        script: The file, as torchrun gets it.
        world: Ranks of the job, WORLD_SIZE of the script.
        rank: The rank to record; if it pipelines, one rank of each other stage, too.
        ranks: Only these ranks, one after the other: 0,1,2,3.
        nproc_per_node: Ranks of a node, LOCAL_WORLD_SIZE of the script.
        module: Run this module instead of a file, as torchrun -m does.
        arguments: Arguments of the script as one text, the same as behind --.
        timeout: Give up after so much CPU time, or four times as long on the clock.
        save: Where the program goes, for predict --work; -o for short.
        out: Where the answer goes.
    """
    if sys.platform == "win32":
        raise InputError.of("a script is recorded on Linux or macOS; from Python, anywhere")
    from syncwall.capture.program_file import write_program
    from syncwall.capture.script import Limits, record_script
    from syncwall.documents import refuse_unwritable
    from syncwall.show.records.capture import capture_record
    from syncwall.show.views.capture import capture_view

    started = _script(script, module, arguments)
    numbers = _ranks(ranks, rank, world)
    if timeout < 1 or nproc_per_node < 1:
        raise InputError.of("--timeout and --nproc-per-node are 1 at least")
    out.check()
    refuse_unwritable(save)
    limits = Limits(cpu_s=timeout, wall_s=4.0 * timeout)
    began = time.monotonic()
    try:
        program = record_script(
            started, world_size=world, ranks=numbers, whole_pipeline=ranks is None,
            ranks_per_node=nproc_per_node, limits=limits, say=_say,
        )  # fmt: skip
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        return 130
    seconds = time.monotonic() - began
    write_program(program, save)
    out.write(
        "capture",
        lambda: capture_view(program, str(save), seconds),
        lambda: capture_record(program, str(save), seconds),
    )
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
