from dataclasses import replace

import pytest

from syncwall.answer.site import trusted_share
from syncwall.validate.evaluation import Outcome, outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.score import anchored_mape, score
from tests.validate.samples import row


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return outcomes([case_of(row())])[0]


def with_ratio(outcome: Outcome, ratio: float) -> Outcome:
    """The same run with a measurement that makes the ratio so."""
    return replace(outcome, case=replace(outcome.case, measured_s=outcome.step_s / ratio))


def test_errors_by_hand(outcome):
    found = score([with_ratio(outcome, ratio) for ratio in (0.8, 1.0, 1.1, 1.5)])
    assert found.n == 4
    assert found.mape == pytest.approx((0.2 + 0.0 + 0.1 + 0.5) / 4)
    assert found.median_ape == pytest.approx(0.15)
    assert found.ratio_median == pytest.approx(1.05)
    assert found.ratio_p10 == pytest.approx(0.86)
    assert found.ratio_p90 == pytest.approx(1.38)


def test_coverage_is_the_share_inside_the_interval(outcome):
    low, high = outcome.interval_s
    assert low < outcome.step_s < high
    exact, far = with_ratio(outcome, 1.0), with_ratio(outcome, 20.0)
    assert score([exact, exact, exact, far]).coverage80 == 0.75


def test_one_known_run_needs_others(outcome):
    assert score([outcome] * 2).mape_one_known_run is None
    assert score([outcome] * 3).mape_one_known_run is not None


def test_a_site_that_is_all_alike_is_better_known_from_one_run(outcome):
    same = [with_ratio(outcome, 1.3)] * 5
    assert anchored_mape(same) == pytest.approx(1.3 ** (1 - trusted_share([0.0])) - 1)
    assert anchored_mape([with_ratio(outcome, 1.0)] * 4) == pytest.approx(0)


def test_the_known_run_is_averaged_over_all_choices(outcome):
    ratios = (0.7, 0.9, 1.0, 1.4)
    total = 0.0
    for i, anchor in enumerate(ratios):
        bias = anchor ** trusted_share([0.0])
        total += sum(abs(ratio / bias - 1) for j, ratio in enumerate(ratios) if j != i)
    found = anchored_mape([with_ratio(outcome, ratio) for ratio in ratios])
    assert found == pytest.approx(total / (4 * 3))


def test_without_its_bias_a_constant_error_is_none(outcome):
    assert score([with_ratio(outcome, 1.3)] * 4).mape_without_bias == pytest.approx(0)
