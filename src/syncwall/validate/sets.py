"""The sets of runs that accuracy is reported for.

Holds `RunSet` and `run_sets`: one for every source (its calibration and its held-out part apart),
accelerator, scale and kind of parallelism, and those of `catalogue/validation/sets.yaml`. `Part`,
`part_of` and `doubt`: which rows a fit may read, and which rows are not taken as printed. The lists
are data (`catalogue/validation/`), decided before any fit.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from syncwall.catalogue import BUILT_IN
from syncwall.documents import read_document
from syncwall.validate.evaluation import Outcome
from syncwall.validate.table import Row

_FOLDER = BUILT_IN / "validation"


class Part(StrEnum):
    """What a row is used for."""

    CALIBRATION = "calibration"
    """A fit may read it."""
    HELD_OUT = "held out"
    """No fit reads it."""
    COMPOSED = "composed"
    """Held out; a time that was put together from a few others, not a measurement of its own."""


def part_of(row: Row) -> Part:
    """The part of the corpus that a row belongs to; a source that is not listed is held out."""
    lists = _document("split.yaml")
    composed = lists["composed"].get(row.source)
    if composed and row.whole("gpus") <= composed["gpus_at_most"]:
        return Part.COMPOSED
    if row.source in lists["calibration"]:
        return Part.CALIBRATION
    groups = lists["halves"].get(row.source, ())
    mine = [[row.text("model")], [row.text("model"), row.whole("gpus")]]
    return Part.CALIBRATION if any(group in groups for group in mine) else Part.HELD_OUT


def doubt(row: Row) -> str | None:
    """Why a row is not taken as printed; None if there is no doubt."""
    if row.grade == "C":
        return row.text("flags") or "graded as coarse or doubtful"
    listed = _doubtful().get(row.id)
    return listed or (STALLED if _stalled(row) else None)


STALLED = "a stall of 0.5 to 1.1 s in every micro batch, which no twin of the layout shows"


def _stalled(row: Row) -> bool:
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


_BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_SCALES = ((1, 8), (9, 64), (65, 512), (513, 4096), (4097, 10**7))


@dataclass(frozen=True, slots=True)
class RunSet:
    """Some runs under one name."""

    name: str
    kind: str
    """source, accelerator, scale, parallelism, or named."""
    outcomes: list[Outcome]
    held_out: bool
    """True if no fit may read any of them."""


def run_sets(outcomes: Sequence[Outcome]) -> list[RunSet]:
    """Every set that has runs."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        for key in _memberships(outcome):
            groups.setdefault(key, []).append(outcome)
    return [
        RunSet(name, kind, members, all(_held(one.case.row) for one in members))
        for (kind, name), members in groups.items()
    ]


def _memberships(outcome: Outcome) -> Iterator[tuple[str, str]]:
    row = outcome.case.row
    part = part_of(row)
    halves = {Part.CALIBRATION: " (calibration)", Part.COMPOSED: " (composed)", Part.HELD_OUT: ""}
    yield "source", row.source + halves[part]
    if part is Part.CALIBRATION:
        yield "all", "calibration"
    else:
        yield "accelerator", outcome.case.cluster.device.name
        yield "scale", _scale(row.whole("gpus"))
        yield "parallelism", _parallelism(outcome)
        yield from (("named", name) for name in _named(row, part))


def _held(row: Row) -> bool:
    return part_of(row) is not Part.CALIBRATION


def _scale(gpus: int) -> str:
    low, high = next((low, high) for low, high in _SCALES if low <= gpus <= high)
    return f"{low} to {high} GPUs" if high < 10**7 else f"more than {low - 1} GPUs"


def _parallelism(outcome: Outcome) -> str:
    layout = outcome.layout
    axes = [name for name in ("tp", "pp", "cp", "ep") if getattr(layout, name) > 1]
    return " + ".join([*axes, layout.shard.text])


def _named(row: Row, part: Part) -> Iterator[str]:
    for name, conditions in _conditions().items():
        if _meets(row, part, conditions):
            yield name


def _meets(row: Row, part: Part, conditions: dict[str, Any]) -> bool:
    for column, wanted in conditions.items():
        if column == "not":
            if _meets(row, part, wanted):
                return False
        elif column == "part":
            if part != wanted:
                return False
        elif not _matches(row, column, wanted):
            return False
    return True


def _matches(row: Row, column: str, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return row.text(column) in wanted
    sign = str(wanted).split(" ")[0]
    if sign in _BOUNDS:
        return _BOUNDS[sign](row.number(column) or 0.0, float(str(wanted).split(" ")[1]))
    return row.text(column) == str(wanted)


@lru_cache(maxsize=1)
def _conditions() -> dict[str, Any]:
    value: dict[str, Any] = read_document(BUILT_IN / "validation" / "sets.yaml").value
    return value
