"""What operations cost has one owner: a network, a calibration or known runs count everywhere."""

from typing import Any

import pytest
from hypothesis import given

import syncwall as sw
from syncwall.answer import Prediction, predict
from syncwall.answer.improvements import changed
from syncwall.cost.calibration import NetworkFit
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.measured import CollectiveTable, MachineMeasurements
from syncwall.describe import Cluster, Fabric, Job, Layout, Run
from syncwall.job.settled_job import job_plan
from syncwall.plan.choices import Scaling
from syncwall.plan.fabric.degraded_step import FabricSteps
from syncwall.plan.fabric.options import options, sized_named
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.network.needed import needed
from syncwall.plan.network.targets import TargetLimits
from syncwall.plan.reference import Reference
from syncwall.plan.search import search
from syncwall.plan.wall.sync_wall import setup_of
from syncwall.report import ReportRequest, report_answers
from syncwall.work.operations import Collective, Transfer
from tests.laws.questions import law, questions


class Slower:
    """Any network, five times slower."""

    def __init__(self, cluster: Cluster, fit: NetworkFit, /, *, latency: Any) -> None:
        self._usual = NcclNetwork(cluster, fit, latency=latency)

    def collective_seconds(self, collective: Collective) -> Any:
        return 5.0 * self._usual.collective_seconds(collective)

    def transfer_seconds(self, transfer: Transfer) -> Any:
        return 5.0 * self._usual.transfer_seconds(transfer)


def run(**layout: Any) -> Run:
    fields = {"tp": 8, "shard": "fsdp", "global_batch": 256, "micro_batch": 1, **layout}
    return Run(
        model="llama-3.1-70b", cluster=sw.cluster("dgx-h100", nodes=32), layout=Layout.model_validate(fields)
    )


def test_a_slower_network_is_seen_by_proposals():
    """A change that adds no communication gains as much; one that avoids it gains more."""
    usual, slow = predict(run()), predict(run(), network=Slower)
    assert slow.exposed_s > 3 * usual.exposed_s
    before = {one.change: one for one in changed(usual)}
    for one in changed(slow):
        then = predict(one.run, network=Slower)
        assert one.gained_s == pytest.approx(slow.step_s - then.step_s, rel=1e-9, abs=1e-12)
    less = next(one for one in changed(slow) if one.change == "tp 4")
    assert less.gained_s > before["tp 4"].gained_s


def test_a_slower_network_is_seen_by_open_fields():
    """Where gathering weights is dear, fewer and larger micro batches are chosen."""
    open_run = run(global_batch=1024, micro_batch=None)
    slow = predict(open_run, network=Slower)
    micros = [2**n for n in range(5)]
    tried = {n: predict(run(global_batch=1024, micro_batch=n), network=Slower) for n in micros}
    fitting = {micro: one.step_s for micro, one in tried.items() if one.fits}
    best_s = min(fitting.values())
    assert best_s * (1 - 1e-9) <= slow.step_s <= best_s * 1.07  # a surer fit, smaller micro batches
    assert slow.run.layout.micro_batch > predict(open_run).run.layout.micro_batch


def test_a_slower_network_is_seen_by_searches():
    usual, slow = predict(run()), predict(run(), network=Slower)
    pinned = {"tp": 8, "cp": 1, "pp": (1, 2)}
    found = search(
        usual.run.model, usual.run.cluster, global_batch=256, pinned=pinned, pricing=slow.pricing
    ).best(3)
    for one in found:
        assert one.step_s == pytest.approx(predict(one.run, network=Slower).step_s, rel=1e-9)
        assert one.step_s > predict(one.run).step_s


def test_a_slower_network_is_seen_by_walls_networks_fabrics_and_jobs():
    usual, slow = predict(run()), predict(run(), network=Slower)
    for one, other in (
        (step_on_wall(usual), step_on_wall(slow)),
        (step_on_network(usual), step_on_network(slow)),
        (fabric_steps(usual)[0], fabric_steps(slow)[0]),
    ):
        assert other > one * 1.02
    assert step_on_wall(slow) == pytest.approx(slow.step_s, rel=1e-9)
    assert step_on_network(slow) == pytest.approx(slow.step_s, rel=1e-9)
    job = Job(run=usual.run, steps=1000)
    assert job_plan(job, slow).plan.work_s == pytest.approx(1000 * slow.step_s)


