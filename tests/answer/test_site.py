"""What known runs of a site change."""

from itertools import pairwise
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.improvements import improvements
from syncwall.answer.site import BETWEEN_SITES, NOWHERE, WITHIN_SITE, Site, trusted_share
from tests.answer.test_prediction import FSDP, run

ratios = st.floats(0.2, 5)


def test_more_runs_are_trusted_more_but_never_wholly():
    shares = [trusted_share([0.0] * count) for count in range(20)]
    assert shares[0] == 0
    assert all(few < more < 1 for few, more in pairwise(shares))


def test_the_share_is_that_of_a_normal_posterior():
    """Prior variance over prior variance and that of the mean of n runs."""
    prior, noise = BETWEEN_SITES**2, WITHIN_SITE**2
    for count in (1, 2, 7):
        assert trusted_share([0.0] * count) == pytest.approx(prior / (prior + noise / count))


@given(st.lists(st.floats(0, 5), min_size=1, max_size=5), st.integers(0, 4), st.floats(0.01, 3))
def test_runs_that_are_less_alike_are_trusted_less(distances, which, farther):
    moved = list(distances)
    moved[which % len(moved)] += farther
    assert trusted_share(moved) < trusted_share(distances)
    assert trusted_share([*distances, 5.0]) > trusted_share(distances)


@given(ratios, st.floats(0, 5), st.floats(0.01, 5))
def test_a_run_far_away_moves_less_and_leaves_more_unsure(ratio, far, farther):
    near, distant = (Site((ratio,), distances=(d,)) for d in (far, far + farther))
    assert abs(log(distant.bias)) <= abs(log(near.bias))
    assert distant.narrowed(0.3) >= near.narrowed(0.3)


def test_a_site_is_seen_from_the_run_asked_for():
    known, other = sw.predict(run(**FSDP)), sw.predict(run(model="llama-3.1-70b", tp=8, **FSDP))
    site = Site.of([(1.2 * known.step_s, known.step_s)], [known.traits])
    assert site.seen_from(known.traits).distances == (0.0,)
    assert site.seen_from(other.traits).distances[0] > 0.5
    near, far = (sw.predict(one.run, site=site).site.bias for one in (known, other))
    assert 1 < far < near < 1.2


def test_nothing_known_changes_nothing():
    assert NOWHERE.bias == 1
    assert NOWHERE.narrowed(0.3) == 0.3


@given(ratios)
def test_one_run_moves_predictions_between_one_and_its_ratio(ratio):
    bias = Site((ratio,)).bias
    assert min(1, ratio) <= bias <= max(1, ratio)
    assert abs(log(bias)) >= 0.5 * abs(log(ratio))


@given(ratios, st.integers(1, 10))
def test_more_runs_that_agree_move_further(ratio, count):
    few, more = Site((ratio,) * count), Site((ratio,) * (count + 1))
    assert abs(log(few.bias)) <= abs(log(more.bias)) + 1e-12


@given(st.lists(ratios, min_size=1, max_size=6))
def test_the_order_of_runs_does_not_matter(found):
    assert Site(tuple(found)).bias == pytest.approx(Site(tuple(found[::-1])).bias)


@given(ratios)
def test_opposite_errors_cancel(ratio):
    assert Site((ratio, 1 / ratio)).bias == pytest.approx(1)


@given(st.floats(0.01, 1), st.lists(ratios, max_size=6))
def test_known_runs_never_make_it_less_sure(deviation, found):
    left = Site(tuple(found)).narrowed(deviation)
    assert 0 < left <= deviation
    if deviation > WITHIN_SITE:
        assert left >= WITHIN_SITE * (1 - 1e-12)


@given(ratios, st.floats(0, 3), st.floats(0.1, 3))
def test_runs_unlike_the_one_asked_for_move_it_less(ratio, near, further):
    close = Site((ratio,), distances=(near,)).bias
    far = Site((ratio,), distances=(near + further,)).bias
    assert abs(log(far)) <= abs(log(close)) + 1e-12


def test_a_site_is_seen_from_a_run():
    """A known run of another kind of machine tells less than one of the same kind."""
    plain, other = sw.predict(run(**FSDP)), sw.predict(run(**{**FSDP, "cluster": "dgx-a100"}))
    site = Site.of([(plain.step_s * 1.2, plain.step_s)], [plain.traits])
    assert site.seen_from(plain.traits).distances == (0.0,)
    assert 1 < site.seen_from(other.traits).bias < site.seen_from(plain.traits).bias < 1.2


def test_a_site_is_measured_over_predicted():
    assert Site.of([(9.8, 4.9), (3.0, 6.0)]).ratios == (2.0, 0.5)


@pytest.mark.parametrize("ratio", [0.7, 0.95, 1.0, 1.1, 1.5])
def test_the_known_run_itself_lands_near_its_measured_time(ratio):
    plain = sw.predict(run(**FSDP))
    site = Site.of([(plain.step_s * ratio, plain.step_s)])
    found = sw.predict(run(**FSDP), site=site)
    left = exp((1 - trusted_share([0.0])) * abs(log(ratio)))
    measured_s, (low, high) = plain.step_s * ratio, found.step_interval_s
    apart = max(found.step_s, measured_s) / min(found.step_s, measured_s)
    assert apart == pytest.approx(left)
    assert low < measured_s < high


def test_everything_but_memory_is_anchored():
    plain, found = sw.predict(run(**FSDP)), sw.predict(run(**FSDP), site=Site((1.2,)))
    factor = found.site.bias
    assert found.step_s == pytest.approx(plain.step_s * factor)
    assert found.exposed_s == pytest.approx(plain.exposed_s * factor)
    assert found.mfu == pytest.approx(plain.mfu / factor)
    assert found.tokens_per_s_per_gpu == pytest.approx(plain.tokens_per_s_per_gpu / factor)
    assert found.memory_bytes == plain.memory_bytes
    assert found.verdict.text == plain.verdict.text
    assert found.to_dict()["known_runs"] == 1


def test_proposals_are_anchored_to_the_same_site():
    described = run(model="llama-3.1-70b", nodes=8, tp=8, pp=2, shard="zero1", global_batch=128,
                    recompute="full")  # fmt: skip
    plain = improvements(sw.predict(described))
    found = improvements(sw.predict(described, site=Site((1.3,))))
    assert [one.change for one in found] == [one.change for one in plain]
    for one, other in zip(plain, found, strict=True):
        assert other.gained_s == pytest.approx(one.gained_s * Site((1.3,)).bias)


def test_a_site_is_known_as_well_in_every_layout_and_size():
    known = sw.predict(run(**FSDP))
    site = Site.of([(known.step_s * 1.2, known.step_s)], [known.traits])
    for change in ({"nodes": 2}, {"tp": 4}, {"pp": 2}, {"shard": "zero1"}):
        other = sw.predict(run(**{**FSDP, **change}), site=site)
        assert other.pricing.site_factor == site.seen_from(known.traits).bias
