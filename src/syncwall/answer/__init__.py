"""What `syncwall.predict` returns: a prediction with its interval, its ledger and its verdict.

Holds `Prediction` and `predict`.
"""

from syncwall.answer.prediction import Prediction, predict

__all__ = ["Prediction", "predict"]
