"""What a run should be like: a prediction as plain data.

Holds `expectation`.
"""

from pathlib import Path

from syncwall.problems import InputError
from syncwall.watch.events import Expectation


def expectation(named: str) -> tuple[Expectation | None, str]:
    """Of a run file; and why there is none."""
    try:
        return _predicted(named), ""
    except (InputError, OSError, ValueError) as error:
        return None, f"nothing to compare with: {error}"


def _predicted(named: str) -> Expectation:
    """Predicted as `syncwall predict` does."""
    from syncwall.answer.prediction import predict
    from syncwall.describe.overrides import run_with

    found = predict(run_with(Path(named), {}))
    low_s, high_s = found.interval.around(found.step_s)
    ledger = {cause: float(found.ledger[cause]) for cause in found.ledger}
    per_token = float(found.work.model_flops / found.work.tokens)
    peak_flops = float(found.peak_flop_per_s)
    return Expectation(
        float(found.step_s), low_s, high_s, ledger, named, per_token, peak_flops
    )  # fmt: skip
