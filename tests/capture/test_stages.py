"""Unmodified scripts that pipeline: one rank of each stage, recorded and played together."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import syncwall as sw
from syncwall.capture.script import Script, merged_program, record_script
from syncwall.cause import Cause
from syncwall.describe import lookup
from syncwall.problems import InputError
from syncwall.work.operations import Gemm, Message
from syncwall.work.program import Call, Note, NoteKind, Program, RankProgram, SourceLocation
from tests.capture.forked import Forked

PIPELINE = """
import os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

pp, virtual, width = (int(word) for word in sys.argv[1:4])
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (pp, dist.get_world_size() // pp), mesh_dim_names=("pp", "dp"))
device, group, first = torch.device("cuda"), mesh["pp"].get_group(), mesh["pp"].get_local_rank()
indices, stages = range(first, virtual * pp, pp), virtual * pp

class Wider(nn.Linear):
    def forward(self, x):
        return torch.cat([super().forward(x)] * 2)

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
    def forward(self, x):
        return x * self.weight

def part(index):
    if "wider" in sys.argv:
        return Wider(width, width) if index == 1 else Scale()
    return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(8)))

parts = [part(index).to(device, torch.bfloat16) for index in indices]
built = [PipelineStage(one, i, stages, device, group=group) for one, i in zip(parts, indices)]
made = {"n_microbatches": 8, "loss_fn": lambda y, t: y.sum()}
schedule = ScheduleInterleaved1F1B(built, **made) if virtual > 1 else Schedule1F1B(built[0], **made)
optimizer = torch.optim.SGD([weight for one in parts for weight in one.parameters()])
for _ in range(9):
    x = torch.randn(8 * 4096, width, device=device, dtype=torch.bfloat16)
    x.requires_grad_()
    last = {"target": x} if stages - 1 in indices else {}
    schedule.step(*([x] if first == 0 else []), **last)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PIPELINE)

    def record(*words: object, **kwargs: object) -> Program:
        asked = {"world_size": 8, "start": Forked, **kwargs}
        return record_script(Script("train.py", tuple(map(str, words))), **asked)  # type: ignore[arg-type]

    return record


def messages(rank: RankProgram) -> list[tuple[int, int, float]]:
    return [
        (call.what.sender, call.what.receiver, float(call.what.bytes))
        for call in rank
        if isinstance(call.what, Message)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("pp", "virtual", "bubble"), [(4, 1, 3 / 11), (2, 2, 1 / 17)])
def test_a_pipeline_has_the_bubble_of_its_schedule(script, pp, virtual, bubble):
    program = script(pp, virtual, 8192)
    assert [(one.rank, one.alike) for one in program.ranks] == [
        (stage * 8 // pp, 8 // pp) for stage in range(pp)
    ]
    each = 2 * 4096 * 8192
    for first, second in zip(program.ranks, program.ranks[1:], strict=False):
        between = sorted(m for m in messages(first) if second.rank in m[:2])
        assert between == sorted(m for m in messages(second) if first.rank in m[:2])
        assert {size for *_, size in between} == {each}
    assert program.samples == 8 * 4096 * 8 // pp
    assert program.parameters == 8 * 8192**2 * pp * virtual
    assert not program.notes
    found = sw.predict(program, cluster=lookup.cluster("dgx-h100"))
    waits_s = found.ledger[Cause.BUBBLE] + found.ledger.get(Cause.EXPOSED_PP, 0.0)
    played_s = found.time.intervals[-1].end_s
    assert waits_s / played_s == pytest.approx(bubble, abs=0.03)


@pytest.mark.slow
def test_a_rank_that_expected_other_tensors_is_recorded_again(script):
    said: list[str] = []
    program = script(2, 2, 64, "wider", say=said.append)
    assert [int(one.split()[4]) for one in said] == [0, 4, 0, 4]
    sizes = [{size for *_, size in messages(rank)} for rank in program.ranks]
    assert sizes[0] == sizes[1] == {2 * 4096 * 64, 2 * 2 * 4096 * 64}


@pytest.mark.slow
def test_one_stage_alone_is_said_to_be_one(script):
    program = script(4, 1, 64, ranks=(0,), whole_pipeline=False)
    assert [(one.rank, one.alike) for one in program.ranks] == [(0, 2)]
    assert [note.what for note in program.notes] == ["3 of 4 pipeline stages"]


@pytest.mark.slow
def test_a_later_stage_alone_names_the_flag(script):
    with pytest.raises(InputError, match="--ranks 1,3,5,7"):
        script(4, 1, 64, ranks=(3,))


def test_ranks_that_differ_for_another_reason_are_taken_as_equally_many():
    note = Note(NoteKind.UNKNOWN, "mine.kernel", SourceLocation("", "train.py:3"), 1, 1.0, 2.0)
    rank = RankProgram(0, 8, (Call("aten.mm", Gemm(8, 8, 8)),))
    one = Program(8, (rank,), parameters=5.0, samples=16.0, notes=(note,))
    other = replace(one, ranks=(replace(rank, rank=4),), samples=0.0)
    both = merged_program([one, other])
    assert [(r.rank, r.alike) for r in both.ranks] == [(0, 4), (4, 4)]
    assert (both.parameters, both.samples) == (10.0, 16.0)
    assert both.notes[0] == replace(note, count=2, flops=2.0, bytes=4.0)
    assert both.notes[1].what == "which ranks are like which: taken as equally many"
    assert merged_program([one]) == one
