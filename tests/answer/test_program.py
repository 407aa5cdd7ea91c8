"""A recorded program of a few layers, predicted: numbers, memory, modules, changes."""

import json
from dataclasses import replace

import jsonschema
import pytest

import syncwall as sw
from syncwall.describe import lookup
from syncwall.problems import InputError
from syncwall.show.schema import schema
from syncwall.work.block import StepPhase
from syncwall.work.operations import Collective, Elementwise, Gemm, Group
from syncwall.work.program import (
    Call,
    Held,
    HeldKind,
    Note,
    NoteKind,
    Program,
    RankProgram,
    SourceLocation,
)
from syncwall.work.program_variants import ProgramChangeKind, larger_buckets

SHARD = Group("shard", 16, 1)
CLUSTER = lookup.cluster("dgx-h100")


def layer(number: int, before: int) -> list[Call]:
    """A gather, a multiplication that waits for it, and two kernels that a compiler joins."""
    place = SourceLocation(f"layers.{number}.mlp", "train.py:10")
    first, tensors = before, 4 * number
    return [
        Call("gather", Collective("all-gather", 4e8, SHARD), "nccl"),
        Call("aten.mm", Gemm(8192, 8192, 4096), after=(first,), place=place, writes=(tensors + 1,)),
        Call(
            "aten.silu",
            Elementwise(3e8, is_fused=True),
            place=place,
            reads=(tensors + 1,),
            writes=(tensors + 2,),
        ),
        Call(
            "aten.mul",
            Elementwise(3e8, is_fused=True),
            place=place,
            reads=(tensors + 2,),
            writes=(tensors + 3,),
        ),
        Call(
            "aten.mm",
            Gemm(8192, 4096, 8192),
            place=place,
            reads=(tensors + 3,),
            writes=(tensors + 4,),
            phase=StepPhase.RECOMPUTE,
        ),
    ]


def program(layers: int = 4, world_size: int = 16) -> Program:
    calls: list[Call] = []
    for number in range(layers):
        calls += layer(number, len(calls))
        last = (len(calls) - 1,)
        place = SourceLocation("", "train.py:40")
        calls.append(Call("item", None, after=last, host_waits=True, place=place))
    optimizer = Call("adam", Elementwise(1e9, is_fused=True, kind="optimizer"), phase=StepPhase.FINISH)
    held = (Held(HeldKind.WEIGHTS, "layers", 2e9), Held(HeldKind.ACTIVATIONS, "layers", 8e9))
    tensors = tuple([1.5e8] * (4 * layers + 2))
    rank = RankProgram(0, world_size, (*calls, optimizer), tensors, held)
    return Program(world_size, (rank,), "train.py", "2.13.0", samples=32.0, parameters=1e9)


def test_a_program_is_predicted_on_any_cluster():
    faster, slower = (
        sw.predict(program(), cluster=lookup.cluster(name)) for name in ("dgx-b200", "dgx-a100")
    )
    assert faster.step_s < slower.step_s
    for found in (faster, slower):
        assert sum(found.ledger.values()) == pytest.approx(found.step_s)
        assert found.program.model_flops == 16 * 4 * Gemm(8192, 8192, 4096).flops
        assert found.mfu == pytest.approx(
            found.program.model_flops / found.step_s / 16 / found.peak_flop_per_s
        )
        assert found.hfu == pytest.approx(2 * found.mfu)
        assert found.samples_per_s == pytest.approx(32.0 / found.step_s)


def test_ranks_fill_nodes():
    assert sw.predict(program(world_size=4), cluster=CLUSTER).cluster.gpus == 4
    assert sw.predict(program(world_size=64), cluster=CLUSTER).cluster.nodes == 8
    with pytest.raises(InputError, match="12 ranks, which do not fill nodes of 8 GPUs"):
        sw.predict(program(world_size=12), cluster=CLUSTER)


def test_a_machine_is_needed():
    with pytest.raises(TypeError, match="price of a Program"):
        sw.predict(program())  # type: ignore[call-overload]


