"""What accuracy is aimed at, beside what was found.

Holds `Goals`, read from docs/accuracy_goals.yaml, `Goal`, `value_of` (the figure that a goal is
about) and `missed`.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from syncwall.documents import read_document

FILE = Path(__file__).resolve().parents[1] / "docs" / "accuracy_goals.yaml"
Figures = dict[str, Any]
_COUNTS = {
    "error": "rows", "mape_graded": "n_graded", "mape_listed": "n_listed",
    "mape_one_known_run": "sources_known", "mape_three_known_runs": "sources_known",
    "mape_five_known_runs": "sources_known",
}  # fmt: skip
"""Where the number of rows or sources behind a figure stands, if it is not `n`."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table of goals; errors in percent."""

    title: str
    of: str
    """Where the figure stands: set, summary, memory, measured, pairs or collectives."""
    figure: str
    at_most: float
    name: str = ""
    prototype: str = "–"
    others: str = ""
    """Published claims of other tools."""
    calculon: str = ""
    """Why Calculon may be nearer."""
    missing: str = ""
    """What the residuals say if the goal is missed."""
    readme: bool = False


@dataclass(frozen=True, slots=True)
class Goals:
    """Goals, and the band of the intervals."""

    goals: list[Goal]
    coverage80: tuple[float, float]
    """As fractions."""


@dataclass(frozen=True, slots=True)
class Found:
    """The figure of a goal."""

    n: int
    value: float
    """A fraction, or a count of pairs."""
    entry: Figures
    """The set or line that it stands in."""


def read_goals(path: Path = FILE) -> Goals:
    """Goals of the file `path`."""
    value = read_document(path).value
    names = {field.name for field in fields(Goal)}
    for one in value["goals"]:
        assert set(one) <= names, f"{path.name}: {one['title']}: {set(one) - names}"
    low, high = value["coverage80"]
    return Goals(
        goals=[Goal(**one) for one in value["goals"]],
        coverage80=(low / 100, high / 100),
    )


def found_for(goal: Goal, figures: Figures) -> Found | None:
    """What `figures` say about `goal`; None if they lack it."""
    if goal.of in ("summary", "pairs"):
        entry: Figures | None = figures[goal.of]
    else:
        entry = _entry(goal, figures)
    if entry is None or entry.get(goal.figure) is None:
        return None
    return Found(entry[_COUNTS.get(goal.figure, "n")], entry[goal.figure], entry)


def _entry(goal: Goal, figures: Figures) -> Figures | None:
    if goal.of == "set":
        entries = [one for one in figures["sets"] if one["kind"] == "named"]
    else:
        entries = figures.get(goal.of, [])
    return next((one for one in entries if one["name"] == goal.name), None)


def reached(goal: Goal, found: Found) -> bool:
    """Whether the figure, as it is printed, is not above the goal."""
    scale = 1 if goal.of == "pairs" else 100
    return round(found.value * scale, 1) <= goal.at_most


def missed(goals: Goals, figures: Figures) -> list[Goal]:
    """Goals that are not reached."""
    pairs = [(goal, found_for(goal, figures)) for goal in goals.goals]
    return [goal for goal, found in pairs if found is not None and not reached(goal, found)]
