"""What is wrong with an input, where it is, and what to write instead.

Holds `Problem` (one fault at one place), `InputError` (all faults of one input), `EmptyInput`,
`did_you_mean`, `known_are` and `refuse_unknown`; `option`, a key inside a message, which the
terminal spells as a flag and Python and pages as it is; and `visible`, with which text from a file is
safe to print.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal obeys instead of showing it: control characters but for tab and line feed, line
separators, and what turns the direction of letters."""

_MOST_CHARS: Final = 4000
"""Of one message; longer ones lose their middle."""


def visible(text: str) -> str:
    r"""`text` with control characters written out (`\x1b`), so that none reaches a terminal."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


_SAID: Final = 200
"""Characters of an exception: a store names every key that it did not find."""


def first_line(error: BaseException) -> str:
    """What an exception says first, or its kind."""
    return str(error).partition("\n")[0][:_SAID] or type(error).__name__


Spelling = Callable[[str], str]
"""How a key such as "layout.tp" is written: `--layout.tp` on a command line."""
_OPTION: Final = re.compile("\ue000([^\ue001]*)\ue001")


def option(key: str) -> str:
    """`key` ("layout.global_batch") inside a message, spelled by whoever shows the message."""
    return f"\ue000{key}\ue001"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault; `line` and `column` count from 1, both 0 where there is no text to point at."""

    file: str
    line: int
    column: int
    message: str
    key: str = ""
    """What was stated outside of a file: "layout.tp" of a flag, of a page or of Python."""

    def __post_init__(self) -> None:
        if len(self.message) > _MOST_CHARS:  # quotes a word without an end
            half = _MOST_CHARS // 2
            short = f"{self.message[:half]} ... {self.message[-half:]}"
            object.__setattr__(self, "message", short)

    def __str__(self) -> str:
        return self.spelled(str)

    def place(self) -> tuple[str, int, int, str, str]:
        """Where it stands, for the order of several; of equal ones by their words."""
        return self.file, self.line, self.column, self.key, self.message

    def sentence(self, spelling: Spelling = str) -> str:
        """What is wrong, without the place; keys as `spelling` writes them."""
        return _OPTION.sub(lambda found: spelling(found[1]), self.message)

    def spelled(self, spelling: Spelling) -> str:
        """The problem with its place, keys as `spelling` writes them."""
        message = self.sentence(spelling)
        if self.line:
            return visible(f"{self.file}:{self.line}:{self.column}  {message}")
        where = self.file or (spelling(self.key) if self.key else "")
        return visible(f"{where}: {message}" if where else message)


class InputError(ValueError):
    """A user's input cannot be used; carries every problem found, in the order of the text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=Problem.place))
        super().__init__(str(self))

    @classmethod
    def of(
        cls, message: str, *, file: str = "", line: int = 0, column: int = 0, key: str = ""
    ) -> "InputError":
        """An error with a single problem."""
        return cls([Problem(file, line, column, message, key)])

    def __str__(self) -> str:
        return self.spelled(str)

    def spelled(self, spelling: Spelling) -> str:
        """All problems, one a line, with keys as `spelling` writes them."""
        lines = [problem.spelled(spelling) for problem in self.problems]
        if len(lines) > 1:
            lines.append(f"{len(lines)} problems, nothing was computed")
        return "\n".join(lines)

    def under(self, prefix: str) -> "InputError":
        """The same problems, their keys inside `prefix`."""
        return InputError(replace(one, key=f"{prefix}.{one.key}") for one in self.problems)

    def __reduce__(self) -> tuple[type["InputError"], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class EmptyInput(InputError):  # noqa: N818 - what it is
    """A file of a known kind that holds none of what such files are for: headers without rows."""


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
