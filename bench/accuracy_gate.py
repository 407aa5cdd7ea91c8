"""Whether accuracy got worse: the gate of continuous integration.

Holds `Change`, `changes` (what differs from the accepted figures) and `faults` (what must not).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Figures = dict[str, Any]
WORSE = 0.005
"""Most that the mean error of a set may grow; half of what new software releases change."""
FEWEST = 3
"""Rows from which on the error of a set means something."""


@dataclass(frozen=True, slots=True)
class Change:
    """A set before and now; 0 rows and no error if it was not there, or is not."""

    kind: str
    name: str
    n_before: int
    n: int
    n_all_before: int
    n_all: int
    mape_before: float | None
    mape: float | None

    @property
    def points(self) -> float:
        """Percentage points by which the error grew; 0 if there is none to compare."""
        if self.mape is None or self.mape_before is None:
            return 0.0
        return 100 * (self.mape - self.mape_before)

    @property
    def counts(self) -> bool:
        """Whether the set has enough rows to be compared."""
        return min(self.n, self.n_before) >= FEWEST

    @property
    def worse(self) -> bool:
        """More than is tolerated."""
        return self.counts and self.points > 100 * WORSE + 1e-9

    @property
    def better(self) -> bool:
        """By as much as would not be tolerated the other way."""
        return self.counts and self.points < -100 * WORSE

    @property
    def lost(self) -> bool:
        """Rows that could be predicted, or were not in doubt, no longer."""
        return self.n < self.n_before or self.n_all < self.n_all_before

    @property
    def verdict(self) -> str:
        """One word, for the table."""
        if self.worse or self.lost:
            return "WORSE" if self.worse else "LOST ROWS"
        if self.better:
            return "better"
        return "new" if not self.n_all_before else ""


def changes(accepted: Figures, found: Figures) -> list[Change]:
    """Every set of either side. Collectives are compared only if they were measured again."""
    before, now = dict(_entries(accepted)), dict(_entries(found))
    if not found["collectives"]:
        before = {key: one for key, one in before.items() if key[0] != "collectives"}
    return [_change(key, before.get(key), now.get(key)) for key in dict.fromkeys([*before, *now])]


def _entries(figures: Figures) -> Iterator[tuple[tuple[str, str], Figures]]:
    for one in figures["sets"]:
        yield (one["kind"], one["name"]), one
    for line in figures["collectives"]:
        entry = {"n": line["rows"], "n_all": line["rows"], "mape": line["error"]}
        yield ("collectives", line["name"]), entry


def _change(key: tuple[str, str], before: Figures | None, now: Figures | None) -> Change:
    old, new = before or {}, now or {}
    return Change(
        *key, old.get("n", 0), new.get("n", 0), old.get("n_all", 0), new.get("n_all", 0),
        old.get("mape"), new.get("mape"),
    )  # fmt: skip


def faults(found: Sequence[Change], coverage: float | None, band: tuple[float, float]) -> list[str]:
    """Why the gate stays shut; nothing if it opens."""
    said = []
    for one in found:
        if one.worse:
            said.append(
                f"{one.name}: mean error {_percent(one.mape_before)} -> {_percent(one.mape)},"
                f" more than {100 * WORSE:g} points worse"
            )
        if one.lost:
            said.append(
                f"{one.name}: {one.n_before} runs ({one.n_all_before} with doubtful ones)"
                f" -> {one.n} ({one.n_all})"
            )
    if coverage is None or not band[0] <= coverage <= band[1]:
        shown = "nothing" if coverage is None else _percent(coverage)
        said.append(
            f"80% intervals cover {shown} of the held-out runs,"
            f" not {100 * band[0]:g} to {100 * band[1]:g}%"
        )
    return said


def table(found: Sequence[Change]) -> str:
    """The sets that changed, the worst first."""
    moved = [one for one in found if abs(one.points) >= 0.05 or one.lost or one.verdict]
    if not moved:
        return "no set changed"
    lines = [f"{'set':48} {'runs':>12} {'mean error':>18} {'points':>7}"]
    for one in sorted(moved, key=lambda one: (not one.lost, -one.points)):
        runs = f"{one.n_before} -> {one.n}" if one.n != one.n_before else f"{one.n}"
        errors = f"{_percent(one.mape_before)} -> {_percent(one.mape)}"
        lines.append(f"{one.name:48} {runs:>12} {errors:>18} {one.points:+7.1f}  {one.verdict}")
    return "\n".join(line.rstrip() for line in lines)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"