def test_a_compiler_joins_kernels():
    eager, compiled = (sw.predict(program(), cluster=CLUSTER, compiled=one) for one in (False, True))
    assert compiled.ledger["elementwise"] < 0.7 * eager.ledger["elementwise"]
    assert compiled.ledger["GEMM"] == pytest.approx(eager.ledger["GEMM"])
    asked = sw.predict(replace(program(), compiled=True), cluster=CLUSTER)
    assert asked.step_s == compiled.step_s


def test_layers_are_one_line_of_where():
    shares = {share.name: share for share in sw.predict(program(), cluster=CLUSTER).by_module()}
    assert set(shares) == {"layers.*.mlp", "elsewhere"}
    assert shares["layers.*.mlp"].calls == 16


def test_what_does_not_fit_says_so():
    found = sw.predict(program(), cluster=CLUSTER)
    assert found.fits
    assert found.memory_bytes == pytest.approx(2e9 + 8e9 + 1e9 + 0.3e9)
    times = found.largest_batch
    assert times is not None
    assert found.memory_bytes + (times - 1) * 8e9 == pytest.approx(0.95 * CLUSTER.device.memory.size_bytes)
    rank = replace(program().ranks[0], held=(Held(HeldKind.ACTIVATIONS, "layers", 2e11),))
    large = sw.predict(replace(program(), ranks=(rank,)), cluster=CLUSTER)
    assert not large.fits
    assert large.verdict.text.startswith("does not fit")


def test_every_change_brings_what_pricing_it_says():
    found = sw.predict(program(), cluster=CLUSTER)
    changes = {change.kind: change for change in found.improvements}
    assert changes[ProgramChangeKind.HOST_WAITS].where == ("train.py:40",)
    compiled = sw.predict(program(), cluster=CLUSTER, compiled=True)
    gained_s = changes[ProgramChangeKind.COMPILE].gained_s
    assert gained_s == pytest.approx(found.step_s - compiled.step_s)
    assert changes[ProgramChangeKind.RECOMPUTE].gained_s > 0.5 * found.ledger["recompute"]
    assert ProgramChangeKind.PADDING not in changes


def test_the_source_of_a_change_is_as_fast_as_it_says():
    found = sw.predict(program(), cluster=CLUSTER)
    assert len(found.improvements) > 2
    for one in found.improvements:
        assert isinstance(one.source, Program)
        then = sw.predict(one.source, cluster=CLUSTER)
        assert found.step_s - then.step_s == pytest.approx(one.gained_s)


def test_a_prediction_has_a_run_or_a_program():
    run = sw.Run.model_validate({"model": "llama-3.1-8b", "cluster": "dgx-h100"})
    recorded, described = sw.predict(program(), cluster=CLUSTER), sw.predict(run)
    assert (recorded.verb, described.verb) == ("predict work", "predict")
    assert recorded.program.world_size == 16
    with pytest.raises(AttributeError, match="it has no run"):
        _ = recorded.run
    with pytest.raises(AttributeError, match="it has no program"):
        _ = described.program


def test_padding_is_named_with_its_parameter():
    note = Note(NoteKind.PADDED, "pos_embed", bytes=4e8, useful_bytes=1e7)
    found = sw.predict(replace(program(), notes=(note,)), cluster=CLUSTER)
    (change,) = [one for one in found.improvements if one.kind is ProgramChangeKind.PADDING]
    assert change.where == ("pos_embed",)
    assert change.gained_s > 0


def reduced(sizes: list[float]) -> Program:
    """A backward pass whose gradients DDP reduces one bucket after the other."""
    calls: list[Call] = []
    for size in sizes:
        calls.append(Call("aten.mm", Gemm(512, 512, 512), phase=StepPhase.BACKWARD))
        reduce = Collective("all-reduce", size, Group("dp", 16))
        calls.append(Call("reduce", reduce, "nccl", (len(calls) - 1,), StepPhase.BACKWARD))
    last = tuple(range(1, len(calls), 2))
    calls.append(Call("adam", Elementwise(1e6), after=last, phase=StepPhase.FINISH))
    return Program(16, (RankProgram(0, 16, tuple(calls)),), "ddp.py")


