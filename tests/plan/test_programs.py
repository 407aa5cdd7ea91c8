"""Recorded programs on other numbers of ranks: the laws that tie plans to `predict --work`."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.describe import lookup
from syncwall.plan.network.needed import NetworkPlan, needed
from syncwall.plan.network.targets import Target, TargetLimits
from syncwall.plan.network_scaling import Wires
from syncwall.plan.reference import Reference
from syncwall.plan.wall.sync_wall import WallPlan, wall_of
from syncwall.problems import InputError
from syncwall.show.schema import schema
from syncwall.work.block import StepPhase
from syncwall.work.operations import Collective, Elementwise, Gemm, Group, Message
from syncwall.work.program import Call, Program, RankProgram, ShardedUnit
from syncwall.work.program_variants import resized, why_fixed

CLUSTER = lookup.cluster("dgx-h100")
UNIT = ShardedUnit(((8192, 4096), (1000, 4096), (3, 50)))
FSDP, DDP = Group("shard", 64), Group("dp", 64)


def start(program: Program) -> Reference:
    return Reference(sw.predict(program, cluster=CLUSTER))


def fsdp(world_size: int = 64) -> Program:
    group = Group("shard", world_size)
    padded, shard = UNIT.padded_elements(world_size), UNIT.shard_elements(world_size)
    calls = (
        Call("copy in", Elementwise(4 * shard), "all gather copy in", writes=(0,)),
        Call("gather", Collective("all-gather", 2 * padded, group), "nccl", (0,), writes=(0,)),
        Call("copy out", Elementwise(4 * padded), after=(1,), reads=(0,), writes=(1,)),
        Call("aten.mm", Gemm(8192, 8192, 8192), reads=(1,), writes=(2,)),
        Call("cat", Elementwise(4 * padded + 8e7), reads=(2,), writes=(3,), phase=StepPhase.BACKWARD),
        Call(
            "reduce",
            Collective("reduce-scatter", 4 * padded, group),
            "nccl",
            (4,),
            reads=(3,),
            phase=StepPhase.BACKWARD,
        ),
        Call("adam", Elementwise(24 * shard, kind="optimizer"), after=(5,), phase=StepPhase.FINISH),
    )
    sizes = (2 * padded, 2 * padded, 4e7, 4 * padded)
    rank = RankProgram(0, world_size, calls, sizes, buffers=((0, UNIT), (3, UNIT)))
    return Program(world_size, (rank,), "train.py", samples=2.0 * world_size)


def ddp(*groups: Group) -> Program:
    calls = tuple(Call("reduce", Collective("all-reduce", 1e8, one), "nccl") for one in groups)
    rank = RankProgram(0, 64, (Call("aten.mm", Gemm(8192, 8192, 8192)), *calls))
    return Program(64, (rank,), samples=64.0)


def values(program: Program) -> list[tuple[str, float, float]]:
    return [
        (
            call.name,
            float(getattr(call.what, "bytes", 0.0)),
            float(call.what.group.ranks) if isinstance(call.what, Collective) else 0.0,
        )
        for call in program.ranks[0]
    ]


@pytest.mark.parametrize("ranks", [8, 128, 1024, 65536])
def test_what_fsdp_sends_and_copies_follows_from_its_parameters(ranks):
    found, recorded = resized(fsdp(), ranks), fsdp(ranks)
    for one, other in zip(values(found), values(recorded), strict=True):
        assert one == pytest.approx(other)
    assert found.samples == recorded.samples
    assert found.ranks[0].alike == ranks
    assert found.ranks[0].tensor_bytes[0] == pytest.approx(recorded.ranks[0].tensor_bytes[0])


def test_replicas_grow_and_shards_stay():
    group, replicas = Group("shard", 16), Group("replica", 4, 16)
    gather = Collective("all-gather", 1e8, group)
    calls = (Call("gather", gather, "nccl"), *ddp(replicas).ranks[0].calls)
    program = Program(64, (RankProgram(0, 64, calls),))
    assert why_fixed(program) is None
    found = resized(program, 256)
    assert [row[2] for row in values(found)] == [16, 0, 16]
    with pytest.raises(ValueError, match="multiples"):
        resized(program, 24)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (ddp(DDP, Group("tp", 8)), r"groups of 8 ranks \(tp\) split the model"),
        (ddp(DDP, Group("ep", 8)), r"8 ranks \(ep\)"),
        (ddp(DDP, Group("other", 8)), r"8 ranks \(other\) are for is not known"),
        (Program(1, (RankProgram(0, 1, ()),)), "one rank"),
        (Program(2, (RankProgram(0, 1, (Call("send", Message(1, 0, 1)),)),)), "pipeline"),
        (replace(fsdp(), ranks=(replace(fsdp().ranks[0], buffers=()),)), "record it again"),
    ],
)
def test_what_splits_the_model_is_refused_with_its_group(program, reason):
    with pytest.raises(InputError, match=reason):
        _ = start(program).case


@pytest.mark.parametrize("program", [fsdp(), ddp(DDP)])
def test_plans_show_the_step_of_predict_at_the_recorded_size(program):
    step_s = sw.predict(program, cluster=CLUSTER).step_s
    wall = WallPlan(start(program), wall_of(start(program), 1024))
    at = list(wall.weak.curve.gpus).index(64)
    assert wall.weak.curve.step_s[at] == pytest.approx(step_s, rel=1e-9)
    assert wall.to_dict()["recorded_step_s"] == pytest.approx(step_s, rel=1e-9)
    (network,) = needed(start(program), [], TargetLimits())
    assert network.step_s == pytest.approx(step_s, rel=1e-9)
    assert start(program).case.timed(sw.Layout(dp=64)).step_s == pytest.approx(step_s, rel=1e-9)


def test_the_nic_that_is_needed_is_just_enough():
    case, (found,) = start(fsdp()).case, needed(start(fsdp()), [64], TargetLimits())
    rate = found.nic_bytes_per_s[Target.EFFICIENCY]
    assert rate
    assert CLUSTER.node.nics is not None
    factor = rate / float(CLUSTER.node.nics.rate_bytes_per_s)
    rates = Wires(nic=factor * np.array([1.0, 0.98]))
    enough, less = case.timed(sw.Layout(dp=64), rates).step_s
    assert found.ideal.step_s / enough >= 0.9 > found.ideal.step_s / less


def test_people_and_programs_get_the_same_answer():
    begin = start(fsdp())
    for found, verb in (
        (WallPlan(begin, wall_of(begin, 256)), "plan wall work"),
        (NetworkPlan(begin, needed(begin, [64, 128], TargetLimits())), "plan network work"),
    ):
        jsonschema.validate(json.loads(json.dumps(found.to_dict())), schema(verb))
        assert "each rank keeps the batch" in " ".join(str(found).split())


@pytest.mark.parametrize(
    "words",
    [
        "plan wall --best-layout",
        "plan network --strong",
        "plan wall --tp 2",
        "plan network --seq 9",
    ],
)
def test_flags_of_descriptions_are_refused(words, capsys):
    work = "examples/capture/hybrid.work.json.gz"
    assert main([*words.split(), "--work", work, "--cluster", "dgx-h100"]) == 2
    said = capsys.readouterr().err
    assert any(words in said for words in ("recorded program", "program recorded", "descriptions"))


def test_the_curve_of_a_program_is_drawn(tmp_path):
    work = "examples/capture/hybrid.work.json.gz"
    words = ["plan", "wall", "--work", work, "--cluster", "dgx-h100", "--most", "512", "--chart"]
    assert main([*words, str(tmp_path / "wall.svg")]) == 0
    assert "weak: 512 GPUs" in (tmp_path / "wall.svg").read_text()
