from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.cause import Cause
from syncwall.describe import Layout, Model, lookup
from syncwall.describe.layer_kinds import Mixer
from syncwall.work.activations import SavedBytes, layer_tensors, saved_by_kind
from syncwall.work.block import Stream
from syncwall.work.flops import forward_flops
from syncwall.work.layer import Shape
from syncwall.work.memory import step_memory
from syncwall.work.operations import Collective, Gemm, Scan
from syncwall.work.rank_layers import Kinds, mixer_parts, scan_flops
from syncwall.work.rank_parameters import layer_parameters
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import MOE, model

HYBRIDS = (
    "mamba2-2.7b",
    "nemotron-h-8b",
    "nemotron-3-nano",
    "nemotron-3-super",
    "qwen3-next-80b-a3b",
    "kimi-linear-48b-a3b",
    "minimax-text-01",
    "falcon-h1-1.5b",
    "lfm2-1.2b",
)
SEQ = 8192


def mixer_of(name: str) -> Mixer:
    found = lookup.model(name).mixer
    assert found is not None
    return found


def shape(name: str, **fields) -> Shape:
    layout = Layout.model_validate(fields)
    ranks = int(layout.tp * layout.cp * layout.pp)
    return Shape(lookup.model(name), layout.resolved(ranks), SEQ)


@pytest.mark.parametrize("written", [{"pattern": "*-"}, {"pattern": "*E", "moe": MOE, "mlp": None}])
@pytest.mark.parametrize("fields", [{}, {"tp": 2, "pp": 2, "recompute": "full"}, {"dp": 8}])
def test_a_pattern_of_nothing_but_attention_is_the_same_step(written, fields):
    """One description of a model gives the same operations and bytes as the other."""
    plain = {key: value for key, value in written.items() if key != "pattern"}
    layout = Layout.model_validate(fields).resolved(8)
    with_pattern, without = (model(**changes) for changes in (written, plain))
    works = [transformer_step(one, layout, 4096) for one in (with_pattern, without)]
    assert repr(works[0]) == repr(works[1])
    assert step_memory(with_pattern, layout, 4096) == step_memory(without, layout, 4096)


@pytest.mark.parametrize("name", HYBRIDS)
def test_layers_hold_all_parameters_and_multiply_with_all_of_them(name):
    """Weights of a stage are those of the model, and FLOP are two for each that a token meets."""
    one = shape(name)
    chosen = one.model
    held = sum(
        kind.count * (held.plain + held.experts)
        for kind in chosen.layer_kinds
        for held in [layer_parameters(one, kind)]
    )
    count = chosen.parameter_count
    ends = count.embedding + count.head + chosen.hidden
    assert held + ends == pytest.approx(count.total, rel=1e-12)
    total, core = forward_flops(chosen, SEQ)
    weights = count.active - count.embedding + chosen.tied_embeddings * count.embedding
    assert (total - core) / SEQ == pytest.approx(2 * weights, rel=0.003)


@pytest.mark.parametrize("name", HYBRIDS)
def test_tensor_ranks_share_the_work_of_a_mixer(name):
    alone, shared = (
        sum(
            float(part.forward.flops)
            for part in mixer_parts(shape(name, tp=tp))
            if isinstance(part.forward, Gemm | Scan)
        )
        for tp in (1, 4)
    )
    assert shared == pytest.approx(alone / 4)


@given(name=st.sampled_from(HYBRIDS), factor=st.integers(2, 16))
def test_a_scan_grows_with_the_sequence_and_attention_with_its_square(name, factor):
    chosen = lookup.model(name)
    mixer = mixer_of(name)
    assert scan_flops(mixer, factor * SEQ) == pytest.approx(factor * scan_flops(mixer, SEQ))
    short, long = (forward_flops(chosen, n)[1] for n in (SEQ, factor * SEQ))
    assert factor * short * (1 - 1e-9) <= long <= factor**2 * short


