"""Files that fits write, compared as numbers."""

import re
from typing import Any

import pytest
import yaml

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def nearly(expected: Any, rel: float = 0.02) -> Any:
    """What is equal but for the last digits that an optimiser gives: numbers, alone or in texts."""
    if isinstance(expected, dict):
        return {key: nearly(value, rel) if key != "fitted" else Anything() for key, value in expected.items()}
    if isinstance(expected, list):
        return [nearly(value, rel) for value in expected]
    if isinstance(expected, bool) or expected is None:
        return expected
    if isinstance(expected, (int, float)):
        return pytest.approx(expected, rel=rel, abs=2e-3)
    return Text(str(expected), rel)


def same_numbers(found: str, expected: str, rel: float = 0.02) -> bool:
    """True if two YAML texts have the same keys, words and nearly the same numbers."""
    return bool(yaml.safe_load(found) == nearly(yaml.safe_load(expected), rel))


class Anything:
    """The text beside a fit, which repeats its numbers."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


class Text:
    """A text, the numbers in which may differ a little."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str, rel: float) -> None:
        self.words = _NUMBER.sub("#", text)
        self.numbers = [float(number) for number in _NUMBER.findall(text)]
        self.rel = rel

    def __eq__(self, other: object) -> bool:
        found = Text(str(other), self.rel)
        near = pytest.approx(self.numbers, rel=self.rel, abs=2e-3)
        return self.words == found.words and found.numbers == near
