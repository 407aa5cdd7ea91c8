"""What a published run may be used for.

Holds `RowUse` and `part_of`, `organisation_of`, and `doubt` (which rows are not taken as printed).
The lists are data (`catalogue/validation/`), decided before any fit.
"""

from enum import StrEnum
from functools import lru_cache
from typing import Any

from syncwall.catalogue import BUILT_IN
from syncwall.documents import read_document
from syncwall.validate.table import RunRow

_FOLDER = BUILT_IN / "validation"


class RowUse(StrEnum):
    """What a row is used for."""

    CALIBRATION = "calibration"
    """A fit may read it."""
    STRUCTURE = "structure"
    """No fit reads it, but which terms the model has was chosen with its errors in view; the width
    of intervals is learned on it, too, leaving out whole organisations."""
    JUDGE = "judge"
    """Nobody looks at it; it is scored once for each release."""
    COMPOSED = "composed"
    """No fit reads it; a time put together from a few others, not a measurement of its own."""

    @property
    def is_held_out(self) -> bool:
        """True if no fit reads it and it is a measurement of its own."""
        return self in (RowUse.STRUCTURE, RowUse.JUDGE)


def part_of(row: RunRow) -> RowUse:
    """The part of the corpus that a row belongs to; a source that nobody listed is a judge."""
    lists = _document("split.yaml")
    composed = lists["composed"].get(row.source)
    if composed and row.whole("gpus") <= composed["gpus_at_most"]:
        return RowUse.COMPOSED
    if row.source in lists["calibration"]:
        return RowUse.CALIBRATION
    groups = lists["halves"].get(row.source, ())
    mine = [[row.text("model")], [row.text("model"), row.whole("gpus")]]
    if any(group in groups for group in mine):
        return RowUse.CALIBRATION
    known = row.source in lists["structure"] or groups or composed
    return RowUse.STRUCTURE if known else RowUse.JUDGE


def organisation_of(source: str) -> str:
    """Who published `source`; most have published one."""
    several = _document("split.yaml")["organisations"].items()
    return next((name for name, sources in several if source in sources), source)


def doubt(row: RunRow) -> str | None:
    """Why a row is not taken as printed; None if it is."""
    if row.grade == "C":
        return row.text("flags") or "graded as coarse or doubtful"
    listed = _doubtful().get(row.id)
    return listed or (STALLED if _stalled(row) else None)


STALLED = "a stall of 0.5 to 1.1 s in every micro batch, which no twin of the layout shows"


def _stalled(row: RunRow) -> bool:
    """A regime of one cluster: pipelines with tp of 8 or more that wait half a second and longer.

    Source: 245 rows of the ultra-scale playbook, none elsewhere; see docs/explanation/accuracy.md.
    """
    tp, pp, step = row.whole("tp"), row.whole("pp"), row.number("step_time_s")
    if row.text("framework") != "nanotron" or tp < 8 or pp == 1 or not step:
        return False
    slots = row.whole("gbs") / (row.whole("mbs") * row.whole("dp")) + pp - 1
    usual_s = row.whole("layers") / pp * (2 + 3 * tp) * 1e-3
    return step / slots > 0.55 + usual_s


@lru_cache(maxsize=1)
def _doubtful() -> dict[str, str]:
    groups = _document("doubtful.yaml")
    return {name: group["reason"] for group in groups.values() for name in group["ids"]}


@lru_cache(maxsize=4)
def _document(name: str) -> Any:
    return read_document(_FOLDER / name).value
