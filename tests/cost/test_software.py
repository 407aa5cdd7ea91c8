"""What software makes of a device's calibration and of the host."""

import numpy as np
import pytest

import syncwall as sw
from syncwall.catalogue import Kind, names
from syncwall.cost.calibration import calibration
from syncwall.cost.software import ROW_SCALING, Setting, framework
from syncwall.describe import Layout, Software, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.framework import at
from syncwall.work.block import Work
from syncwall.work.step import transformer_step
from tests.describe.samples import cluster, model

FIT = calibration(lookup.device("h100-sxm"))
MACHINE = cluster(nodes=4)


def setting(**software) -> Setting:
    return Setting.of(Software(**software))


def host_s(software: Setting, eager: float = 3.0, **layout) -> float:
    return float(software.host_s(work(Layout.model_validate(layout).resolved(32)), MACHINE, eager))


def work(layout: Layout) -> Work:
    return transformer_step(sw.model("llama-3.1-8b"), layout, 4096)


@pytest.mark.parametrize("name", names(Kind.FRAMEWORK))
def test_kernels_follow_from_framework_and_date(name):
    family = framework(name)
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


@pytest.mark.parametrize(("vocab", "multiple", "rows"), [(32000, 1, 32000), (50257, 128, 50304),
                                                         (50304, 128, 50304)])  # fmt: skip
def test_the_vocabulary_is_padded(vocab, multiple, rows):
    plain = setting()
    family = plain.framework.model_copy(update={"vocab_multiple": multiple})
    found = Setting(family, "flash-3", "fused", plain.software)
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
    tuned = found.tuned(fit)
    assert tuned.gemm.in_training == pytest.approx(0.5 * family.efficiency)
    assert tuned.elementwise.traffic == family.traffic
    assert tuned.network == fit.network
    assert tuned.attention == fit.attention
    newer = setting(framework="nanotron").tuned(fit)
    assert newer.gemm.in_training == pytest.approx(0.8 * family.efficiency)
    assert fit.gemm == FIT.gemm


def test_a_scale_for_each_row_slows_only_narrow_formats():
    plain, rows = (setting(fp8_scaling=scaling).tuned(FIT).gemm for scaling in ("tensor", "row"))
    assert rows.low_precision[Dtype.FP8] == pytest.approx(
        plain.low_precision[Dtype.FP8] * ROW_SCALING
    )
    assert rows.model_copy(update={"low_precision": {}}) == plain.model_copy(
        update={"low_precision": {}}
    )


def test_graphs_issue_nothing():
    assert host_s(setting(graphs="full"), tp=8, pp=2) == 0


def test_eager_kernels_are_issued_one_by_one():
    fused, eager = setting(kernels="fused"), setting(kernels="eager")
    assert host_s(eager) == pytest.approx(3 * host_s(fused))


def test_tensor_ranks_and_pipelines_over_nodes_cost_the_host():
    found = setting(framework="nanotron")
    host = found.framework.host
    each = host.pipelined_per_tensor_rank_s
    assert each > 0
    base = host_s(found)
    assert base == pytest.approx(host.per_operation_s)
    assert host_s(found, pp=2) == pytest.approx(base + each)
    assert host_s(found, pp=2, tp=8) == pytest.approx(base + 8 * (each + host.per_tensor_rank_s))
    on_one_node = found.host_s(work(Layout(pp=2, tp=4).resolved(8)), MACHINE, 1.0)
    assert on_one_node == pytest.approx(base + 4 * host.per_tensor_rank_s)


def test_tensor_ranks_in_several_nodes_of_a_pipeline_cost_the_host_more():
    found = setting(framework="nanotron")
    host = found.framework.host
    each, further = host.pipelined_per_tensor_rank_s, host.pipelined_per_tensor_node_s
    assert further > 0
    for tp in (8, 16, 32):
        expected = host.per_operation_s + tp * (each + further * (tp / 8 - 1))
        layout = Layout(pp=2, tp=tp).resolved(128)
        assert found.host_s(work(layout), MACHINE, 1.0) == pytest.approx(expected)


def test_ranks_that_meet_cost_the_host_of_megatron_core():
    found = setting(framework="megatron-core")
    host = found.framework.host
    for tp in (2, 4, 8):
        assert host_s(found, tp=tp) - host_s(found) == pytest.approx(tp * host.per_tensor_rank_s)


def test_arrays_of_layouts_have_arrays_of_host_times():
    found = setting(framework="nanotron")
    layout = Layout.arrays(tp=np.array([1, 8, 8]), pp=np.array([1, 1, 2]), global_batch=32)
    together = found.host_s(work(layout.resolved(32)), MACHINE, 1.0)
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
