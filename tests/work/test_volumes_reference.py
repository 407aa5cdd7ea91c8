"""Communication volumes against what real DDP, FSDP2 and TP runs send over Gloo."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Layout, Model
from syncwall.work.block import Block
from syncwall.work.operations import Collective
from syncwall.work.transformer_step import transformer_step

pytestmark = pytest.mark.slow

RANKS = 4
MODEL = Model.model_validate(
    {"layers": 2, "hidden": 64, "vocab": 256, "attention": {"heads": 4}, "mlp": {"hidden": 128}}
)


def counted(kind: str, output: Path) -> dict[str, int]:
    """Bytes by collective of the second step of a real run on four ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    worker = Path(__file__).with_name("gloo_worker.py")
    shared = os.environ | {
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, "-W", "ignore", str(worker), kind, str(output)]
    ranks = [
        subprocess.Popen(command, env=shared | {"RANK": str(rank)}, stderr=subprocess.PIPE)
        for rank in range(RANKS)
    ]
    errors = [rank.communicate(timeout=120)[1].decode() for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), errors
    found: dict[str, int] = json.loads(output.read_text())
    return found


def predicted(layout: Layout, blocks: str = "") -> dict[str, int]:
    """Bytes by collective of one step, of all blocks or those of a name."""
    stage = transformer_step(MODEL, layout, 16).stages[-1]
    total: Counter[str] = Counter()
    chosen: tuple[Block, ...] = (*stage.forward, *stage.last_backward, *stage.finish)
    for block in chosen:
        for operation in block.operations if blocks in block.name else ():
            what: Any = operation.what
            if isinstance(what, Collective):
                total[what.kind] += round(float(what.bytes * block.rounds))
    return {kind: size for kind, size in total.items() if size}


@pytest.mark.parametrize(
    ("kind", "layout", "blocks"),
    [
        ("ddp", {"micro_batch": 2, "gradient_dtype": "fp32"}, ""),
        ("fsdp", {"micro_batch": 2, "shard": "fsdp", "gradient_dtype": "bf16"}, ""),
        ("tp", {"micro_batch": 2, "tp": RANKS}, "dense layer"),
    ],
)
def test_volumes_equal_what_a_real_run_sends(kind, layout, blocks, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    found = counted(kind, tmp_path / "bytes.json")
    assert predicted(Layout.model_validate(layout).resolved(RANKS), blocks) == found
