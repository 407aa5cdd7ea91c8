"""What software makes of a device's calibration and of the host."""

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.catalogue import CatalogueKind, names
from syncwall.cost.calibration import calibration
from syncwall.cost.framework_costs import SCALED_SPEED, ResolvedSoftware, framework_or_default
from syncwall.describe import Layout, Software, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.describe.software import at
from syncwall.work.block import Scope, Work
from syncwall.work.operations import Eager, Elementwise
from syncwall.work.transformer_step import transformer_step
from tests.describe.samples import cluster, model

H100 = lookup.device("h100-sxm")
FIT = calibration(H100)
MACHINE = cluster(nodes=4)


def setting(**software) -> ResolvedSoftware:
    return ResolvedSoftware.of(Software(**software))


def host_s(software: ResolvedSoftware, **layout) -> float:
    return float(software.host_s(work(Layout.model_validate(layout).resolved(32)), MACHINE))


def work(layout: Layout) -> Work:
    return transformer_step(sw.model("llama-3.1-8b"), layout, 4096)


@pytest.mark.parametrize("name", names(CatalogueKind.FRAMEWORK))
def test_kernels_follow_from_framework_and_date(name):
    family = framework_or_default(name)
    for month, kernel in family.attention.items():
        assert setting(framework=name, date=month).attention == kernel
    newest = setting(framework=name)
    assert newest.attention == family.attention[max(family.attention)]
    assert newest.kernels == family.kernels


def test_what_is_stated_beats_the_framework():
    found = setting(framework="nanotron", attention="unfused", kernels="eager")
    assert (found.attention, found.kernels) == ("unfused", "eager")


def test_a_date_changes_the_attention_of_megatron_core():
    old, new = (setting(framework="megatron-core", date=d) for d in ("2023-05", "2024-05"))
    assert (old.attention, new.attention) == ("flash-2", "flash-3")


@pytest.mark.parametrize(
    ("vocab", "multiple", "rows"), [(32000, 1, 32000), (50257, 128, 50304), (50304, 128, 50304)]
)
def test_the_vocabulary_is_padded(vocab, multiple, rows):
    plain = setting()
    family = plain.framework.model_copy(update={"vocab_multiple": multiple})
    found = ResolvedSoftware(family, "flash-3", "fused", plain.software)
    one = model(vocab=vocab)
    padded = found.padded(one)
    assert padded.vocab == rows
    assert (padded is one) == (rows == vocab)
    assert one.vocab == vocab
    assert found.padded(padded) is padded


def test_the_calibration_is_tuned_by_date_framework_and_scaling():
    fit = FIT.model_copy(update={"training": {"2022-10": 0.5, "2024-01": 0.8}})
    found = setting(framework="nanotron", date="2023-03")
    family = found.framework
    tuned = found.tuned(fit, H100)
    assert tuned.gemm.in_training == pytest.approx(0.5 * family.efficiency_on("hopper", None))
    assert tuned.elementwise.traffic == family.traffic
    assert tuned.network.ring_rank_s == family.ring_rank_s
    assert tuned.attention == fit.attention
    newer = setting(framework="nanotron").tuned(fit, H100)
    assert newer.gemm.in_training == pytest.approx(0.8 * family.efficiency_on("hopper", None))
    assert fit.gemm == FIT.gemm


@pytest.mark.parametrize("scaling", ["row", "block"])
def test_a_scale_for_each_row_or_block_slows_only_fp8(scaling):
    plain, rows = (setting(fp8_scaling=one).tuned(FIT, H100).gemm for one in ("tensor", scaling))
    assert rows.low_precision[Dtype.FP8] == pytest.approx(
        plain.low_precision[Dtype.FP8] * SCALED_SPEED[scaling]
    )
    assert rows.low_precision[Dtype.MXFP8] == plain.low_precision[Dtype.MXFP8]
    assert rows.model_copy(update={"low_precision": {}}) == plain.model_copy(update={"low_precision": {}})


def test_graphs_issue_nothing():
    assert host_s(setting(graphs="full"), tp=8, pp=2) == 0


def test_eager_kernels_are_issued_one_by_one():
    fused, eager = (Pricing.on(MACHINE, Software(kernels=one)).prices(MACHINE) for one in ("fused", "eager"))
    counted, other = Elementwise(1.0, kind="norm", eager=Eager(2.0, 7.0)), Elementwise(1.0, kind="loss")
    update = Elementwise(1.0, is_fused=True, kind="optimizer", eager=Eager(2.0, 7.0))
    assert [fused.kernels(one) for one in (counted, other, update)] == [1, 1, 1]
    assert [eager.kernels(one) for one in (counted, other, update)] == [7, FIT.elementwise.eager, 1]
    assert eager.seconds(counted) > 2 * fused.seconds(counted)


def test_tensor_ranks_and_pipelines_over_nodes_cost_the_host():
    found = setting(framework="nanotron")
    host = found.framework.host
    each = host.pipelined_per_tensor_rank_s
    assert each > 0
    base = host_s(found)
    assert base == pytest.approx(host.per_operation_s)
    assert host_s(found, pp=2) == pytest.approx(base + each)
    assert host_s(found, pp=2, tp=8) == pytest.approx(base + 8 * (each + host.per_tensor_rank_s))
    on_one_node = found.host_s(work(Layout(pp=2, tp=4).resolved(8)), MACHINE)
    assert on_one_node == pytest.approx(base + 4 * host.per_tensor_rank_s)


