import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.cost.calibration import calibration
from syncwall.cost.compute import convolution_seconds, gemm_alone_seconds
from syncwall.cost.corrections import Corrections, MeasuredNetwork
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.cost.measured import (
    CollectiveTable,
    ConvolutionPoint,
    ElementwisePoint,
    GemmPoint,
    MachineMeasurements,
)
from syncwall.describe import Cluster, Layout, Run, Software, lookup
from syncwall.describe.choice import Dtype
from syncwall.work.operations import (
    Collective,
    Convolution,
    Elementwise,
    Gemm,
    Group,
    Transfer,
)

TABLE = CollectiveTable(kind="all-reduce", ranks=4, nodes=2, points=((1e3, 1e-4), (1e6, 1e-2), (1e7, 1e-1)))


class Nothing:
    """A network on which everything takes a year, or as long as is said."""

    def __init__(self, seconds: float = 3e7) -> None:
        self.seconds = seconds

    def collective_seconds(self, collective: Collective) -> float:
        return self.seconds

    def transfer_seconds(self, transfer: Transfer) -> float:
        return self.seconds


FOUR = Group("dp", 4)


def measured_on(machine: Cluster) -> MeasuredNetwork:
    formulas = Nothing()
    return MeasuredNetwork((TABLE,), machine, formulas, formulas)


def cluster(nodes: int = 2, gpus: int = 2) -> Cluster:
    return lookup.cluster("dgx-h100").using(nodes, gpus)


def run(nodes: int = 2) -> Run:
    layout = Layout(micro_batch=1, global_batch=2 * nodes, shard="ddp", recompute="none")
    software = Software(framework="pytorch")
    return Run(model="gpt2-xl", cluster=cluster(nodes), layout=layout, software=software, seq=1024)


def test_a_table_gives_its_own_points():
    for size, seconds in TABLE.points:
        assert TABLE.seconds(size) == pytest.approx(seconds)
    assert TABLE.seconds(10.0) == pytest.approx(1e-4), "below the smallest: its latency"
    assert TABLE.seconds(2e7) == pytest.approx(0.2), "above the largest: its rate"


@given(st.lists(st.floats(1.0, 1e9), min_size=2, max_size=5))
def test_more_bytes_never_take_less_time(sizes):
    seconds = TABLE.seconds(np.sort(sizes))
    assert np.all(np.diff(seconds) >= -1e-12)


def test_only_groups_that_stand_as_the_measured_ones_take_the_table():
    network = measured_on(cluster())
    measured = network.collective_seconds(Collective("all-reduce", 1e6, FOUR))
    assert float(measured) == pytest.approx(1e-2)
    assert network.collective_seconds(Collective("all-gather", 1e6, FOUR)) == 3e7
    other = Collective("all-reduce", 1e6, Group("dp", 8))
    assert measured_on(cluster(4)).collective_seconds(other) == 3e7


def test_on_faster_wires_measured_times_shrink_as_the_formulas_do():
    before = Nothing()
    network = MeasuredNetwork((TABLE,), cluster(), Nothing(1e7), before)
    found = network.collective_seconds(Collective("all-reduce", 1e6, FOUR))
    assert float(found) == pytest.approx(1e-2 / 3)


def test_what_takes_no_time_by_the_formulas_takes_what_was_measured():
    network = MeasuredNetwork((TABLE,), cluster(), Nothing(0.0), Nothing(0.0))
    found = network.collective_seconds(Collective("all-reduce", 1e6, FOUR))
    assert float(found) == pytest.approx(1e-2)


def test_calls_are_counted_one_by_one():
    network = measured_on(cluster())
    several = network.collective_seconds(Collective("all-reduce", 1e7, FOUR, calls=10))
    assert float(several) == pytest.approx(10 * 1e-2)


def test_a_device_twice_as_slow_on_a_shape_is_predicted_so():
    before = predict(run())
    blocks = before.work.stages[-1].forward
    gemms = (op.what for block in blocks for op in block.operations if op.name == "MLP up")
    gemm = next(what for what in gemms if isinstance(what, Gemm))
    device = before.run.cluster.device
    alone = gemm_alone_seconds(gemm, device, before.calibration.gemm)
    point = GemmPoint(m=gemm.m, n=gemm.n, k=gemm.k, dtype=Dtype.BF16, seconds=2.0 * float(alone))
    after = predict(run(), measured=MachineMeasurements(gemm=(point,)))
    twice = 2.0 * float(before.prices.seconds(gemm))
    assert float(after.prices.seconds(gemm)) == pytest.approx(twice)
    assert after.ledger["GEMM"] > 1.5 * before.ledger["GEMM"]


def test_nothing_measured_changes_nothing():
    assert predict(run(), measured=MachineMeasurements()).step_s == predict(run()).step_s


def test_slower_collectives_make_slower_steps():
    def step_s(seconds: float) -> float:
        table = CollectiveTable(kind="all-reduce", ranks=4, nodes=2, points=((25e6, seconds),))
        return predict(run(), measured=MachineMeasurements(collectives=(table,))).step_s

    assert step_s(0.01) < step_s(0.1) < step_s(1.0)


