"""Collectives are those of two real processes over Gloo, in their order and with their bytes."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.capture.programs import collectives, recorded  # noqa: E402
from tests.capture.real_ranks import steps, wrapped  # noqa: E402

pytestmark = pytest.mark.slow


def real(how: str, port: int) -> list[tuple[str, float]]:
    ranks = []
    for rank in range(2):
        given = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.capture.real_ranks", how],
                env={**os.environ, **{name: str(value) for name, value in given.items()}},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    texts = [rank.communicate(timeout=120)[0] for rank in ranks]
    return [(kind, size) for kind, size in json.loads(texts[0].splitlines()[-1])]


@pytest.mark.parametrize(("how", "port"), [("fsdp", 29611), ("ddp", 29612)])
def test_collectives_are_those_of_two_real_processes(how, port):
    rank = recorded(lambda: steps(wrapped(how), 2), 2)
    found = [(one.kind, one.bytes) for _, one in collectives(rank)]
    assert found == real(how, port)
