"""Every question by its verb: the only list of abilities.

Holds `VERBS`, `ON_PAGES` and `question_type`. Questions are loaded when they are asked.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from syncwall.ask.question import Question

VERBS: Final = {
    "predict": "predict:PredictQuestion",
    "compare": "compare:CompareQuestion",
    "plan layouts": "plan:LayoutsQuestion",
    "plan wall": "plan:WallQuestion",
    "plan network": "plan:NetworkQuestion",
    "plan fabric": "fabric:FabricQuestion",
    "plan placement": "fabric:PlacementQuestion",
    "explain": "files:ExplainQuestion",
    "validate": "files:ValidateQuestion",
}
"""Module and type in `syncwall.ask`."""

ON_PAGES: Final = (
    "predict",
    "compare",
    "plan layouts",
    "plan wall",
    "plan network",
    "plan fabric",
)
"""Verbs that pages ask by JSON alone; the others are about files."""


def question_type(verb: str) -> "type[Question]":
    """The question that `verb` asks."""
    module, _, name = VERBS[verb].partition(":")
    found: type[Question] = getattr(import_module(f"syncwall.ask.{module}"), name)
    return found