@given(share=st.floats(0.0, 0.9), meeting_s=st.floats(0.0, 0.1))
def test_the_ledger_still_adds_up(share, meeting_s):
    answer = predict(run(), measured=MachineMeasurements(host_share=share, meeting_s=meeting_s))
    assert sum(answer.ledger[cause] for cause in answer.ledger) == pytest.approx(answer.step_s)
    without = predict(run(), measured=MachineMeasurements(host_share=0.0, meeting_s=0.0))
    assert answer.step_s >= without.step_s - 1e-9


def test_measured_costs_enter_the_calibration():
    device = lookup.device("h100-sxm")
    fit = calibration(device, MachineMeasurements(host_share=0.25, meeting_s=0.004))
    assert (fit.network.contention, fit.ranks.meeting_s) == (0.25, 0.004)
    assert calibration(device).network.contention != 0.25


def test_measured_kinds_of_memory_bound_work_are_apart():
    before = predict(run())
    norm = ElementwisePoint(kind="norm", bytes=1e7, seconds=1.0)
    after = predict(run(), measured=MachineMeasurements(elementwise=(norm,)))
    assert after.ledger["elementwise"] > 10 * before.ledger["elementwise"]
    assert after.ledger["optimizer"] == before.ledger["optimizer"]


def test_corrections_take_one_shape_and_arrays_of_them_alike():
    """Of many layouts some sides of a multiplication are arrays and some are not."""
    cluster = lookup.cluster("dgx-h100")
    points = [GemmPoint(m=m, n=4096, k=4096, dtype=Dtype.BF16, seconds=1e-3) for m in (512, 8192)]
    setting = ResolvedSoftware.of(Software())
    fit = calibration(cluster.device, MachineMeasurements(gemm=tuple(points)))
    found = Corrections(cluster.device, fit, setting)
    sizes = np.array([256.0, 1024.0, 8192.0])
    together = np.asarray(found.gemm(Gemm(sizes, 4096, 4096, Dtype.BF16)))
    alone = [float(found.gemm(Gemm(size, 4096, 4096, Dtype.BF16))) for size in sizes]
    assert together.tolist() == pytest.approx(alone)


def test_another_role_counts_as_a_dimension_four_times_larger():
    device, setting = lookup.cluster("dgx-h100").device, ResolvedSoftware.of(Software())

    def slower(times: float, k: int, is_weight_gradient: bool) -> GemmPoint:
        gemm = Gemm(4096, 4096, k, Dtype.BF16, is_weight_gradient=is_weight_gradient)
        alone_s = float(gemm_alone_seconds(gemm, device, calibration(device).gemm))
        return GemmPoint(
            m=4096,
            n=4096,
            k=k,
            dtype=Dtype.BF16,
            seconds=times * alone_s,
            is_weight_gradient=is_weight_gradient,
        )

    larger, other_role = slower(2.0, 4 * 4096, False), slower(8.0, 4096, True)
    fit = calibration(device, MachineMeasurements(gemm=(larger, other_role)))
    found = Corrections(device, fit, setting).gemm(Gemm(4096, 4096, 4096, Dtype.BF16))
    assert float(found) == pytest.approx(4.0), "both are as near: the geometric mean"


def test_a_rate_is_another_way_to_write_seconds():
    point = GemmPoint.model_validate(
        {"m": 4096, "n": 1024, "k": 512, "dtype": "bf16", "rate": "100 TFLOP/s"},
        context={"in_file": True},
    )
    assert point.seconds == pytest.approx(2 * 4096 * 1024 * 512 / 100e12)


def corrections(**points) -> Corrections:
    device = lookup.cluster("dgx-h100").device
    fit = calibration(device, MachineMeasurements(**points))
    return Corrections(device, fit, ResolvedSoftware.of(Software()))


def test_a_measured_convolution_takes_what_it_took():
    what = Convolution(4096, 64, 576, 1e6, dtype=Dtype.FP32, is_backward=True)
    device = lookup.cluster("dgx-h100").device
    fit = calibration(device)
    formula_s = convolution_seconds(what, device, fit.gemm, fit.elementwise)
    point = ConvolutionPoint(**what.dimensions, seconds=3 * float(formula_s))
    assert corrections(convolution=(point,)).convolution(what) == pytest.approx(3.0, rel=1e-3)
    assert corrections().convolution(what) == 1.0


def test_kinds_that_were_not_measured_reach_what_plain_work_does():
    plain = ElementwisePoint(kind="", bytes=1e6, seconds=1.0)
    norm = ElementwisePoint(kind="norm", bytes=1e6, seconds=2.0)
    found = corrections(elementwise=(plain, norm))

    def factor(kind: str) -> float:
        return float(found.elementwise(Elementwise(1e6, is_fused=True, kind=kind)))

    assert factor("softmax backward") == factor("") > 1
    assert factor("norm backward") == factor("norm") == pytest.approx(2 * factor(""))
