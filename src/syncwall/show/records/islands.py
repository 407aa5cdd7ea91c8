"""Islands that meet seldom as plain data.

Holds `IslandsRecord` and `islands_record`.
"""

from typing import Annotated, Any

from typing_extensions import TypedDict

from syncwall.answer.islands import IslandsPrediction
from syncwall.describe.islands import Islands
from syncwall.show.records.description import record as described
from syncwall.show.records.interface import DescribedAs, plain, record
from syncwall.show.records.prediction import RunFields, StepRecord, step_record

IslandsFields = Annotated[dict[str, Any], DescribedAs(Islands)]
"""How many there are, what joins them, what they send."""


@record
class IslandsRecord(TypedDict):
    """Islands that train apart and meet every so many steps."""

    step_s: float
    """A step with its share of the meetings."""
    inner_s: float
    """A step inside of one island: that of `inner`."""
    outer_s: float
    """One meeting of the whole model."""
    outer_bytes: float
    """What an island sends for it."""
    exposed_s: float
    """Seconds of a meeting for which training stops."""
    utilisation: float
    """Share of the time in which an island does not wait for the others."""
    mfu: float
    """Model FLOPs utilization, meetings included."""
    tokens_per_s: float
    """Of all islands together."""
    gpus: int
    """Of all islands together."""
    fits: bool
    """True if an island has enough memory; outer states are not counted."""
    islands: IslandsFields
    inner: StepRecord
    """A step of one island, as `predict` has it for `run`."""
    run: RunFields
    """The run of one island."""


def islands_record(found: IslandsPrediction) -> IslandsRecord:
    """The islands with a step of one."""
    return {
        "step_s": found.step_s,
        "inner_s": found.inner.step_s,
        "outer_s": found.outer_s,
        "outer_bytes": found.outer_bytes,
        "exposed_s": found.exposed_s,
        "utilisation": found.utilisation,
        "mfu": found.mfu,
        "tokens_per_s": found.tokens_per_s,
        "gpus": found.gpus,
        "fits": found.fits,
        "islands": plain(found.islands),
        "inner": step_record(found.inner),
        "run": described(found.inner.run),
    }
