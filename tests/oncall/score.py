"""What `explain` says of on-call cases, beside their true answers.

Holds `Outcome`, `outcome_of`, `Score`, `scores` and `oncall`, which prints them
(`python -m bench oncall`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import syncwall as sw
from syncwall.explain.verdict import VerdictState
from syncwall.problems import InputError
from tests.oncall.cases import REFUSED, Case, cases, given

ALARMS = (VerdictState.WRONG, VerdictState.SUSPECT)
MOST_WIDE = 110


@dataclass(frozen=True)
class Outcome:
    """What was said of a case."""

    case: Case
    state: str
    headline: str
    misses: tuple[str, ...]
    """What of the true answer it does not say; empty if it is right."""

    @property
    def is_right(self) -> bool:
        return not self.misses

    @property
    def is_confidently_wrong(self) -> bool:
        """Good news that nobody has, or something blamed that is not to blame."""
        return not self.is_right and self.state in (VerdictState.HEALTHY, VerdictState.WRONG)

    @property
    def is_false_alarm(self) -> bool:
        return self.case.is_healthy and self.state in ALARMS


def outcome_of(case: Case) -> Outcome:
    """`explain` asked; every miss is told."""
    with TemporaryDirectory() as folder:
        files = given(case, Path(folder))
        try:
            found = sw.explain(
                files["input"], against=files.get("against", ()), cluster=case.cluster, workers=1
            )
        except InputError as error:
            return Outcome(case, REFUSED, str(error), () if REFUSED in case.states else ("state",))
        headline, state = str(found.to_dict()["verdict"]), str(found.state)
        screen = " ".join(str(found).split()) if case.says else ""
    named = f"{found.conclusion.cause}: {headline}"
    misses = [] if state in case.states else ["state"]
    misses += ["cause"] if case.cause and not re.search(case.cause, named, re.IGNORECASE) else []
    misses += ["part"] if case.part and not re.search(case.part, headline, re.IGNORECASE) else []
    misses += [f'"{words}"' for words in case.says if words not in screen]
    return Outcome(case, state, headline, tuple(misses))


@dataclass(frozen=True)
class Score:
    """Of some cases."""

    what: str
    outcomes: tuple[Outcome, ...]

    @property
    def healthy(self) -> int:
        return sum(one.case.is_healthy for one in self.outcomes)

    @property
    def right(self) -> float:
        return sum(one.is_right for one in self.outcomes) / max(len(self.outcomes), 1)

    @property
    def confidently_wrong(self) -> float:
        return sum(one.is_confidently_wrong for one in self.outcomes) / max(len(self.outcomes), 1)

    @property
    def false_alarms(self) -> float:
        return sum(one.is_false_alarm for one in self.outcomes) / max(self.healthy, 1)

    def __str__(self) -> str:
        return (
            f"{self.what:28} {len(self.outcomes):5} {self.right:8.1%} {self.confidently_wrong:18.1%}"
            f" {self.healthy:9} {self.false_alarms:13.1%}"
        )


HEAD = f"{'':28} {'cases':>5} {'right':>8} {'confidently wrong':>18} {'healthy':>9} {'false alarms':>13}"


def scores(outcomes: Sequence[Outcome]) -> Iterable[Score]:
    """Of all, by origin, and of what is kept apart."""

    def some(what: str, *, public: bool | None = None, held_out: bool | None = None) -> Score:
        chosen = (
            one
            for one in outcomes
            if (public is None or one.case.is_public is public)
            and (held_out is None or one.case.held_out is held_out)
        )
        return Score(what, tuple(chosen))

    yield some("all")
    yield some("from public files", public=True)
    yield some("drawn or made", public=False)
    yield some("kept apart", held_out=True)
    yield some("kept apart, public", held_out=True, public=True)
    yield some("kept apart, drawn", held_out=True, public=False)
    yield some("known to the rules", held_out=False)


def oncall(*, misses: bool = True, only: str = "") -> None:
    """Score of `explain` over the on-call cases: right, confidently wrong, false alarms.

    Args:
        misses: Print every case that is not right.
        only: Cases whose name holds this.
    """
    chosen = [case for case in cases() if only in case.name]
    here = [case for case in chosen if case.is_here]
    outcomes = [outcome_of(case) for case in here]
    for one in outcomes if misses else ():
        if not one.is_right:
            apart = ", kept apart" * one.case.held_out
            print(f"{one.case.name} ({one.case.origin}{apart}): misses {', '.join(one.misses)}")
            print(f"    {' or '.join(one.case.states)} expected; {one.state}: {one.headline[:MOST_WIDE]}")
    print(HEAD)
    for score in scores(outcomes):
        print(score)
    if len(here) < len(chosen):
        print(f"{len(chosen) - len(here)} cases need files that are not here")
