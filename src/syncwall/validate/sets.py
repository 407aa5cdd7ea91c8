"""The sets of runs that accuracy is reported for.

Holds `RunSet` and `run_sets`: one for every source (its parts apart), accelerator, scale and kind
of parallelism, and those of `catalogue/validation/sets.yaml`.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from syncwall.catalogue import BUILT_IN
from syncwall.documents import read_document
from syncwall.validate.evaluation import ValidatedRun
from syncwall.validate.split import RowUse, part_of
from syncwall.validate.table import RunRow

_BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_SCALES = ((1, 8), (9, 64), (65, 512), (513, 4096), (4097, 10**7))


@dataclass(frozen=True, slots=True)
class RunSet:
    """Some runs under one name."""

    name: str
    kind: str
    """source, named, accelerator, scale, parallelism or all."""
    outcomes: list[ValidatedRun]
    held_out: bool
    """True if no fit may read any of them."""


def run_sets(outcomes: Sequence[ValidatedRun]) -> list[RunSet]:
    """Every set that has runs."""
    groups: dict[tuple[str, str], list[ValidatedRun]] = {}
    for outcome in outcomes:
        for key in _memberships(outcome):
            groups.setdefault(key, []).append(outcome)
    return [
        RunSet(name, kind, members, all(_held(one.case.row) for one in members))
        for (kind, name), members in groups.items()
    ]


def _memberships(outcome: ValidatedRun) -> Iterator[tuple[str, str]]:
    row = outcome.case.row
    part = part_of(row)
    yield "source", row.source + ("" if part.is_held_out else f" ({part})")
    if part is RowUse.CALIBRATION:
        yield "all", "calibration"
    else:
        yield "accelerator", outcome.case.cluster.device.name
        yield "scale", _scale(row.whole("gpus"))
        yield "parallelism", _parallelism(outcome)
        yield from (("named", name) for name in _named(row, part))


def _held(row: RunRow) -> bool:
    return part_of(row) is not RowUse.CALIBRATION


def _scale(gpus: int) -> str:
    low, high = next((low, high) for low, high in _SCALES if low <= gpus <= high)
    return f"{low} to {high} GPUs" if high < 10**7 else f"more than {low - 1} GPUs"


def _parallelism(outcome: ValidatedRun) -> str:
    layout = outcome.layout
    axes = [name for name in ("tp", "pp", "cp", "ep") if getattr(layout, name) > 1]
    return " + ".join([*axes, layout.shard.text])


def _named(row: RunRow, part: RowUse) -> Iterator[str]:
    for name, conditions in _conditions().items():
        if _meets(row, part, conditions):
            yield name


def _meets(row: RunRow, part: RowUse, conditions: dict[str, Any]) -> bool:
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


def _matches(row: RunRow, column: str, wanted: Any) -> bool:
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
