"""The answers: functions from what a page asks to plain data, called in processes of their own.

Holds `answer_named`. The server knows them by name ("wall.moves") and never loads one itself.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def answer_named(name: str) -> Callable[..., Any]:
    """The function behind "wall.moves"."""
    module, _, function = name.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), function)
    return found
