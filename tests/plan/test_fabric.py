"""Laws of fabrics: connected, never shrinking, the same for one number as for many."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from syncwall.describe import lookup
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.options import Refusal, least_radix, options, proposed, refusal, sized
from syncwall.plan.fabric.question import Wiring, wiring_of
from syncwall.plan.fabric.sized import PartRates, losses
from syncwall.problems import InputError

RADIX = st.integers(8, 256)
RATIO = st.floats(1, 12)
GPUS = st.integers(1, 1_000_000)
NICS = st.sampled_from([1, 2, 4, 8])


@st.composite
def wirings(draw):
    radix, nics = draw(RADIX), draw(NICS)
    ratios = (draw(RATIO), draw(RATIO))
    growth = draw(st.sampled_from([0.0, 0.2, 1.0]))
    gpus = nics * draw(st.sampled_from([1, 2]))
    return Wiring(gpus, nics, 50e9, (radix,) * 3, ratios, growth)


def built(kind, wiring, gpus):
    one = sized(kind, wiring, [gpus]).at(0)
    assume(one.possible)
    return one


@given(wirings(), GPUS, st.sampled_from(["rail-optimised", "fat-tree-2", "fat-tree-3"]))
def test_trees_have_ports_for_every_cable(wiring, gpus, kind):
    one = built(kind, wiring, gpus)
    leaf, spine, core = one.switches.values()
    to_nodes, to_spines, to_cores = one.cables.values()
    radix = wiring.radix[0]
    assert to_nodes == one.nodes * wiring.nics_per_node <= leaf * one.shape["down"]
    assert one.shape["down"] + one.shape["up"] <= radix
    assert to_spines == leaf * one.shape["up"]
    assert to_spines <= spine * (radix - one.shape["spine_up"])
    assert to_cores <= core * radix
    assert bool(to_cores) == bool(core)


@given(wirings(), GPUS, st.sampled_from(["rail-optimised", "fat-tree-2", "fat-tree-3"]))
def test_grown_trees_still_fit_on_the_top_tier_bought_today(wiring, gpus, kind):
    one = built(kind, wiring, gpus)
    top = next(tier for tier in ("core", "spine", "leaf") if one.grown_switches[tier])
    if top != "leaf":
        assert one.switches[top] == one.grown_switches[top]
    below = {"core": "spine", "spine": "leaf"}.get(top)
    if below:
        up = one.shape["spine_up" if top == "core" else "up"]
        assert one.grown_switches[below] * up <= one.switches[top] * wiring.radix[0]
    assert all(one.switches[tier] <= one.grown_switches[tier] for tier in one.switches)


@given(wirings(), GPUS)
def test_every_spine_meets_every_leaf(wiring, gpus):
    one = built("fat-tree-2", wiring, gpus)
    if one.switches["spine"]:
        assert one.shape["up"] % one.switches["spine"] == 0
        cables_of_a_leaf = one.shape["up"] // one.switches["spine"]
        assert one.grown_switches["leaf"] * cables_of_a_leaf <= wiring.radix[1]


@given(wirings(), GPUS)
def test_groups_of_a_dragonfly_all_meet(wiring, gpus):
    one = built("dragonfly", wiring, gpus)
    shape, routers = one.shape, one.switches["router"]
    p, a, h = shape["down"], shape["group"], shape["up"]
    assert p + a - 1 + h <= wiring.radix[0]
    assert routers * p >= one.cables["node-router"]
    last = routers - (shape["pods"] - 1) * a
    assert 1 <= last <= a
    assert last * h >= shape["pods"] - 1
    assert one.cables["global"] * 2 <= routers * h


@given(wirings(), GPUS)
def test_rails_are_equal_and_alone(wiring, gpus):
    one = built("rail-only", wiring, gpus)
    assert all(count % one.shape["rails"] == 0 for count in one.switches.values())
    assert one.cables["node-leaf"] <= one.switches["leaf"] * one.shape["down"]


@given(wirings(), st.sampled_from(KINDS), GPUS, GPUS)
def test_more_gpus_never_need_less(wiring, kind, some, more):
    some, more = sorted((some, more))
    both = sized(kind, wiring, np.array([some, more]))
    few, many = both.at(0), both.at(1)
    assume(few.possible and many.possible)
    assert all(few.switches[tier] <= many.switches[tier] for tier in few.switches)
    assert all(few.cables[name] <= many.cables[name] for name in few.cables)
    assert few.hops <= many.hops


@given(RADIX, NICS, RATIO, RATIO, GPUS, st.sampled_from(KINDS))
def test_bisection_never_grows_with_oversubscription(radix, nics, one, other, gpus, kind):
    fair, narrow = (
        sized(kind, Wiring(nics, nics, 50e9, (radix,) * 3, (ratio, 1.0)), [gpus]).at(0)
        for ratio in sorted((one, other))
    )
    assume(fair.possible and narrow.possible)
    if kind == "dragonfly":  # fewer, larger groups can win more than thinner links lose
        assume(all(fair.shape[key] == narrow.shape[key] for key in ("pods", "up")))
    assert narrow.bisection_bytes_per_s <= fair.bisection_bytes_per_s * (1 + 1e-12)
    assert 0 < narrow.bisection_share <= 1


@settings(max_examples=30)
@given(wirings(), st.sampled_from(KINDS), st.lists(GPUS, min_size=2, max_size=6))
def test_one_number_and_many_agree(wiring, kind, gpus):
    many = sized(kind, wiring, np.array(gpus))
    for index, number in enumerate(gpus):
        assert many.at(index) == sized(kind, wiring, [number]).at(0)


@pytest.mark.parametrize("kind", ["dragonfly", "rail-only"])
def test_a_million_gpus_on_switches_of_today(kind):
    wiring = wiring_of(lookup.cluster("dgx-h100"), radix=(128,) * 3)
    one = sized(kind, wiring, [1_000_000]).at(0)
    assert one.possible
    assert one.cables[next(iter(one.cables))] == 1_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_radix_is_the_least(kind):
    wiring = Wiring(8, 8, 50e9)
    ports = least_radix(kind, wiring, 200_000)
    assert ports is not None
    for radix, enough in ((ports, True), (ports - 1, False)):
        assert (sized(kind, Wiring(8, 8, 50e9, (radix,) * 3), [1]).most_gpus >= 200_000) is enough


@pytest.mark.parametrize(
    ("wiring", "gpus"),
    [
        (Wiring(8, 8, 50e9, oversubscription=(4.0, 1.0)), 1024),  # a fat tree saves 3 of 37 switches
        (Wiring(8, 8, 50e9, oversubscription=(4.0, 1.0)), 2048),
        (Wiring(8, 8, 100e9, radix=(144, 144, 144)), 16_384),  # 4 of 664
    ],
)
def test_rails_are_not_given_up_for_a_few_switches(wiring, gpus):
    found = options(wiring, gpus)
    assert min(one.total_switches for one in found.values() if one.possible) < (
        found["rail-optimised"].total_switches
    )
    assert proposed(found) is found["rail-optimised"]


def test_the_cheapest_tree_is_proposed_where_every_part_has_a_price():
    found = options(Wiring(8, 8, 50e9, oversubscription=(4.0, 1.0)), 1024)
    prices = PartRates(switch=20_000.0, optic=900.0, fibre=100.0)
    assert proposed(found, prices) is found["fat-tree-2"]
    assert proposed(found, PartRates(switch=20_000.0)) is found["rail-optimised"]  # not all are priced


def test_a_tree_is_proposed_where_one_can_be():
    wiring = Wiring(8, 8, 50e9)
    kinds = {}
    for gpus in (8, 64, 1_024, 24_576, 200_000, 400_000, 1_000_000):
        one = proposed(options(wiring, gpus))
        kinds[gpus] = one.kind if one else None
    assert kinds == {
        8: "fat-tree-2",
        64: "fat-tree-2",
        1_024: "rail-optimised",
        24_576: "rail-optimised",
        200_000: "dragonfly",
        400_000: "rail-only",
        1_000_000: None,
    }


def test_kinds_are_refused_with_a_reason():
    found = options(Wiring(8, 8, 50e9, scale_up=False), 4_096)
    assert refusal(found["fat-tree-2"]) is Refusal.TOO_MANY
    assert refusal(found["rail-only"]) is Refusal.NO_SCALE_UP
    assert refusal(options(Wiring(8, 8, 50e9), 64)["fat-tree-3"]) is Refusal.NOT_NEEDED
    assert refusal(options(Wiring(4, 1, 50e9), 64)["rail-optimised"]) is Refusal.NO_RAILS


def test_one_failure_takes_what_hangs_on_it():
    found = options(Wiring(8, 8, 50e9), 4_096)
    rails = {loss.part: loss for loss in losses(found["rail-optimised"])}
    assert (rails["leaf"].gpus, rails["leaf"].share) == (256, 1 / 8)
    assert (rails["spine"].gpus, rails["spine"].share) == (1_024, 1 / 32)
    assert (rails["core"].gpus, rails["core"].share) == (4_096, 1 / 64)
    tree = {loss.part: loss for loss in losses(found["fat-tree-3"])}
    assert (tree["leaf"].gpus, tree["leaf"].share) == (32, 1.0)
    assert (tree["node-leaf"].gpus, tree["node-leaf"].share) == (8, 1 / 8)
    flies = {loss.part: loss for loss in losses(found["dragonfly"])}
    assert (flies["router"].gpus, flies["router"].share) == (16, 1.0)


@given(wirings(), GPUS, st.sampled_from(KINDS))
def test_losses_are_shares(wiring, gpus, kind):
    for loss in losses(built(kind, wiring, gpus)):
        assert 0 < loss.share <= 1
        assert 1 <= loss.gpus <= max(gpus, wiring.gpus_per_node)


def test_a_bill_adds_up_and_says_what_is_missing():
    one = options(Wiring(8, 8, 50e9), 1_024)["rail-optimised"]  # 32 + 16 switches, 2,048 cables
    bill = PartRates(switch=20_000, optic=500).bill(one)
    assert bill.total == 48 * 20_000 + 4_096 * 500
    assert bill.left_out == ("fibre",)
    copper = PartRates(20_000, 500, 50, 100).bill(one, ("node-leaf",))
    assert copper.total == 48 * 20_000 + 2_048 * 500 + 1_024 * 50 + 1_024 * 100
    assert copper.left_out == ()
    assert PartRates(20_000, 500, 50, 100).bill(one).total == 48 * 20_000 + 4_096 * 500 + 2_048 * 50


@pytest.mark.parametrize(
    ("given_as", "says"),
    [
        ({"radix": (2, 2, 2)}, "too few"),
        ({"oversubscription": (0.5, 1.0)}, "at least 1"),
        ({"growth": -0.1}, "not negative"),
    ],
)
def test_wirings_that_cannot_be(given_as, says):
    with pytest.raises(InputError, match=says):
        wiring_of(lookup.cluster("dgx-h100"), **given_as)


def test_a_machine_without_nics_has_nothing_to_connect():
    with pytest.raises(InputError, match="no NICs"):
        wiring_of(lookup.cluster("workstation-pcie-4x4090"))
