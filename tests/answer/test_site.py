"""What known runs of a site change."""

from dataclasses import replace
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.improvements import changed
from syncwall.answer.known import site_at, site_from
from syncwall.answer.site import UNKNOWN_SITE, Site, site_prior
from syncwall.cost.framework_costs import AS_CATALOGUED, KNOBS
from syncwall.describe.run import KnownRun
from tests.answer.known_steps import COMPUTING, known
from tests.answer.test_prediction import FSDP, run

ratios = st.floats(0.2, 5)
shares = st.tuples(*[st.floats(0.01, 1)] * len(KNOBS)).map(
    lambda found: tuple(share / sum(found) for share in found)
)


def logs(site: Site) -> list[float]:
    return [log(float(value)) for value in site.knobs.by_name().values()]


def moved(site: Site, of: tuple[float, ...] = COMPUTING) -> float:
    """ln of what a step with shares `of` is multiplied by, to first order."""
    return float(np.dot(of, logs(site)))


def test_nothing_known_changes_nothing():
    assert UNKNOWN_SITE.knobs == AS_CATALOGUED
    assert UNKNOWN_SITE.narrowed(0.3) == 0.3


def test_one_run_is_trusted_by_the_share_of_a_normal_posterior():
    """Prior variance over prior variance and that of what a run has for itself."""
    prior = site_prior()
    common = np.sum((np.array(COMPUTING) * prior.knobs) ** 2) + prior.setup**2 + prior.step**2
    network, host = COMPUTING[KNOBS.index("network")], COMPUTING[KNOBS.index("host")]
    alone = prior.run**2 + (prior.run_network * network) ** 2 + (prior.run_host * host) ** 2
    assert moved(Site((known(1.02),))) == pytest.approx(common / (common + alone) * log(1.02))


@given(ratios, shares)
def test_one_run_moves_a_step_between_one_and_its_ratio(ratio, of):
    found = moved(Site((known(ratio, of),)), of)
    assert min(0, log(ratio)) - 1e-12 <= found <= max(0, log(ratio)) + 1e-12


@given(ratios, ratios, shares)
def test_a_slower_known_run_never_makes_a_site_faster(one, other, of):
    low, high = sorted((one, other))
    slower, faster = (moved(Site((known(ratio, of),)), of) for ratio in (high, low))
    assert slower >= faster - 2e-3  # as near as 25 passes of the weights come


@given(st.floats(0.7, 1.5), st.integers(1, 8))
def test_more_runs_that_agree_move_further(ratio, count):
    few, more = (Site((known(ratio),) * number) for number in (count, count + 1))
    assert abs(moved(few)) <= abs(moved(more)) + 1e-9


@given(st.lists(ratios, min_size=1, max_size=6))
def test_the_order_of_runs_does_not_matter(found):
    steps = tuple(known(ratio) for ratio in found)
    assert logs(Site(steps)) == pytest.approx(logs(Site(steps[::-1])), abs=1e-6)


@given(ratios)
def test_opposite_errors_cancel(ratio):
    assert logs(Site((known(ratio), known(1 / ratio)))) == pytest.approx([0.0] * 5, abs=1e-9)


def test_one_outlier_among_five_hardly_counts():
    """Four runs as predicted and one that stalled: the mean would be 15% slower."""
    assert abs(moved(Site((*[known(1.0)] * 4, known(2.0))))) < 0.4 * log(2) / 5


def test_a_knob_moves_with_the_time_that_goes_with_it():
    """Of two runs the one that waits for the network is slow: it is the network, not the GEMMs."""
    waiting = (0.4, 0.05, 0.05, 0.5, 0.0)
    found = Site((known(1.0), known(1.0), known(1.15, waiting), known(1.15, waiting))).knobs
    assert found.network > 1.1
    assert abs(log(float(found.gemm))) < 0.03


def test_a_measured_kernel_leaves_its_knob_nearly_alone():
    steps = (known(1.3),) * 3
    plain, measured = Site(steps).knobs, Site(steps, measured=("gemm",)).knobs
    assert measured.gemm < plain.gemm
    assert measured.elementwise > plain.elementwise


def test_runs_unlike_the_one_asked_for_move_it_less():
    near = known(1.2)
    found = []
    for precision, experts in (("16", False), ("8", False), ("8", True)):
        asked = replace(near.traits, precision=precision, experts=experts)
        found.append(moved(Site((near,)).seen_from(asked)))
    assert log(1.2) > found[0] > found[1] > found[2] > 0


