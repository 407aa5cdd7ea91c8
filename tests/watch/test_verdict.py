"""What holds a run up is said without being asked, with thresholds and advice of `explain`."""

import pytest

from syncwall.cause import Cause
from syncwall.watch.events import Finding, FindingKind, Group
from syncwall.watch.verdict import Bound, run_verdict

PLAIN = {Cause.FORWARD: 0.03, Cause.BACKWARD: 0.06, Cause.OPTIMIZER: 0.01}
DRAGS = Finding(FindingKind.STRAGGLER, 3, "a", 1.0, "", cost_s=0.02, group=Group.COMPUTE)
BUSY = Finding(FindingKind.HOST_BUSY, None, "a", 1.0, "", cost_s=0.03)


@pytest.mark.parametrize(
    ("cause", "bound"),
    [
        (Cause.IDLE_DATA, Bound.INPUT),
        (Cause.EXPOSED_DP, Bound.COMMUNICATION),
        (Cause.EXPOSED_ALL_REDUCE, Bound.COMMUNICATION),
        (Cause.REST, Bound.HOST),
    ],
)
def test_the_largest_wait_names_the_run_from_a_quarter_of_a_step_on(cause, bound):
    found = run_verdict(PLAIN | {cause: 0.05}, [], 100)
    assert found is not None
    assert (found.bound, found.share) == (bound, pytest.approx(1 / 3))
    assert found.next
    less = run_verdict(PLAIN | {cause: 0.03}, [], 100)
    assert less is not None
    assert (less.bound, less.share) == (Bound.COMPUTE, pytest.approx(10 / 13))


def test_what_a_finding_costs_goes_before_the_ledger():
    waits = PLAIN | {Cause.EXPOSED_DP: 0.1}
    found = run_verdict(waits, [DRAGS], 100)
    assert str(found) == "straggling: 10% of a step waits for rank 3"
    found = run_verdict(waits, [DRAGS, BUSY], 100)
    assert str(found) == "host-bound: 15% of a step waits for cores of a"


def test_of_few_steps_nothing_is_said():
    assert run_verdict(PLAIN, [], 4) is None
    assert run_verdict({}, [], 100) is None
