"""Steps on shared links: laws, what is known of real fabrics, and the causes."""

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.improvements import improvements
from syncwall.answer.prediction import predict
from syncwall.cause import Cause
from syncwall.cost.calibration import calibration
from syncwall.cost.contended_network import DRAWS, ContendedNetwork, SharedLinks
from syncwall.describe import lookup
from syncwall.network.graph import links_of_tiers
from syncwall.network.routing import ROUTINGS
from syncwall.plan.fabric.sized_links import fabric_named
from syncwall.problems import InputError
from syncwall.work.operations import Collective, Group

CROSSED = tuple(np.arange(128).reshape(4, 32).T.ravel().tolist())


def run(nodes=128, model="llama-3.1-8b", cluster="dgx-h100", **layout):
    layout = {"tp": 8, "shard": "fsdp", "global_batch": 1024, "micro_batch": 1, **layout}
    return sw.Run(model=model, cluster=cluster, nodes=nodes, layout=sw.Layout(**layout))


def on(one, kind="rail-optimised", ratio=1.0, routing="adaptive", *, order=CROSSED, qps=1):
    links = fabric_named(kind, one.cluster, (ratio, 1.0))
    return predict(one, network=SharedLinks(links, routing, qps, order))


@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2", "rail-only"])
@pytest.mark.parametrize("more", [{}, {"shard": "zero1", "pp": 4}, {"tp": 1}])
def test_adaptive_routing_without_oversubscription_changes_nothing(kind, more):
    plain, found = predict(run(**more)), on(run(**more), kind)
    assert found.step_s == plain.step_s
    assert found.ledger == plain.ledger
    assert not found.contention.needed
    assert not found.contention.busiest


@pytest.mark.parametrize("routing", [one for one in ROUTINGS if one != "valiant"])
def test_a_job_inside_one_leaf_group_is_left_alone(routing):
    plain = predict(run(nodes=32))
    found = on(run(nodes=32), ratio=7.0, routing=routing, order=None, qps=4)
    assert found.step_s == plain.step_s
    assert not found.contention.needed


@pytest.mark.parametrize("ratio", [4.0, 7.0])
def test_rings_in_the_order_of_nodes_lose_nothing_and_crossed_ones_the_full_ratio(ratio):
    assert on(run(), ratio=ratio, order=None).step_s == predict(run()).step_s
    found = on(run(), ratio=ratio).contention
    assert found.slower == pytest.approx(32 / -(-32 // ratio), rel=1e-3)
    assert found.p50_s > found.free_s
    assert found.busiest.startswith(("leaf:", "spine:"))


def test_what_shared_links_add_is_a_cause_of_its_own():
    plain, found = predict(run()), on(run(), ratio=4.0)
    assert found.ledger[Cause.LINKS] == pytest.approx(found.step_s - plain.step_s)
    assert sum(found.ledger.values()) == pytest.approx(found.step_s)
    assert all(found.ledger[cause] == plain.ledger[cause] for cause in plain.ledger)


def test_hashes_are_drawn_and_the_median_is_the_answer():
    found = on(run(), routing="ecmp")
    spread = found.contention
    assert spread.draws == DRAWS
    assert spread.free_s < spread.p50_s == found.step_s <= spread.p90_s
    assert on(run(), routing="ecmp").step_s == found.step_s
    assert on(run(), routing="ecmp", qps=16).step_s < on(run(), routing="ecmp", qps=4).step_s


def test_proposals_are_priced_on_the_same_links():
    found = on(run(), ratio=4.0)
    for one in improvements(found):
        assert one.gained_s < found.step_s
        again = found.pricing.step(one.run.model, one.run.layout, one.run.seq, one.run.cluster)
        assert found.step_s - one.gained_s == pytest.approx(float(again.step_s))


def test_llama_3_405b_ran_over_seven_to_one_without_loss():
    """dp rings of 128 over six pods whose way up is a seventh (meta-24k-h100)."""
    layout = sw.Layout(tp=8, pp=16, global_batch=2048, micro_batch=1, order=("tp", "cp", "pp", "dp", "ep"))
    one = sw.Run(model="llama-3.1-405b", cluster="meta-24k-h100", nodes=2048, layout=layout)
    assert one.cluster.fabric.tiers[-1].oversubscription == 7
    shared = SharedLinks(links_of_tiers(one.cluster), "adaptive", draw=0)
    for pattern in ("ring", "tree"):
        assert shared.slower(pattern, 128, 128, one.cluster) == 1.0
    assert shared.slower("transfer", 16, 8, one.cluster) == 1.0


def test_rail_only_forwarding_costs_an_all_to_all_as_much_as_measured():
    """8.2 to 11.2 % (arXiv:2307.12169): 7/8 of the bytes cross NVLink first."""
    cluster = lookup.cluster("dgx-h100").using(16)
    links = fabric_named("rail-only", cluster)
    fit = calibration(cluster.device).network
    what = Collective("all-to-all", 1e9, Group("ep", 128, 1))
    free, found = (
        ContendedNetwork(cluster, fit, SharedLinks(links, "adaptive", draw=draw)) for draw in (None, 0)
    )
    slower = found.collective_seconds(what) / free.collective_seconds(what)
    assert 1.08 < slower < 1.112


def test_a_fabric_too_small_is_refused():
    small = fabric_named("rail-optimised", lookup.cluster("dgx-h100").using(16))
    with pytest.raises(InputError, match="128 nodes are asked for, the fabric has 16"):
        predict(run(), network=SharedLinks(small))
