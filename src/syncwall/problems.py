"""What is wrong with an input, where it is, and what to write instead.

Holds `Problem` (one fault at one place), `InputError` (all faults of one input), `did_you_mean`,
`known_are` and `refuse_unknown`, and `visible`, with which text from a file is safe to print.
"""

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

CONTROLS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""What a terminal obeys instead of showing it: control characters but for tab and line feed, line
separators, and what turns the direction of letters."""

_MOST_CHARS: Final = 4000
"""Of one message; longer ones lose their middle."""


def visible(text: str) -> str:
    r"""`text` with control characters written out (`\x1b`), so that none reaches a terminal."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault; `line` and `column` count from 1, both 0 where there is no text to point at."""

    file: str
    line: int
    column: int
    message: str

    def __post_init__(self) -> None:
        if len(self.message) > _MOST_CHARS:  # quotes a word without an end
            half = _MOST_CHARS // 2
            short = f"{self.message[:half]} ... {self.message[-half:]}"
            object.__setattr__(self, "message", short)

    def __str__(self) -> str:
        if not self.line:
            return visible(f"{self.file}: {self.message}" if self.file else self.message)
        return visible(f"{self.file}:{self.line}:{self.column}  {self.message}")


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


def refuse_unknown(word: str, known: Collection[str], said: str) -> None:
    """InputError if `word` is not `known`: what is `said` of it, and what to write instead."""
    if word not in known:
        raise InputError.of(f"{said}{known_are(word, known)}")


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
