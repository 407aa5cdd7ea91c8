"""A recorded step has the FLOPs, collectives and memory of the same step really taken over Gloo."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from syncwall.capture.script import Script  # noqa: E402
from tests.capture.real_run import LIMITS, real, recorded  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    [
        "fsdp1",
        "fsdp2",
        *(pytest.param(one, marks=pytest.mark.weekly) for one in ("accumulated", "looped-experts")),
    ],
)
def test_a_recorded_step_is_that_of_two_real_processes(name):
    posing, true = (
        Script("tests.capture.real_programs", (name, device), is_module=True) for device in ("cuda", "cpu")
    )
    (step,) = recorded(posing, 2).values()
    found = real(true, 2)[0]
    assert step.sent == found.sent  # in their order
    differences = step.differences(found)
    assert all(abs(differences[what]) <= most for what, most in LIMITS.items()), differences
