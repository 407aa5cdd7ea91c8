from dataclasses import replace

import pytest

from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.score import known_run_sample, score
from tests.validate.samples import row


@pytest.fixture(scope="module")
def outcome() -> ValidatedRun:
    return outcomes([case_of(row())])[0]


def with_ratio(outcome: ValidatedRun, ratio: float) -> ValidatedRun:
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


def named(outcome: ValidatedRun, name: str, ratio: float) -> ValidatedRun:
    """A run of the same source with an id of its own."""
    case = replace(outcome.case, row=replace(outcome.case.row, cells={**outcome.case.row.cells, "id": name}))
    return with_ratio(replace(outcome, case=case), ratio)


def known(outcome: ValidatedRun, ratios: list[float]) -> tuple[float | None, ...]:
    """Errors after one, three and five known runs."""
    found = [named(outcome, str(place), ratio) for place, ratio in enumerate(ratios)]
    scored = score(found, known_run_sample(found))
    return scored.mape_one_known_run, scored.mape_three_known_runs, scored.mape_five_known_runs


def test_known_runs_need_others(outcome):
    assert known(outcome, [1.0] * 2) == (None, None, None)
    one, three, five = known(outcome, [1.0] * 3)
    assert one == pytest.approx(0)
    assert three is five is None
    assert None not in known(outcome, [1.0] * 9)


def test_a_site_that_is_all_alike_is_better_known_from_more_runs(outcome):
    one, three, five = known(outcome, [1.2] * 10)
    assert one is not None
    assert three is not None
    assert five is not None
    assert 0.2 > one > three > five > 0


def test_runs_of_several_sources_are_no_site(outcome):
    found = [named(outcome, str(place), 1.1) for place in range(10)]
    row = replace(found[0].case.row, cells=found[0].case.row.cells | {"source": "another"})
    found[0] = replace(found[0], case=replace(found[0].case, row=row))
    assert score(found, known_run_sample(found)).mape_one_known_run is None


def test_without_its_bias_a_constant_error_is_none(outcome):
    assert score([with_ratio(outcome, 1.3)] * 4).mape_without_bias == pytest.approx(0)


def test_a_run_is_called_impossible_only_if_the_low_end_of_its_memory_is_too_much(outcome):
    size = outcome.case.cluster.device.memory.size_bytes
    runs = [replace(outcome, memory_bytes=share * size) for share in (0.5, 0.94, 1.0, 1.1, 1.3)]
    assert [(one.fits, one.is_tight) for one in runs] == [
        *2 * [(True, False)],
        *2 * [(True, True)],
        (False, False),
    ]
    found = score(runs)
    assert (found.not_fitting, found.tight) == (0.2, 0.4)


def test_a_peak_of_batches_of_many_lengths_is_not_compared_with_that_of_their_mean(outcome):
    printed = {**outcome.case.row.cells, "mem_gb": "20"}
    for flags, compared in (("", True), ("variable length: mean of 210 tokens", False)):
        given = replace(outcome.case.row, cells={**printed, "flags": flags})
        found = replace(outcome, case=replace(outcome.case, row=given))
        assert (found.memory_ratio is not None) is compared
