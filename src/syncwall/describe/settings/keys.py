"""Asking a parsed settings file for values, with complaints that point at the line.

Holds `Keys`.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from syncwall.describe.settings.stated import Left, Settings
from syncwall.documents import Document
from syncwall.problems import InputError, Problem, did_you_mean

Value = TypeVar("Value")
_LARGEST = 2**40


class Keys:
    """A file that is asked for the values at paths of keys, and what was made of them so far.

    A value that is absent, null or "auto" is open: None. One of the wrong kind is written down as
    a problem and read as open, so that one reading finds all of them.
    """

    def __init__(self, document: Document) -> None:
        self.layout: dict[str, Any] = {}
        self.run: dict[str, Any] = {}
        self.software: dict[str, Any] = {}
        self._document = document
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._places: dict[str, tuple[int, int]] = {}
        if not isinstance(document.value, dict):
            raise InputError([document.problem((), "settings are written as keys with values")])

    def value(self, *path: str) -> Any:
        """Whatever stands at `path`."""
        found = self._document.value
        for depth, key in enumerate(path):
            if not isinstance(found, dict):
                self.complain(f'"{path[depth - 1]}" must hold keys with values', *path[:depth])
                return None
            found = found.get(key)
            if found is None:
                return None
        return None if found == "auto" else found

    def whole(self, *path: str, least: int = 1) -> int | None:
        """The whole number at `path`, of at least `least`."""
        found = self.value(*path)
        if isinstance(found, str) and found.lstrip("-").isascii() and found.lstrip("-").isdigit():
            found = int(found) if len(found) < 15 else _LARGEST
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int):
            self.complain(f'"{path[-1]}" must be a whole number, not {shown(found)}', *path)
            return None
        if not least <= found < _LARGEST:
            self.complain(f'"{path[-1]}" is {found}: at least {least} is needed', *path)
            return None
        return found

    def flag(self, *path: str) -> bool | None:
        """The truth value at `path`."""
        found = self.value(*path)
        if isinstance(found, str) and found.lower() in ("true", "false"):
            found = found.lower() == "true"
        if found is None or isinstance(found, bool):
            return found
        self.complain(f'"{path[-1]}" must be true or false, not {shown(found)}', *path)
        return None

    def word(self, options: Mapping[str, Value], *path: str) -> Value | None:
        """What the word at `path` stands for; its case does not matter."""
        found = self.value(*path)
        if found is None:
            return None
        known = {option.lower(): meant for option, meant in options.items()}
        text = str(found).lower()
        if text in known:
            return known[text]
        hint = did_you_mean(text, options) or f"; known are {', '.join(options)}"
        self.complain(f'"{path[-1]}" cannot be {shown(found)}{hint}', *path)
        return None

    def take(self, field: str, value: Any, *path: str) -> None:
        """State `field` of the layout, unless `value` is open; `path` is where it was found."""
        if value is not None:
            self.layout[field] = value
            self._places[f"layout.{field}"] = self._document.place(path)

    def take_run(self, field: str, value: Any, *path: str) -> None:
        """The same for a field of the run."""
        if value is not None:
            self.run[field] = value
            self._places[field] = self._document.place(path)

    def complain(self, message: str, *path: str) -> None:
        """Write down what is wrong at `path`."""
        self._problems.append(self._document.problem(path, message))

    def note(self, message: str, *path: str) -> None:
        """Write down what was read only roughly, or not at all, at `path`."""
        self._notes.append(self._document.problem(path, message))

    def settings(self, name: str, framework: str, left: Left) -> Settings:
        """Everything that was read; InputError if anything was wrong."""
        if self._problems:
            raise InputError(self._problems)
        software = {"framework": framework} | self.software
        file = self._document.file
        notes = tuple(sorted(self._notes))
        return Settings(name, file, self.layout, self.run, software, left, self._places, notes)


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value)
    return f'"{text[:40]}"' if len(text) <= 40 else f'"{text[:40]}..."'