def test_context_ranks_exchange_heads_for_sequence():
    there = mixer_parts(shape("nemotron-h-8b", cp=2))
    moved = [part.forward for part in there if isinstance(part.forward, Collective)]
    assert [what.kind for what in moved] == ["all-to-all"]
    mixer = mixer_of("nemotron-h-8b")
    width = mixer.input_width + mixer.value_width
    assert moved[0].bytes == 2 * SEQ / 2 * width
    assert not [p for p in mixer_parts(shape("nemotron-h-8b")) if p.stream is not Stream.COMPUTE]


def test_mamba_keeps_what_its_fused_kernel_saves():
    """Input and output of the norm, what the projection gives, the scan's output and its norm's."""
    chosen = lookup.model("mamba2-2.7b")
    (kept,) = saved_by_kind(shape("mamba2-2.7b")).values()
    mixer = mixer_of("mamba2-2.7b")
    elements = 2 * chosen.hidden + mixer.input_width + 2 * mixer.value_width
    assert kept.everything == 2 * SEQ * elements


def test_experts_behind_a_latent_width_send_less():
    layout = Layout.model_validate({"ep": 8, "dp": 8}).resolved(8)
    wide = lookup.model("nemotron-3-super")
    assert wide.moe is not None
    fields = wide.model_dump() | {"moe": wide.moe.model_dump() | {"latent": None}}

    def sent(chosen: Model) -> float:
        stage = transformer_step(chosen, layout, SEQ).stages[-1]
        return max(float(what.bytes) for _, what, _ in stage.collectives(1) if what.kind == "all-to-all")

    assert sent(Model.model_validate(fields)) == pytest.approx(4 * sent(wide))


def test_many_layouts_at_once_equal_one_after_the_other():
    chosen = lookup.model("nemotron-3-nano")
    several = [Layout(tp=tp, pp=pp).resolved(8) for tp, pp in ((1, 1), (2, 4), (8, 1))]
    together = several[0].model_copy(
        update={
            name: np.array([getattr(one, name) for one in several])
            for name in ("tp", "pp", "dp", "shard_degree", "global_batch")
        }
    )
    totals = np.asarray(step_memory(chosen, together, SEQ).total)
    for layout, total in zip(several, totals, strict=True):
        assert float(step_memory(chosen, layout, SEQ).total) == pytest.approx(float(total))


def test_a_scan_is_a_line_of_attention():
    scans = [part for part in mixer_parts(shape("nemotron-h-8b")) if part.name == "scan"]
    assert [part.cause for part in scans] == [Cause.ATTENTION]


def test_attention_beside_a_mixer_shares_its_norm():
    """Falcon-H1: both read the output of one norm, so that it is computed and kept once."""
    beside = shape("falcon-h1-1.5b")
    ((kind, parts),) = Kinds.of(beside).layers
    norms = {"mixer norm", "attention norm", "MLP norm"}
    assert [part.name for part in parts if part.name in norms] == ["mixer norm", "MLP norm"]
    assert kind.words == "mixer, attention and MLP layer"
    width = 2 * 2 * SEQ * beside.model.hidden  # input and output of that norm
    mixer, attention = replace(kind, mixer="M"), replace(kind, mixer="*")
    alone = [SavedBytes.of(layer_tensors(beside, one), beside) for one in (mixer, attention)]
    without = SavedBytes.of(layer_tensors(beside, replace(kind, mixer="")), beside)
    (both,) = saved_by_kind(beside).values()
    apart = sum(one.everything - without.everything for one in alone)
    assert both.everything - without.everything == apart - width


def test_a_gated_convolution_needs_no_other_part_of_the_sequence():
    """LFM2: memory traffic but for two multiplications, and nothing to exchange."""
    parts = mixer_parts(shape("lfm2-1.2b", cp=2))
    assert [part.name for part in parts if isinstance(part.forward, Gemm)] == [
        "mixer input",
        "mixer output",
    ]
    assert all(part.stream is Stream.COMPUTE for part in parts)
