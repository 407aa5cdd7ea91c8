"""What published runs say of shared links: the sign, and where it is known the size.

Stated as such in docs/explanation/contention.md. Rings at 4:1 and 7:1 and the all-to-all of
rail-only networks are in tests/answer/test_contention.py.
"""

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.prediction import predict
from syncwall.cost.calibration import calibration
from syncwall.cost.contended_network import ContendedNetwork, SharedLinks
from syncwall.describe import lookup
from syncwall.network.graph import links_of_tiers
from syncwall.plan.fabric.sized_links import fabric_named
from syncwall.plan.placement.best_placement import place_jobs
from syncwall.validate.evaluation import outcomes
from syncwall.validate.mapping import case_of
from syncwall.work.operations import Collective, Group
from tests.validate.samples import known

QPS = (1, 2, 4, 8, 16, 32)


def all_reduces_s(links, cluster, order=None):
    """Mean time of an all-reduce over NICs for each of QPS, over 40 draws of the hashes."""
    what = Collective("all-reduce", 1e9, Group("dp", cluster.nodes, cluster.gpus_per_node))
    fit = calibration(cluster.device).network

    def mean(qps):
        each = (SharedLinks(links, "ecmp", qps, order, draw=draw) for draw in range(40))
        return np.mean([ContendedNetwork(cluster, fit, one).collective_seconds(what) for one in each])

    return [mean(qps) for qps in QPS]


@pytest.mark.parametrize(
    ("kind", "ratio"), [("rail-optimised", 1.0), ("rail-optimised", 4.0), ("fat-tree-2", 1.0)]
)
def test_more_queue_pairs_make_an_all_reduce_faster(kind, ratio):
    """Meta, SIGCOMM 2024: E-ECMP with more queue pairs, all-reduce up to 40 % better than ECMP."""
    cluster = lookup.cluster("dgx-h100").using(64)
    crossed = tuple(np.arange(64).reshape(2, 32).T.ravel().tolist())
    times = all_reduces_s(fabric_named(kind, cluster, (ratio, 1.0)), cluster, crossed)
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.4 * times[-1]


def test_more_queue_pairs_change_nothing_where_nothing_collides():
    cluster = lookup.cluster("dgx-h100").using(16)
    times = all_reduces_s(fabric_named("rail-optimised", cluster), cluster)
    assert times == [times[0]] * len(QPS)


def test_two_jobs_whose_flows_meet_are_slower_than_each_alone():
    """Crux, SIGCOMM 2024: GPT beside BERT takes 1.70 s a step, alone 1.53 s: 11 % longer."""
    layout = sw.Layout(tp=8, shard="fsdp", micro_batch=1, global_batch=32)
    models = ("gpt3-13b", "gpt3-1.3b")
    jobs = [predict(sw.Run(model=one, cluster="dgx-h100", nodes=8, layout=layout)) for one in models]
    links = fabric_named("rail-optimised", lookup.cluster("dgx-h100", nodes=64))
    given = [(0, 1, 2, 3, 32, 33, 34, 35), (4, 5, 6, 7, 36, 37, 38, 39)]
    shared = SharedLinks(links, "ecmp")
    usable = frozenset(node for nodes in given for node in nodes)
    alone = [
        place_jobs(["one"], [job], [at], frozenset(at), shared).jobs[0].given
        for job, at in zip(jobs, given, strict=True)
    ]
    both = place_jobs(["gpt", "bert"], jobs, given, usable, shared)
    for one, job in zip(alone, both.jobs, strict=True):
        assert one.step_p90_s == job.free_s
        assert job.free_s < job.given.step_p50_s <= job.free_s * job.given.slower_p50
        assert job.found.step_p90_s == job.free_s


@pytest.fixture(scope="module")
def llama():
    """405B on 16,384 GPUs as published, with ranks as its paper orders them: tp, cp, pp, dp."""
    case = case_of(known("llama3-405b-2"))
    layout = outcomes([case])[0].layout
    ordered = layout.model_copy(update={"order": ("tp", "cp", "pp", "dp", "ep")})
    return case.measured_s, sw.Run(
        model=case.model,
        cluster="meta-24k-h100",
        nodes=2048,
        layout=ordered,
        software=case.software,
        seq=case.seq,
    )


REPLICAS = np.arange(2048).reshape(128, 16)
CROSSED = tuple(REPLICAS[np.argsort(np.arange(128) % 24, kind="stable")].ravel().tolist())
"""Nodes of pods of 384 such that the next replica of 16 nodes is in another pod."""


def test_the_whole_step_of_llama_3_405b_loses_nothing_at_seven_to_one(llama):
    measured_s, run = llama
    links = links_of_tiers(run.cluster)
    assert run.cluster.fabric.tiers[-1].oversubscription == 7
    plain, found = predict(run), predict(run, network=SharedLinks(links, "adaptive"))
    assert found.contention is not None
    assert found.step_s == plain.step_s == pytest.approx(measured_s, rel=0.1)
    assert not found.contention.needed


@pytest.mark.parametrize("routing", ["adaptive", "ecmp"])
def test_the_same_in_crossed_order_is_slower(llama, routing):
    """Seven times longer over the links; packets that find every free way still hide it."""
    _, run = llama
    links = links_of_tiers(run.cluster)
    ordered, crossed = (
        predict(run, network=SharedLinks(links, routing, order=order)) for order in (None, CROSSED)
    )
    assert ordered.contention is not None
    assert crossed.contention is not None
    assert crossed.contention.slower > 7.0 - 1e-6
    assert crossed.contention.slower > 2 * ordered.contention.slower
    assert "aggregation" in crossed.contention.busiest
    if routing == "ecmp":
        assert crossed.step_s > 1.3 * ordered.step_s
