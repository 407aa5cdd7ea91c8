"""Whether the cause of a slow published run is found when it is hidden.

A pair is a row of a table whose cause is stated there: the run is described without it, the speed
is that of the row, and the cause should be among the first three suspects of `answer.gap`. Most
rows have a twin without the cause in the same table; those of 500 W cards, and most with a CPU
optimizer, have none. SimuMax's runs without overlap are left out: nobody measured them with it, and
it is predicted to be a few percent of a gap of 25.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from bench import Dirs
from bench.fit.files import rows_of
from syncwall.answer.gap import Gap, gap
from syncwall.answer.prediction import predict
from syncwall.describe import Run
from syncwall.describe.run import MeasuredSpeed
from syncwall.validate.evaluation import fastest
from syncwall.validate.mapping import case_of
from syncwall.validate.table import RunRow
from syncwall.validate.table_models import CannotRepresent

Rows = dict[str, RunRow]
Without = Callable[[RunRow, Rows], dict[str, str]]
FIRST: Final = 3


@dataclass(frozen=True, slots=True)
class Pair:
    cause: str
    rows: Callable[[RunRow], bool]
    without: Without
    """Cells of the same row without it."""
    device: dict[str, None] = field(default_factory=dict)
    """Fields of the device without it."""


def _options(pattern: str, words: str) -> Without:
    return lambda row, rows: {"options": re.sub(pattern, words, row.text("options"))}


def _has(column: str, pattern: str) -> Callable[[RunRow], bool]:
    return lambda row: bool(re.search(pattern, row.text(column)))


def _as_twin(pattern: str, other: str, *columns: str) -> Without:
    def without(row: RunRow, rows: Rows) -> dict[str, str]:
        twin = rows[re.sub(pattern, other, row.id)]
        return {name: twin.text(name) for name in columns}

    return without


def _crosses_ethernet(row: RunRow) -> bool:
    return "-eth-" in row.id and row.whole("gpus") > row.whole("gpus_per_node")


_LINK = ("inter_link", "inter_gbps_per_gpu", "options")
_EAGER, _PIPELINE = r"^eager$|^no compile", ("options", "vpp")
PAIRS: Final = (
    Pair("kernels", _has("options", _EAGER), _options(r"^(eager|no compile)", "torch.compile")),
    Pair("power", _has("gpu", "500W"), lambda row, rows: {}, {"power_limit_w": None}),
    Pair("tcp", _crosses_ethernet, _as_twin("-eth-", "-ib-", *_LINK)),
    Pair("overlap-tp", _has("options", "vanilla TP"), _as_twin("vanilla", "async", "options")),
    Pair("scaling", _has("options", "rowwise"), _options("rowwise", "tensorwise")),
    Pair("schedule", _has("id", "titan-202412-t5-0"), _as_twin("0$", "1", *_PIPELINE)),
    Pair("schedule", _has("id", "zerobubble-1F1B-[^I]"), _as_twin("1F1B", "ZB-2p", *_PIPELINE)),
    Pair("offload", _has("options", "CPU AdamW"), _options("CPU AdamW offload;?", "")),
    Pair("recompute", _has("id", "korthikanti22.*full"), _as_twin("full", "selective", "recompute")),
)


def hidden(row: RunRow, pair: Pair, rows: Rows) -> Gap:
    case = case_of(replace(row, cells={**row.cells, **pair.without(row, rows)}))
    node = case.cluster.node
    device = node.device.model_copy(update=pair.device)
    cluster = case.cluster.model_copy(update={"node": node.model_copy(update={"device": device})})
    layout = fastest([replace(case, cluster=cluster)])[0].layout
    known = {"model": case.model, "software": case.software, "seq": case.seq}
    run = Run(cluster=cluster, layout=layout, **known)
    return gap(predict(run), MeasuredSpeed(step_s=case_of(row).measured_s))


def found(rows: list[RunRow]) -> Iterator[tuple[str, RunRow, Gap]]:
    by_id = {row.id: row for row in rows}
    for pair in PAIRS:
        for row in filter(pair.rows, rows):
            try:
                yield pair.cause, row, hidden(row, pair, by_id)
            except CannotRepresent as error:
                print(f"  left out  {row.id}: {error}")


def gaps(directories: Dirs = (), every: bool = False) -> None:
    """The share of hidden causes of slow published runs among the first three suspects, by cause.

    Where the measured time lies within the interval there is nothing to explain, and the answer
    says so: such pairs count only under "every pair".

    Args:
        directories: Tables of published runs; without any those that come with syncwall.
        every: Print every pair.
    """
    places: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for cause, row, one in found(rows_of(directories)):
        keys = [each.key for each in one.suspects]
        place = keys.index(cause) + 1 if cause in keys else 99
        for name in ("every pair", *(("all", cause) if not one.is_usual else ())):
            places[name].append((place, min(1.0, FIRST / max(len(keys), 1))))
        if every:
            usual = "usual" if one.is_usual else ""
            said = f"{place:2}  {cause:11} {row.id:30} {one.ratio:6.2f} {usual:6}"
            print(f"  {said} {', '.join(keys[:FIRST])}")
    for name, some in places.items():
        near, chance = sum(place <= FIRST for place, _ in some), sum(one for _, one in some)
        shares = f"({near / len(some):.0%}; by chance {chance / len(some):.0%})"
        print(f"{name:12} {len(some):4} pairs, {near:4} among the first {FIRST} {shares}")
