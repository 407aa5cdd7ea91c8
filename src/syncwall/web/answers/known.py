"""Predictions that were just made: a page asks for the same run several times.

Holds `prediction_of`.
"""

from functools import lru_cache

from syncwall.answer import Prediction, predict
from syncwall.web.asked import AskedRun


def prediction_of(asked: AskedRun) -> Prediction:
    """What is predicted for the run that was asked for."""
    return _predicted(asked.model_dump_json())


@lru_cache(maxsize=64)
def _predicted(text: str) -> Prediction:
    return predict(AskedRun.model_validate_json(text).run())
