"""Recorded programs beside the same programs really run by processes over Gloo."""

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.capture.real_programs import PROGRAMS
from tests.capture.real_run import LIMITS, real, recorded

from bench import Names
from syncwall.capture.script import Script
from syncwall.problems import InputError

_FOUR: Final = ("hsdp", "fsdp-tp")
"""Those that take four processes; others take two."""
_EXAMPLES: Final = "distributed"
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
