"""Recorded programs beside the same programs really run by processes over Gloo."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bench import Names
from syncwall.capture.script import Script
from syncwall.problems import InputError

_FOUR: Final = ("hsdp", "fsdp-tp")
"""Those that take four processes; others take two."""
_NANOGPT: Final = (
    "--dataset=shakespeare_char --device=cuda --backend=gloo --compile=False --dtype=float32 "
    "--n_layer=4 --n_head=4 --n_embd=128 --block_size=64 --batch_size=8 --gradient_accumulation_steps=4 "
    "--eval_iters=1 --max_iters=3 --lr_decay_iters=3"
)


@dataclass(frozen=True)
class PublicProgram:
    """A program of somebody else, at a fixed commit, unmodified."""

    source: str
    commit: str
    folder: str
    script: str
    arguments: str = ""
    world: int = 2


_PYTORCH: Final = ("pytorch/examples", "77f55b912142e11fcfdf5b530231fb9c52f181e8")
_PARALLEL: Final = (*_PYTORCH, "distributed/tensor_parallelism")
PUBLIC: Final = {
    "nanoGPT": PublicProgram(
        "karpathy/nanoGPT", "3adf61e154c3fe3fca428ad6bc3818b27a3b8291", "", "train.py", _NANOGPT
    ),
    "examples-tp": PublicProgram(*_PARALLEL, "tensor_parallel_example.py"),
    "examples-sp": PublicProgram(*_PARALLEL, "sequence_parallel_example.py"),
    "examples-fsdp-tp": PublicProgram(*_PARALLEL, "fsdp_tp_example.py", world=4),
    "examples-fsdp2": PublicProgram(*_PYTORCH, "distributed/FSDP2", "example.py"),
}


@dataclass(frozen=True)
class Line:
    """One rank of a program, or why there is nothing to compare."""

    name: str
    rank: int = 0
    differences: dict[str, float] | None = None
    refused: str = ""

    @property
    def is_within(self) -> bool:
        from tests.capture.real_run import LIMITS

        found = self.differences or dict.fromkeys(LIMITS, 1.0)
        return all(abs(found[what]) <= most for what, most in LIMITS.items())


def compared(name: str, script: Script, posing: Script, world: int) -> Iterator[Line]:
    """`script` really run, `posing` (the same on CUDA) recorded: a line for each recorded rank."""
    from tests.capture.real_run import real, recorded

    try:
        found = recorded(posing, world)
    except InputError as error:
        yield Line(name, refused=str(error).splitlines()[0])
        return
    true = real(script, world)
    for rank, step in found.items():
        yield Line(name, rank, step.differences(true[rank]))


def own(name: str) -> Iterator[Line]:
    on = {
        device: Script("tests.capture.real_programs", (name, device), is_module=True)
        for device in ("cpu", "cuda")
    }
    yield from compared(name, on["cpu"], on["cuda"], 4 if name in _FOUR else 2)


@contextlib.contextmanager
def checked_out(mirrors: Path, source: str, commit: str, part: str = "") -> Iterator[Path]:
    """A folder of a public program at a commit, from a clone, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "-q", "-n", str(mirrors / source), folder], check=True)
        words = ["git", "-C", folder, "checkout", "-q", commit, "--", part or "."]
        subprocess.run(words, check=True)
        yield Path(folder, part)


def public(name: str, mirrors: Path) -> Iterator[Line]:
    program = PUBLIC[name]
    script = Script(program.script, tuple(program.arguments.split()))
    with checked_out(mirrors, program.source, program.commit, program.folder) as folder:
        if name == "nanoGPT":
            _write_tokens(folder / "data" / "shakespeare_char")
        with contextlib.chdir(folder):
            yield from compared(name, script, script, program.world)


def _write_tokens(folder: Path) -> None:
    """In place of a text that is downloaded."""
    tokens = np.random.default_rng(0).integers(0, 65, 20_000).astype(np.uint16)
    for part in ("train", "val"):
        tokens.tofile(folder / f"{part}.bin")


def together(names: Names = (), mirrors: Path | None = None, check: bool = False) -> int:
    """Recorded programs beside the same ones really run by two or four processes over Gloo.

    Compares FLOPs with those of FlopCounterMode, bytes of each kind of collective with those that
    are sent, and the most memory with all storages that are alive. With --check the exit code is 1
    if one differs by more than 2%, 0.1% or 5%.

    Args:
        names: Programs; all if none are named.
        mirrors: A folder with clones of public programs, as OWNER/NAME; without it they are left out.
        check: Fail if a program differs.
    """
    from tests.capture.real_programs import PROGRAMS
    from tests.capture.real_run import LIMITS

    chosen = names or (*PROGRAMS, *(PUBLIC if mirrors else ()))
    lines = []
    print(f"{'program':20} rank" + "".join(f"{what:>10}" for what in LIMITS))
    for name in chosen:
        found = public(name, mirrors) if mirrors and name in PUBLIC else own(name)
        for line in found:
            lines.append(line)
            values = "".join(f"{one:+10.2%}" for one in (line.differences or {}).values())
            print(f"{name:20}{line.rank:5}{values or '  ' + line.refused}", flush=True)
    within = sum(line.is_within for line in lines)
    print(f"{within} of {len(lines)} ranks within {LIMITS}")
    return int(check and within < len(lines))
