"""Reading single values of a Hugging Face configuration, with complaints that point at the line.

Holds `Config`.
"""

from typing import Any

from syncwall.documents import Document
from syncwall.problems import Problem


class Config:
    """A configuration that is asked for values by any of the names that people gave them.

    A value that is missing or of the wrong kind is written down in `problems` and read as 1 (or
    False), so that one reading finds all of them.
    """

    def __init__(self, document: Document, value: dict[str, Any], where: tuple[str, ...]) -> None:
        self.value = value
        self.problems: list[Problem] = []
        self._document = document
        self._where = where

    def assume(self, **defaults: int) -> None:
        """Take these values where the file is silent."""
        self.value = defaults | self.value

    def complain(self, key: str, message: str) -> None:
        """Write down what is wrong with `key`."""
        self.problems.append(self._document.problem((*self._where, key), message))

    def has(self, key: str) -> bool:
        """True if `key` is there and not null."""
        return self.value.get(key) is not None

    def whole(self, *names: str, default: int | None = None) -> int:
        """The whole number under the first of `names` that is there."""
        for name in names:
            found = self.value.get(name)
            if found is None:
                continue
            if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 2**40:
                self.complain(name, f'"{name}" must be a whole number, not {found!r}')
                return 1
            return found
        if default is None:
            self.complain(names[0], f'"{names[0]}" is missing')
            return 1
        return default

    def optional(self, *names: str) -> int | None:
        """The whole number under the first of `names` that is there, or None."""
        return self.whole(*names) if any(map(self.has, names)) else None

    def flag(self, name: str, *, default: bool) -> bool:
        """The truth value under `name`."""
        found = self.value.get(name)
        if found is None:
            return default
        if not isinstance(found, bool):
            self.complain(name, f'"{name}" must be true or false, not {found!r}')
            return default
        return found

    def kinds(self, name: str) -> list[str]:
        """The list of words under `name`; empty if there is none."""
        found = self.value.get(name)
        return [str(kind) for kind in found] if isinstance(found, list) else []