def step_on_wall(prediction: Prediction) -> float:
    """The step at the run's own number of GPUs on its curve of strong scaling."""
    curve = setup_of(Reference(prediction), 2**14).curve(Scaling.STRONG)
    assert curve is not None
    return float(curve.step_s[curve.gpus.tolist().index(prediction.run.gpus)])


def step_on_network(prediction: Prediction) -> float:
    """The step on the machine as it is, in what `plan network` says."""
    (found,) = needed(Reference(prediction), [], TargetLimits())
    return found.step_s


def fabric_steps(prediction: Prediction) -> tuple[float, dict[Any, float]]:
    """The step on a non-blocking fabric, and on others."""
    cluster = prediction.run.cluster
    kinds = options(wiring_of(cluster), cluster.gpus)
    steps = FabricSteps(prediction, "adaptive")
    seen = {kind: steps.in_order(one)[1] for kind, one in kinds.items() if one.possible}
    return next(one.free_s for one in seen.values()), {k: one.p50_s for k, one in seen.items()}


def test_what_was_measured_counts_for_proposals_searches_and_walls():
    table = CollectiveTable(kind="all-gather", ranks=32, nodes=32, points=((1e6, 0.5), (1e9, 2.0)))
    known = predict(run(), measured=MachineMeasurements(collectives=(table,)))
    assert known.step_s > 2 * predict(run()).step_s
    assert step_on_wall(known) == pytest.approx(known.step_s, rel=1e-9)
    same = next(one for one in changed(known) if one.change == "fused_loss true")
    assert abs(same.gained_s) < 0.1 * known.step_s


def test_wider_wires_shorten_measured_collectives_too():
    """`plan network` varies the NICs of a machine whose collectives were measured."""
    table = CollectiveTable(kind="all-gather", ranks=32, nodes=32, points=((1e6, 0.5), (1e9, 2.0)))
    known = predict(run(), measured=MachineMeasurements(collectives=(table,)))
    (found,) = needed(Reference(known), [], TargetLimits())
    assert found.ideal.step_s < 0.8 * known.step_s


@pytest.mark.slow
@law(500)
@given(questions())
def test_walls_show_the_step_of_predict(one):
    prediction = predict(one)
    if not prediction.has_headroom or _odd(prediction.run):  # a curve is of layouts that leave 5%
        return
    assert step_on_wall(prediction) == pytest.approx(prediction.step_s, rel=1e-9)


def _odd(run: Run) -> bool:
    """True if a curve does not go through the run: part of several nodes, or of a shard group."""
    return run.gpus > 2**14 or run.cluster.node.nics is None


@pytest.mark.slow
@law(500)
@given(questions())
def test_networks_show_the_step_of_predict(one):
    prediction = predict(one)
    if prediction.run.cluster.node.nics is None:
        return
    assert float(Reference(prediction).case.timed(prediction.run.layout).step_s) == pytest.approx(
        prediction.step_s, rel=1e-9
    )


@pytest.mark.slow
@law(500)
@given(questions())
def test_jobs_are_as_many_steps_of_predict(one):
    prediction = predict(one)
    job = Job(run=one, steps=1000)
    assert job_plan(job, prediction).plan.work_s == pytest.approx(1000 * prediction.step_s, rel=1e-9)


@pytest.mark.slow
@law(25)
@given(questions(["llama-3.1-8b", "mixtral-8x7b"]))
def test_networks_and_reports_in_full_show_the_step_of_predict(one):
    prediction = predict(one)
    if prediction.run.cluster.node.nics is not None:
        assert step_on_network(prediction) == pytest.approx(prediction.step_s, rel=1e-9)
    report = report_answers(ReportRequest("run.yaml", "", one))
    assert report.prediction.step_s == pytest.approx(prediction.step_s, rel=1e-12)
    assert report.start.prediction is report.prediction


@law(40)
@given(questions())
def test_fabrics_start_from_the_step_of_predict_on_free_paths(one):
    prediction = predict(one)
    run, cluster = prediction.run, prediction.run.cluster
    if cluster.node.nics is None or run.nodes > 256:
        return
    free = cluster.fabric.model_copy(update={"tiers": Fabric().tiers})
    plain = prediction.pricing.step(
        run.model, run.layout, run.seq, cluster.model_copy(update={"fabric": free})
    )
    fabric = sized_named("fat-tree-2", cluster)
    spread = FabricSteps(prediction, "adaptive").on(fabric)[1]
    assert spread.free_s == pytest.approx(float(plain.step_s), rel=1e-9)
    assert spread.p50_s == pytest.approx(spread.free_s, rel=1e-9)
