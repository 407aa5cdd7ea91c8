"""What accuracy is aimed at (docs/accuracy_goals.yaml), beside what was found."""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from bench import ROOT
from syncwall.documents import read_document

FILE = ROOT / "docs" / "accuracy_goals.yaml"
Figures = dict[str, Any]
_COUNTS = {"error": "rows", "mape_graded": "n_graded", "mape_listed": "n_listed"} | dict.fromkeys(
    ("mape_one_known_run", "mape_three_known_runs", "mape_five_known_runs"), "sources_known"
)
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
    """Goals, and the band of the intervals as fractions."""

    goals: list[Goal]
    coverage80: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Found:
    """The figure of a goal: a fraction, or a count of pairs; and the entry that it stands in."""

    n: int
    value: float
    entry: Figures


@cache
def read_goals() -> Goals:
    value = read_document(FILE).value
    names = {field.name for field in fields(Goal)}
    for one in value["goals"]:
        assert set(one) <= names, f"{FILE.name}: {one['title']}: {set(one) - names}"
    low, high = value["coverage80"]
    return Goals([Goal(**one) for one in value["goals"]], (low / 100, high / 100))


def found_for(goal: Goal, figures: Figures) -> Found | None:
    """What `figures` say about `goal`; None if they lack it."""
    if goal.of in ("summary", "pairs"):
        entry: Figures | None = figures[goal.of]
    else:
        entries = figures["sets"] if goal.of == "set" else figures.get(goal.of, [])
        named = (one for one in entries if goal.of != "set" or one["kind"] == "named")
        entry = next((one for one in named if one["name"] == goal.name), None)
    if entry is None or entry.get(goal.figure) is None:
        return None
    return Found(entry[_COUNTS.get(goal.figure, "n")], entry[goal.figure], entry)


def reached(goal: Goal, found: Found) -> bool:
    """Whether the figure, as it is printed, is not above the goal."""
    scale = 1 if goal.of == "pairs" else 100
    return round(found.value * scale, 1) <= goal.at_most


def missed(figures: Figures) -> list[Goal]:
    pairs = [(goal, found_for(goal, figures)) for goal in read_goals().goals]
    return [goal for goal, found in pairs if found is not None and not reached(goal, found)]
