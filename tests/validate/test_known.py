"""The other runs of a source once some are known."""

import numpy as np
import pytest

from syncwall.answer.site import Covariances, Site, site_prior
from syncwall.validate.score import KnownSet, known_choices
from tests.answer.known_steps import COMPUTING, known

WAITING = (0.4, 0.05, 0.05, 0.5, 0.0)
STEPS = [known(1.0 + 0.02 * place, WAITING if place % 3 else COMPUTING) for place in range(12)]


def test_choices_are_always_the_same_and_never_take_a_run_twice():
    found = known_choices(12, 3)
    np.testing.assert_array_equal(found, known_choices(12, 3))
    assert all(len(set(one)) == 3 for one in found.tolist())
    assert known_choices(12, 1).tolist() == [[place] for place in range(12)]


def test_every_other_run_counts_once_for_every_choice():
    found = KnownSet.of(STEPS).left(3, Covariances(site_prior()))
    assert len(found) == len(known_choices(12, 3)) * 9


def test_it_is_what_the_site_says_of_them():
    """The same as turning the knobs of the site, to first order."""
    left = KnownSet.of(STEPS).left(1, Covariances(site_prior()))
    knobs = Site((STEPS[0],)).knobs.by_name().values()
    logs = np.log([float(knob) for knob in knobs])
    wanted = [float(np.dot(one.shares, logs)) - np.log(one.ratio) for one in STEPS[1:]]
    assert left[:11].tolist() == pytest.approx(wanted)


def test_what_a_source_shares_is_learned():
    alike = KnownSet.of([known(1.2)] * 12)
    assert 0.2 > alike.mape(1) > alike.mape(3) > alike.mape(5)
