"""What would explain the gap between a trace and a prediction, cause by cause."""

from functools import cache

import pytest

import syncwall as sw
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.explain.remedies import suspects_of
from syncwall.explain.side_by_side import SideBySide, side_by_side
from syncwall.timeline.ledger import Ledger


@cache
def predicted() -> Prediction:
    layout = sw.Layout(shard="fsdp", micro_batch=1, global_batch=256, recompute="none")
    software = sw.Software(framework="torchtitan")
    return sw.predict(
        sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=16, layout=layout, software=software)
    )


def traced(cause: Cause, more: float) -> SideBySide:
    """The predicted step with `more` of its time spent on a cause."""
    ledger = Ledger(predicted().ledger)
    ledger.add(cause, predicted().step_s * more)
    return side_by_side(predicted().ledger, ledger)


@pytest.mark.parametrize(
    ("cause", "expected", "never"),
    [
        (Cause.EXPOSED_ALL_GATHER, {"overlap"}, {"kernels", "power"}),
        (Cause.ELEMENTWISE, {"kernels", "recompute"}, {"overlap", "power"}),
        (Cause.GEMM, {"power"}, {"adapters", "overlap", "kernels"}),
    ],
)
def test_suspects_spend_their_time_where_the_trace_does(cause, expected, never):
    keys = {one.key for one in suspects_of(predicted(), traced(cause, 0.3))}
    assert expected <= keys
    assert not keys & never


def test_as_far_apart_as_is_usual_nothing_is_suspected():
    assert suspects_of(predicted(), traced(Cause.GEMM, 0.05)) == ()
