"""What is wrong with an input, where it is, and what to write instead.

Holds `Problem` (one fault at one place), `InputError` (all faults of one input), `did_you_mean` and
`known_are`.
"""

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault; `line` and `column` count from 1, both 0 where there is no text to point at."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        if not self.line:
            return f"{self.file}: {self.message}" if self.file else self.message
        return f"{self.file}:{self.line}:{self.column}  {self.message}"


class InputError(ValueError):
    """A user's input cannot be used; carries every problem found, in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__(str(self))

    @classmethod
    def of(cls, message: str, *, file: str = "", line: int = 0, column: int = 0) -> "InputError":
        """An error with a single problem."""
        return cls([Problem(file, line, column, message)])

    def __str__(self) -> str:
        count = len(self.problems)
        lines = [str(problem) for problem in self.problems]
        if count > 1:
            lines.append(f"{count} problems, nothing was computed")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type["InputError"], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


def known_are(word: str, known: Collection[str]) -> str:
    """What to write instead of `word`: the nearest of `known`, or all of them."""
    return did_you_mean(word, known) or f"; known: {', '.join(known)}"


def did_you_mean(word: str, known: Iterable[str], *, count: int = 1) -> str:
    """`; did you mean "x"?` for the nearest of `known`, or nothing if none is near."""
    names = {name.lower(): name for name in known}
    letters = sorted(word.lower())
    swapped = [name for name in names if sorted(name) == letters]
    close = difflib.get_close_matches(word.lower(), names, n=count, cutoff=0.55)
    near = list(dict.fromkeys([*swapped, *close]))[:count]
    if not near:
        return ""
    return "; did you mean " + " or ".join(f'"{names[name]}"' for name in near) + "?"