@given(st.floats(0.01, 1), st.lists(ratios, max_size=6))
def test_known_runs_never_make_it_less_sure(deviation, found):
    left = Site(tuple(known(ratio) for ratio in found)).narrowed(deviation)
    assert 0 < left <= deviation
    if deviation > site_prior().run:
        assert left >= site_prior().run * (1 - 1e-12)


def test_every_known_run_makes_it_surer():
    left = [Site((known(1.1),) * count).narrowed(0.3) for count in range(6)]
    assert all(more < few for few, more in pairwise(left))


def slower(ratio: float, *, same_build: bool = False) -> tuple[sw.Prediction, Site]:
    """A run, and the site at which it takes `ratio` times as long as predicted."""
    plain = sw.predict(run(**FSDP))
    return plain, site_at([plain], [plain.step_s * ratio], [same_build])


@pytest.mark.parametrize("ratio", [0.8, 0.95, 1.0, 1.1, 1.25])
def test_the_known_run_itself_lands_near_its_measured_time(ratio):
    plain, site = slower(ratio)
    found = sw.predict(run(**FSDP), site=site)
    low, high = found.step_interval_s
    assert abs(log(found.step_s / plain.step_s / ratio)) <= 0.3 * abs(log(ratio)) + 1e-9
    assert low < plain.step_s * ratio < high


@pytest.mark.parametrize("ratio", [0.7, 0.9, 1.0, 1.2, 1.5])
def test_a_run_of_the_same_build_is_reproduced(ratio):
    plain, site = slower(ratio, same_build=True)
    found = sw.predict(run(**FSDP), site=site)
    assert found.step_s == pytest.approx(plain.step_s * ratio, rel=0.02)


def test_everything_but_memory_is_anchored():
    plain, site = slower(1.2)
    found = sw.predict(run(**FSDP), site=site)
    factor = found.step_s / plain.step_s
    assert 1.1 < factor < 1.2
    assert found.ledger.total == pytest.approx(found.step_s)
    assert found.mfu == pytest.approx(plain.mfu / factor)
    assert found.tokens_per_s_per_gpu == pytest.approx(plain.tokens_per_s_per_gpu / factor)
    assert found.memory_bytes == plain.memory_bytes
    told = found.to_dict()
    assert told["known_runs"] == 1
    assert set(told["knobs"]) == set(KNOBS)


def test_proposals_are_priced_at_the_same_site():
    _, site = slower(1.3)
    found = sw.predict(run(**FSDP), site=site)
    for one in changed(found)[:8]:
        then = sw.predict(one.run, site=site)
        assert one.gained_s == pytest.approx(found.step_s - then.step_s, rel=1e-9, abs=1e-12)


def test_a_site_is_known_as_well_in_every_layout_and_size():
    plain, site = slower(1.2)
    knobs = sw.predict(run(**FSDP), site=site).pricing.knobs
    for change in ({"nodes": 2}, {"tp": 4}, {"pp": 2}, {"shard": "zero1"}):
        other = sw.predict(run(**{**FSDP, **change}), site=site)
        assert other.pricing.knobs == knobs
        assert other.step_s > sw.predict(run(**{**FSDP, **change})).step_s
    assert plain.pricing.knobs == AS_CATALOGUED


def test_a_site_is_seen_from_the_run_asked_for():
    plain, site = slower(1.2)
    far = sw.predict(run(model="llama-3.1-70b", tp=8, **FSDP), site=site)
    near = sw.predict(plain.run, site=site)
    assert 1 < far.pricing.knobs.gemm < near.pricing.knobs.gemm


@settings(max_examples=20)
@given(st.floats(1.0, 1.29))
def test_known_runs_are_given_in_python(ratio):
    plain = sw.predict(run(**FSDP))
    fields = run(**FSDP).model_dump(include={"model", "cluster", "layout", "software", "seq"})
    one = KnownRun.model_validate(fields | {"measured": {"step": plain.step_s * ratio}})
    (step,) = site_from([one]).known
    assert step.ratio == pytest.approx(ratio, rel=0.02)
    assert sum(step.shares) == pytest.approx(1)


def test_shares_are_what_a_price_does_to_a_step():
    plain = sw.predict(run(**FSDP))
    (step,) = site_at([plain], [plain.step_s]).known
    for name, share in zip(KNOBS, step.shares, strict=True):
        dearer = plain.pricing.turned(replace(AS_CATALOGUED, **{name: 1.01}))
        then = sw.predict(plain.run, dearer)
        assert then.step_s / plain.step_s == pytest.approx(exp(share * log(1.01)), rel=2e-4)
