"""Whether the cause of a slow published run is found when it is hidden.

Holds `PAIRS`, `hidden` and `main`. A pair is a row of a table whose cause is stated there: the run
is described without it, the speed is that of the row, and the cause should be among the first three
suspects of `answer.gap`. Most rows have a twin without the cause in the same table; those of 500 W
cards, and most with a CPU optimizer, have none. SimuMax's runs without overlap are left out: nobody
measured them with it, and it is predicted to be a few percent of a gap of 25.

    python bench/gaps.py ../shared/data/runs
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from syncwall.answer.gap import Gap, gap
from syncwall.answer.prediction import predict
from syncwall.describe import Run
from syncwall.describe.measured_speed import MeasuredSpeed
from syncwall.validate.evaluation import fastest
from syncwall.validate.hardware import CannotRepresent
from syncwall.validate.mapping import case_of
from syncwall.validate.table import RunRow, read_tables

Rows = dict[str, RunRow]
FIRST: Final = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """One cause that tables state."""

    cause: str
    """Key of `answer.suspects`."""
    rows: Callable[[RunRow], bool]
    """True for a row that has it."""
    without: Callable[[RunRow, Rows], dict[str, str]]
    """Cells of the same row without it."""
    device: dict[str, None] = field(default_factory=dict)
    """Fields of the device without it."""


def _options(*replaced: tuple[str, str]) -> Callable[[RunRow, Rows], dict[str, str]]:
    """The row with other words among its options."""

    def without(row: RunRow, rows: Rows) -> dict[str, str]:
        text = row.text("options")
        for pattern, words in replaced:
            text = re.sub(pattern, words, text)
        return {"options": text}

    return without


def _has(column: str, pattern: str, source: str = "") -> Callable[[RunRow], bool]:
    return lambda row: (
        bool(re.search(pattern, row.text(column))) and row.source.startswith(source or row.source)
    )


def _as_twin(pattern: str, other: str, *columns: str) -> Callable[[RunRow, Rows], dict[str, str]]:
    """Cells of the row whose name is that of this one with `other` for `pattern`."""

    def without(row: RunRow, rows: Rows) -> dict[str, str]:
        twin = rows[re.sub(pattern, other, row.id)]
        return {name: twin.text(name) for name in columns}

    return without


PAIRS: Final = (
    Pair("kernels", _has("options", r"^eager$|^no compile"),
         _options((r"^(eager|no compile)", "torch.compile"))),
    Pair("power", _has("gpu", "500W"), lambda row, rows: {}, {"power_limit_w": None}),
    Pair("tcp", lambda row: "-eth-" in row.id and row.whole("gpus") > row.whole("gpus_per_node"),
         _as_twin("-eth-", "-ib-", "inter_link", "inter_gbps_per_gpu", "options")),
    Pair("overlap-tp", _has("options", "vanilla TP"), _as_twin("vanilla", "async", "options")),
    Pair("scaling", _has("options", "rowwise"), _options(("rowwise", "tensorwise"))),
    Pair("schedule", _has("id", "titan-202412-t5-0"), _as_twin("0$", "1", "options", "vpp")),
    Pair("schedule", _has("id", "zerobubble-1F1B-[^I]"),
         _as_twin("1F1B", "ZB-2p", "options", "vpp")),
    Pair("offload", _has("options", "CPU AdamW"), _options(("CPU AdamW offload;?", ""))),
    Pair("recompute", _has("id", "korthikanti22.*full"),
         _as_twin("full", "selective", "recompute")),
)  # fmt: skip


def hidden(row: RunRow, pair: Pair, rows: Rows) -> Gap:
    """The gap of a row whose cause is hidden."""
    case = case_of(replace(row, cells={**row.cells, **pair.without(row, rows)}))
    node = case.cluster.node
    device = node.device.model_copy(update=pair.device)
    cluster = case.cluster.model_copy(update={"node": node.model_copy(update={"device": device})})
    chosen = fastest([replace(case, cluster=cluster)])[0]
    run = Run(model=case.model, cluster=cluster, layout=chosen.layout,
              software=case.software, seq=case.seq)  # fmt: skip
    return gap(predict(run), MeasuredSpeed(step_s=case_of(row).measured_s))


def found(rows: list[RunRow]) -> Iterator[tuple[str, RunRow, Gap]]:
    """Every pair that can be asked."""
    by_id = {row.id: row for row in rows}
    for pair in PAIRS:
        for row in filter(pair.rows, rows):
            try:
                yield pair.cause, row, hidden(row, pair, by_id)
            except CannotRepresent as error:
                print(f"  left out  {row.id}: {error}")


@dataclass
class Score:
    """Places at which a cause was found."""

    places: list[int]
    by_chance: float = 0.0

    def __str__(self) -> str:
        near = sum(place <= FIRST for place in self.places)
        return (f"{len(self.places):4} pairs, {near:4} among the first {FIRST} "
                f"({near / len(self.places):.0%}; by chance "
                f"{self.by_chance / len(self.places):.0%})")  # fmt: skip


def main() -> None:
    """Print the share of hidden causes among the first three, by cause and in all.

    Where the measured time lies within the interval there is nothing to explain, and the answer
    says so: such pairs count only under "every pair".
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--all", action="store_true", help="print every pair")
    asked = parser.parse_args()
    scores: dict[str, Score] = defaultdict(lambda: Score([]))
    for cause, row, one in found(read_tables(asked.tables)):
        keys = [each.key for each in one.suspects]
        place = keys.index(cause) + 1 if cause in keys else 99
        for name in ("every pair", *(("all", cause) if not one.is_usual else ())):
            scores[name].places.append(place)
            scores[name].by_chance += min(1.0, FIRST / max(len(keys), 1))
        if asked.all:
            usual = "usual" if one.is_usual else ""
            said = f"{place:2}  {cause:11} {row.id:30} {one.ratio:6.2f} {usual:6}"
            print(f"  {said} {', '.join(keys[:FIRST])}")
    for name, score in scores.items():
        print(f"{name:12} {score}")


if __name__ == "__main__":
    main()
