"""What is tuned of FSDP: laws of units, prefetch, resharding and formats."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.many import timed_layouts
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Layout, Run
from syncwall.work.block import StepPhase, Stream
from syncwall.work.memory import step_memory
from syncwall.work.operations import Collective

MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "gpt2-xl")
CLUSTERS = ("dgx-h100", "aws-p4d")


def fsdp(model: str = MODELS[0], cluster: str = CLUSTERS[0], nodes: int = 4, **more: Any) -> Run:
    stated = {"shard": "fsdp", "micro_batch": 1, "global_batch": 16 * nodes, "recompute": "none"}
    layout = Layout.model_validate(stated | more)
    return Run(
        model=sw.model(model),
        cluster=sw.cluster(cluster),
        nodes=nodes,
        layout=layout,
        seq=1024,
        software={"framework": "torchtitan"},
    )


def predicted(**more: Any) -> Prediction:
    return sw.predict(fsdp(**more))


def sent(found: Prediction, stream: Stream, phases: tuple[StepPhase, ...] | None = None) -> float:
    """Bytes of the collectives on a stream in a step."""
    stage = found.work.stages[-1]
    return sum(
        float(what.bytes * times)
        for operation, what, times in stage.collectives(found.work.microbatches)
        if operation.stream is stream and (phases is None or operation.phase in phases)
    )


def gathered(found: Prediction, *, backward: bool) -> float:
    """Bytes of weights that one pass of a micro batch gathers."""
    stage = found.work.stages[-1]
    blocks = stage.backward if backward else stage.forward
    return sum(
        float(one.what.bytes * block.rounds)
        for block in blocks
        for one in block.operations
        if one.stream is Stream.GATHER and isinstance(one.what, Collective)
    )


some_runs = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "cluster": st.sampled_from(CLUSTERS),
        "nodes": st.sampled_from([1, 4, 32]),
        "micro_batch": st.sampled_from([1, 2]),
        "recompute": st.sampled_from(["none", "full"]),
        "fsdp_copies": st.booleans(),
    }
)
few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(some_runs, st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3]))
def test_deeper_prefetch_never_slows_a_step_and_never_needs_less_memory(run, one, more, unit):
    runs = [
        predicted(**run, unit_layers=unit, forward_prefetch=depth, backward_prefetch=depth)
        for depth in (one, one + more)
    ]
    assert runs[1].step_s <= runs[0].step_s * (1 + 1e-9)
    assert runs[1].memory.total >= runs[0].memory.total


@few
@given(some_runs, st.integers(2, 100))
def test_units_change_no_sum_of_bytes(run, unit):
    plain, several = (
        predicted(**run),
        predicted(**run, unit_layers=unit, reshard_after_forward=True),
    )
    for stream in (Stream.GATHER, Stream.REDUCE):
        assert sent(several, stream) == pytest.approx(sent(plain, stream), rel=1e-9)
    assert several.memory.total >= plain.memory.total * (1 - 1e-12)
    computed = (Cause.GEMM, Cause.ATTENTION, Cause.ELEMENTWISE, Cause.OPTIMIZER, Cause.RECOMPUTE)
    for cause in computed:
        assert several.ledger[cause] == pytest.approx(plain.ledger[cause], rel=1e-9)


@few
@given(some_runs)
def test_without_resharding_exactly_the_gathers_of_the_backward_pass_are_saved(run):
    plain, kept = predicted(**run), predicted(**run, reshard_after_forward=False)
    assert gathered(plain, backward=True) == pytest.approx(gathered(plain, backward=False))
    assert gathered(kept, backward=True) == 0
    assert gathered(kept, backward=False) == gathered(plain, backward=False)
    assert sent(kept, Stream.REDUCE) == sent(plain, Stream.REDUCE)
    assert kept.step_s <= plain.step_s
    assert kept.memory.total >= plain.memory.total


@few
@given(some_runs, st.sampled_from([2, 4, 8]))
def test_few_ranks_hold_weights_between_the_passes(run, ranks):
    """ZeRO++ hpZ: between plain FSDP and weights that are kept, in time and in memory."""
    plain, kept = predicted(**run), predicted(**run, reshard_after_forward=False)
    part = predicted(**run, reshard_after_forward=ranks)
    assert plain.memory.total <= part.memory.total <= kept.memory.total
    assert kept.step_s <= part.step_s * (1 + 1e-9)
    if plain.run.nodes > 1:
        assert part.step_s <= plain.step_s * (1 + 1e-9)


def test_few_ranks_are_a_part_of_all():
    assert predicted(nodes=1, reshard_after_forward=8).step_s == predicted(nodes=1).step_s
    with pytest.raises(ValueError, match="12 does not divide shard_degree 32"):
        fsdp(reshard_after_forward=12)


def test_the_first_gather_of_a_whole_model_is_exposed_whole():
    one = predicted(unit_layers=1000, global_batch=32, reshard_after_forward=False)
    stage = one.work.stages[-1]
    (block,) = stage.forward
    tasks = [op.what for op in block.operations if op.stream is Stream.GATHER]
    (gather,) = [what for what in tasks if isinstance(what, Collective)]
    prices = one.pricing.timed(one.work, one.run.cluster).prices
    alone_s = float(prices.seconds(gather))
    assert one.ledger[Cause.EXPOSED_GATHER] == pytest.approx(alone_s, rel=1e-9)
    assert gather.bytes == pytest.approx(2 * one.run.model.parameters, rel=0.01)


def test_pytorch_keeps_what_only_the_root_shards():
    whole = {"unit_layers": 1000}
    assert predicted(**whole).step_s == predicted(**whole, reshard_after_forward=False).step_s
    assert predicted(**whole).step_s < predicted(**whole, reshard_after_forward=True).step_s


@pytest.mark.parametrize("few", [{"gather_dtype": "int8"}, {"quantized_gradients": True}])
def test_fewer_bits_on_the_way_help_where_the_network_is_slow(few):
    slow = {"cluster": "aws-p4d", "nodes": 32}
    assert predicted(**slow, **few).step_s < predicted(**slow).step_s


def test_bits_on_the_way():
    """ZeRO++: half of the bytes of weights in 8 bits, an eighth of fp32 gradients in 4."""
    plain = predicted(gradient_dtype="fp32")
    narrow = predicted(gradient_dtype="fp32", gather_dtype="int8", quantized_gradients=True)
    assert sent(narrow, Stream.GATHER) == sent(plain, Stream.GATHER) / 2
    assert sent(narrow, Stream.REDUCE) == sent(plain, Stream.REDUCE) / 8
    assert narrow.memory.unsharded_weights == plain.memory.unsharded_weights
    fp8 = {"precision": "fp8"}
    gathered_in_8 = predicted(**fp8, gather_dtype="fp8").memory.unsharded_weights
    assert gathered_in_8 == predicted(**fp8).memory.unsharded_weights / 2


def test_nothing_of_it_matters_without_fsdp_or_in_a_pipeline():
    tuned = {"unit_layers": 4, "forward_prefetch": 3, "backward_prefetch": 2, "reshard_after_forward": False}
    for other in ({"shard": "zero1"}, {"shard": "ddp"}, {"pp": 2}):
        assert predicted(**other, **tuned).step_s == predicted(**other).step_s


def test_many_layouts_at_once_are_what_each_is_alone():
    """In arrays, layouts with and without units stand side by side."""
    run = fsdp(unit_layers=5, forward_prefetch=3, reshard_after_forward=True)
    pricing = sw.predict(run).pricing
    cases = [{"shard": shard, "pp": pp} for shard in ("ddp", "zero1", "fsdp") for pp in (1, 2)]
    layouts = [predicted(**one, unit_layers=5, forward_prefetch=3).run.layout for one in cases]
    found = timed_layouts(pricing, run.model, run.cluster, layouts, run.seq)
    for layout, one in zip(layouts, found, strict=True):
        alone = pricing.step(run.model, layout, run.seq, run.cluster)
        assert one.step_s == pytest.approx(float(alone.step_s), rel=1e-9)
        assert one.memory_bytes == pytest.approx(step_memory(run.model, layout, run.seq).total)
