"""Dumps that torch itself writes: two Gloo processes, one of which starts a collective alone."""

import subprocess
import sys

import pytest

from syncwall.explain.hang import find_hangs
from syncwall.read.flight_recorder import read_flight_recorder

c10d = pytest.importorskip("torch._C._distributed_c10d", reason="needs torch")
pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys, time
os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
import torch, torch.distributed as dist, torch._C._distributed_c10d as c10d
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
tensor = torch.ones(4, 8)
for _ in range(3):
    dist.all_reduce(tensor)
if rank == 0:
    work = dist.broadcast(torch.ones(16), 0, async_op=True)
    work = dist.all_reduce(torch.ones(16), async_op=True)
time.sleep(0.5)
open(f"{folder}/trace_rank_{rank}", "wb").write(c10d._dump_fr_trace())
json = c10d._dump_fr_trace_json()
open(f"{folder}/trace_{rank}.json", "wb").write(json if isinstance(json, bytes) else json.encode())
open(f"{folder}/done_{rank}", "w").close()
while not os.path.exists(f"{folder}/done_{1 - rank}"):  # A peer that leaves ends the collective.
    time.sleep(0.01)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(c10d, "_dump_fr_trace"), reason="needs torch 2.9 or later")
def test_the_rank_that_stays_away_is_found_in_real_dumps(tmp_path):
    workers = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), str(tmp_path)]) for rank in range(2)
    ]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    for pattern in ("trace_rank_{}", "trace_{}.json"):
        dumps = [read_flight_recorder(tmp_path / pattern.format(rank)) for rank in range(2)]
        assert [len(dump.entries) for dump in dumps] == [5, 3]
        (hang,) = find_hangs(dumps)
        assert hang.kind == "missing"
        assert (hang.waiting, hang.missing) == ((0,), (1,))
        assert hang.sequence in (4, 5)