def test_tensor_ranks_in_several_nodes_of_a_pipeline_cost_the_host_more():
    found = setting(framework="nanotron")
    host = found.framework.host
    each, further = host.pipelined_per_tensor_rank_s, host.pipelined_per_tensor_node_s
    assert further > 0
    for tp in (8, 16, 32):
        expected = host.per_operation_s + tp * (each + further * (tp / 8 - 1))
        layout = Layout(pp=2, tp=tp).resolved(128)
        assert found.host_s(work(layout), MACHINE) == pytest.approx(expected)


def test_ranks_that_meet_cost_the_host_of_megatron_core():
    found = setting(framework="megatron-core")
    host = found.framework.host
    for tp in (2, 4, 8):
        assert host_s(found, tp=tp) - host_s(found) == pytest.approx(tp * host.per_tensor_rank_s)


def test_arrays_of_layouts_have_arrays_of_host_times():
    found = setting(framework="nanotron")
    layout = Layout.arrays(tp=np.array([1, 8, 8]), pp=np.array([1, 1, 2]), global_batch=32)
    together = found.host_s(work(layout.resolved(32)), MACHINE)
    singly = [host_s(found, tp=tp, pp=pp) for tp, pp in ((1, 1), (8, 1), (8, 2))]
    np.testing.assert_allclose(together, singly)


def test_a_framework_of_ones_own_is_found(tmp_path, monkeypatch):
    (tmp_path / "frameworks").mkdir()
    (tmp_path / "frameworks" / "ours.yaml").write_text(
        "title: Ours\nattention: {2024-01: flash-2}\ntraffic: 3\nhost: {per_operation: 7 us}\n"
        "overlap_gradients: {2024-01: true}\noverlap_parameters: {2024-01: true}\n"
        "overlap_tp: {2024-01: false}\noverlap_pp: {2024-01: true}\n"
    )
    monkeypatch.setenv("SYNCWALL_CATALOGUE", str(tmp_path))
    found = setting(framework="ours")
    assert found.framework.traffic == 3
    assert host_s(found) == pytest.approx(7e-6)
    assert at(found.framework.attention, None) == "flash-2"


def test_graphs_hold_parts_of_a_layer_and_full_ones_all():
    held = [setting(graphs=graphs).captured for graphs in ("none", "router", "attention", "full")]
    assert [len(scopes) for scopes in held] == [0, 1, 2, len(Scope)]
    assert held[0] < held[1] < held[2] < held[3]


def test_the_host_issues_every_expert_unless_graphs_hold_all():
    grouped, full = setting(framework="megatron-core"), setting(graphs="full")
    assert grouped.host_expert_s == grouped.framework.host.per_expert_s > 0
    assert full.host_expert_s == full.host_wait_s == 0
    loop = setting(framework="pytorch", expert_kernels="loop")
    assert loop.host_expert_s == loop.framework.host.per_operation_s


@pytest.mark.parametrize(
    ("name", "date", "kernels"),
    [
        ("pytorch", "2025-01", "loop"),
        ("pytorch", "2026-06", "grouped"),
        ("deepspeed", "2024-01", "loop"),
        ("megatron-core", None, "grouped"),
    ],
)
def test_experts_were_a_loop_in_models_of_hugging_face(name, date, kernels):
    assert setting(framework=name, date=date).expert_kernels == kernels
    assert setting(framework=name, date=date, expert_kernels="loop").expert_kernels == "loop"


def test_some_kinds_of_kernels_have_traffic_of_their_own():
    old, new = (setting(framework="megatron-core", date=date) for date in ("2024-12", "2025-06"))
    assert old.traffic("permute", 1.9) == 3 * new.traffic("permute", 1.9)
    assert new.traffic("bias backward", 1.9) == 1
    assert setting(framework="torchtitan").traffic("clamp", 1.9) == 0
    assert new.traffic("norm", 1.9) == 1.9


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("delayed", "tensor"),
        ("current", "tensor"),
        ("tensorwise", "tensor"),
        ("rowwise", "row"),
        ("blockwise", "block"),
        ("block", "block"),
    ],
)
def test_scalings_have_the_words_of_their_libraries(said, meant):
    assert Software.model_validate({"fp8_scaling": said}).fp8_scaling == meant


def test_rows_are_cast_twice():
    tensor, rows = (setting(fp8_scaling=one).tuned(FIT, H100).elementwise for one in ("tensor", "row"))
    assert rows.cast == 2.5 * tensor.cast
    dynamic = setting(framework="torchtitan").tuned(FIT, H100).elementwise
    assert dynamic.cast == 1.5 * tensor.cast


def test_products_of_plain_pytorch_were_slower_on_hopper():
    """Until the libraries of late 2025; on A100 they never were."""

    def share(date: str, device: Device) -> float:
        found = [
            setting(framework=name, date=date).tuned(FIT, device).gemm.in_training
            for name in ("pytorch", "megatron-core")
        ]
        return found[0] / found[1]

    assert share("2024-06", H100) < 0.97
    assert share("2025-10", H100) == 1
    assert share("2024-06", lookup.device("a100-sxm-80")) > 0.95
