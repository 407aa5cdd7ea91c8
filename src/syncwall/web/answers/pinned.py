"""A run beside the one that was pinned.

Holds `beside`.
"""

from typing import Any

from syncwall.answer import Prediction
from syncwall.job.compare import comparison
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.compare import doubt
from syncwall.show.layout import run_words
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.asked import AskedRun
from syncwall.web.questions import AskedBeside


def beside(asked: AskedBeside) -> dict[str, Any]:
    """What `syncwall compare` says of a run beside a pinned one: differences and their doubt."""
    pinned = _pinned(asked.pinned)
    (one,) = comparison([(pinned, None), (prediction_of(asked.run), None)]).beside
    return {
        **plain(one),
        "doubt": doubt(one),
        "pinned": {
            "what": run_words(pinned.run),
            "step_s": pinned.step_s,
            "exposed_s": pinned.exposed_s,
            "ledger_s": plain(pinned.ledger),
        },
    }


def _pinned(asked: AskedRun) -> Prediction:
    """What is predicted for the pinned run; its problems say whose they are."""
    try:
        return prediction_of(asked)
    except InputError as error:
        raise error.under("pinned") from None