def test_small_buckets_are_joined_and_the_price_is_that_of_larger_ones():
    found = sw.predict(reduced([1e5] * 8), cluster=CLUSTER)
    (change,) = [one for one in found.improvements if one.kind is ProgramChangeKind.BUCKETS]
    assert change.where == ("bucket_cap_mb=0.191",)
    larger = larger_buckets(reduced([1e5] * 8))
    assert larger is not None
    gained_s = found.step_s - sw.predict(larger, cluster=CLUSTER).step_s
    assert change.gained_s == pytest.approx(gained_s)
    assert gained_s > 0
    (changed,) = larger_buckets(reduced([1e5, 1e5, 3e5])).ranks  # type: ignore[union-attr]
    moved = [c.what.bytes for c in changed if isinstance(c.what, Collective)]
    assert moved == [2e5, 3e5]
    assert changed.calls[-1].after == (2, 4)
    assert changed.calls[2].after == (0, 1)


def test_a_bucket_that_is_waited_for_at_once_stays():
    made = reduced([1e5, 1e5])
    calls = list(made.ranks[0].calls)
    calls[2] = replace(calls[2], after=(1,))
    assert larger_buckets(replace(made, ranks=(replace(made.ranks[0], calls=tuple(calls)),))) is None


def test_much_unknown_work_is_part_of_the_verdict():
    moved = sum(float(getattr(call.what, "hbm_bytes", 0.0)) for call in program().ranks[0])
    note = Note(NoteKind.UNKNOWN, "aten.fft", bytes=0.2 * moved)
    sure = sw.predict(program(), cluster=CLUSTER)
    unsure = sw.predict(replace(program(), notes=(note,)), cluster=CLUSTER)
    assert unsure.unknown == pytest.approx(0.2)
    assert unsure.verdict.text.endswith("20% of its work is not known")
    assert unsure.step_interval_s[1] > sure.step_interval_s[1]


@pytest.mark.parametrize("kind", [NoteKind.UNKNOWN, NoteKind.PLACEHOLDER, NoteKind.NOT_RECORDED])
def test_recording_and_price_agree_on_how_much_is_not_known(kind):
    flops = program().ranks[0].model_flops + program().ranks[0].recompute_flops
    made = replace(program(), notes=(Note(kind, "mine.kernel", flops=0.3 * flops),))
    found = sw.predict(made, cluster=CLUSTER)
    assert found.unknown == pytest.approx(0.3)
    assert "30% of the work is not known" in str(made)
    assert "30% of its work is not known" in found.verdict.text
    assert found.to_dict()["notes"] == made.to_dict()["notes"]


def test_people_and_programs_get_the_same_answer():
    found = sw.predict(program(), cluster=CLUSTER)
    data = found.to_dict()
    jsonschema.validate(json.loads(json.dumps(data)), schema("predict work"))
    assert data["step_s"] == found.step_s
    text = str(found)
    assert "layers.*.mlp" in text
    assert "train.py:40" in text


def test_the_timeline_fills_the_step():
    found = sw.predict(program(), cluster=CLUSTER)
    timeline = found.timeline()
    assert {one.stream for one in timeline.intervals} == {"compute", "nccl"}
    assert timeline.spans[-1].phase is StepPhase.FINISH
    assert timeline.end_s <= found.step_s
    assert timeline.trace()["traceEvents"]


def test_a_program_is_predicted_on_a_cluster_by_its_name():
    program = sw.read_program("examples/capture/hybrid.work.json.gz")
    named = sw.predict(program, cluster="dgx-h100")
    assert named.step_s == sw.predict(program, cluster=lookup.cluster("dgx-h100")).step_s
