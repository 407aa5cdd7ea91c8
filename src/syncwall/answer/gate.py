"""Two recordings of a program beside each other, and whether the later one is above a limit.

Holds `gate`, `Gate`, `Growth` and `limits_of`. Nothing is measured, so that nothing is noise: the
same two files give the same answer to the last digit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import inf
from typing import Final

from syncwall.answer.prediction import Prediction
from syncwall.answer.program_difference import (
    CallDifference,
    HeldDifference,
    call_differences,
    held_differences,
    unknown_difference,
)
from syncwall.cause import LEAST_SHARE
from syncwall.problems import InputError
from syncwall.public import Answer, Endless, Late, published
from syncwall.work.program import Program
from syncwall.work.program_variants import resized

SIZES: Final = (8, 1024)
"""GPUs on which both are priced, beside those that they were recorded for."""
_LIMIT: Final = re.compile(r"(step|memory|exposed)(?:\s+|=)(\d+(?:\.\d+)?)\s?%")
_LIMITS: Final = re.compile(rf"\s*{_LIMIT.pattern}(\s*,\s*{_LIMIT.pattern})*\s*")


class Outcome(StrEnum):
    """Of a comparison."""

    WITHIN = "within"
    ABOVE = "above"
    NOT_JUDGED = "not judged"


def limits_of(text: str) -> dict[str, float]:
    """Limits as people write them: "step 2%, memory 1%, exposed 5%", also with = in between."""
    if not _LIMITS.fullmatch(text):
        said = f'"{text}" are no limits: write for example "step 2%, memory 1%, exposed 5%"'
        raise InputError.of(said, key="fail_above")
    return {name: float(share) / 100.0 for name, share in _LIMIT.findall(text)}


@published("gpus quantity before after share unknown limit outcome")
@dataclass(frozen=True, slots=True)
class Growth:
    """One quantity of both programs on so many GPUs."""

    gpus: int
    quantity: str
    """step and exposed: its seconds, and those that it waits for communication, for as many samples
    as a step of the earlier program has; memory: bytes on the fullest GPU."""
    before: float
    after: float
    share: Endless
    """By which it grew, of what it was; waits below 0.05% of a step count as none."""
    unknown: Endless
    """Share by which it may have grown otherwise, because of work that is not known."""
    limit: float | None
    """Share by which it may grow; null if nobody stated one."""

    @property
    def outcome(self) -> Outcome:
        """Whether that is above the limit."""
        if self.limit is None or self.share + self.unknown <= self.limit:
            return Outcome.WITHIN
        return Outcome.ABOVE if self.share - self.unknown > self.limit else Outcome.NOT_JUDGED


@published(
    "outcome reason before=before._recorded after=after._recorded times growths not_priced calls memory"
)
@dataclass(frozen=True)
class Gate(Answer):
    """What a change of a training program does to its step, its memory and its waits."""

    verb = "compare gate"
    reason = Late("show.gate:reason")
    before: Prediction
    after: Prediction
    growths: tuple[Growth, ...] = ()
    """On every number of GPUs that both could be priced on."""
    not_priced: tuple[str, ...] = ()
    """Numbers of GPUs that were not, and why."""
    obstacle: str = ""
    """Why the two say nothing about each other; empty if they do."""

    @property
    def times(self) -> float:
        """Samples of the earlier program over those of the later one, whose times are multiplied by it."""
        before, after = self.before.program.samples, self.after.program.samples
        return before / after if before and after else 1.0

    @cached_property
    def calls(self) -> list[CallDifference]:
        """What is otherwise, most seconds first."""
        return [] if self.obstacle else call_differences(self.before, self.after, self.times)

    @cached_property
    def memory(self) -> list[HeldDifference]:
        """Memory that is otherwise, most bytes first."""
        return held_differences(self.before, self.after)

    def of(self, outcome: Outcome) -> list[Growth]:
        """Quantities with this outcome."""
        return [one for one in self.growths if one.outcome is outcome]

    @property
    def outcome(self) -> Outcome:
        """Whether anything is above its limit, or does not fit any more."""
        if not self.obstacle and (self.of(Outcome.ABOVE) or (self.before.fits and not self.after.fits)):
            return Outcome.ABOVE
        return Outcome.NOT_JUDGED if self.obstacle or self.of(Outcome.NOT_JUDGED) else Outcome.WITHIN

    @property
    def exit_code(self) -> int:
        """0 within all limits, 1 above one, 3 not judged."""
        return {Outcome.WITHIN: 0, Outcome.ABOVE: 1, Outcome.NOT_JUDGED: 3}[self.outcome]


def gate(before: Prediction, after: Prediction, *, limits: Mapping[str, float]) -> Gate:
    """A program before and after a change, on one cluster."""
    found = Gate(before, after, obstacle=_obstacle(before.program, after.program))
    unknown = unknown_difference(before.program, after.program)
    growths, not_priced = [], []
    for gpus in () if found.obstacle else sorted({before.program.world_size, *SIZES}):
        try:
            old, new = (one.again(resized(one.program, gpus)) for one in (before, after))
        except ValueError as error:
            not_priced.append(f"{gpus:,} GPUs: {error}")
            continue
        pairs = {
            "step": (old.step_s, new.step_s * found.times),
            "memory": (old.memory_bytes, new.memory_bytes),
            "exposed": (old.exposed_s, new.exposed_s * found.times),
        }
        for name, (was, now) in pairs.items():
            whole = was if name == "memory" else old.step_s
            more = now - was if name != "exposed" or abs(now - was) >= LEAST_SHARE * whole else 0.0
            share, doubt = (part / was if was else inf if part else 0.0 for part in (more, unknown * whole))
            growths.append(Growth(gpus, name, was, now, share, doubt, limits.get(name)))
    return replace(found, growths=tuple(growths), not_priced=tuple(not_priced))


def _obstacle(before: Program, after: Program) -> str:
    """Why two programs say nothing about each other; empty if they do."""
    if before.world_size != after.world_size:
        return (
            f"they were recorded for {before.world_size:,} and {after.world_size:,} ranks: take one --world"
        )
    known = [bool(one.samples) for one in (before, after)]
    if known[0] != known[1] or (not any(known) and before.model_flops != after.model_flops):
        return "it is not known how many samples a step has, and so not whether they do the same work"
    return ""
