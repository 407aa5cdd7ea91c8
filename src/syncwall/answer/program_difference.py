"""What two recordings of a program do otherwise, by module and source line.

Holds `CallDifference`, `call_differences`, `held_differences` and `unknown_difference`. Calls that
are alike in both cancel out, whatever line they moved to.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from syncwall.answer.prediction import Prediction
from syncwall.cause import LEAST_SHARE, Cause
from syncwall.public import published
from syncwall.timeline.program_replay import cause_of
from syncwall.work.program import NOT_KNOWN, Call, Program, noted_shares, task_value

_NUMBER: Final = re.compile(r"(?<![^.])\d+(?![^.])")
"""A layer's number in the name of a module."""
_MOST_NAMES: Final = 3
DifferenceKind = Literal["torch.compile", "host waits", "precision", "communication", "kernels", "sizes"]
_Units = dict[tuple[Any, ...], list[Call]]
"""Calls by what is equal for those that are alike, their place first."""


@published()
@dataclass(frozen=True, slots=True)
class CallDifference:
    """Calls of one module and one line of the ledger that are not the same in both."""

    kind: DifferenceKind
    """sizes: the same kernels on more or less; kernels: other ones, or another number of them."""
    cause: Cause
    """The line of the ledger that they run in."""
    module: str
    """With `*` for the number of a layer; empty outside of all modules."""
    source: str
    """Line of the later program; of the earlier one if the calls are gone."""
    what: str
    """In words."""
    calls: int
    """More in a step."""
    seconds: float
    """More for the samples of a step of the earlier program, each call alone; of host waits those
    of the ledger, of a compiler those of the step."""


@published()
@dataclass(frozen=True, slots=True)
class HeldDifference:
    """Memory of one purpose and module that is not the same in both."""

    kind: str
    module: str
    bytes: float
    """More on the fullest rank."""


def call_differences(before: Prediction, after: Prediction, times: float = 1.0) -> list[CallDifference]:
    """Where the slowest ranks differ, most seconds first; those of `after` count `times` times."""
    found, alike = [], after
    if before.compiled != after.compiled:
        alike = after.again(replace(after.program, compiled=before.compiled))
        what, calls = f"{'' if after.compiled else 'no longer '}asked for", len(after.rank.calls)
        more = calls - len(alike.rank.calls), (after.step_s - alike.step_s) * times
        found = [CallDifference("torch.compile", Cause.ELEMENTWISE, "", "", what, *more)]
    old, new = _units(before), _units(alike)
    moved = _moved_lines(old, new)
    places: dict[Any, list[Any]] = defaultdict(list)
    for unit in dict.fromkeys((*old, *new)):
        if times != 1.0 or len(old[unit]) != len(new[unit]):
            places[unit[0]] += [(-1.0, unit, old[unit]), (times, unit, new[unit])]
    found += [_difference(place, rows, alike, moved) for place, rows in places.items()]
    grew_s = float(alike.ledger[Cause.HOST] * times - before.ledger[Cause.HOST])
    waits = [one for one in found if one.kind == "host waits" and one.calls * grew_s > 0]
    each_s = grew_s / max(sum(abs(one.calls) for one in waits), 1)
    found = [replace(one, seconds=abs(one.calls) * each_s) if one in waits else one for one in found]
    kept = (one for one in found if abs(one.seconds) >= LEAST_SHARE * before.step_s)
    return sorted(kept, key=lambda one: (-abs(one.seconds), one.cause.order, one.module, one.source))


def _units(one: Prediction) -> _Units:
    found: _Units = defaultdict(list)
    for call in one.rank:
        module = _NUMBER.sub("*", call.place.module)
        file = "" if module else call.place.source.rpartition(":")[0]
        if call.host_waits:
            found[(Cause.HOST, module, file), call.name, None, call.phase].append(call)
        if call.what is not None:
            place = cause_of(call), module, file
            found[place, call.name, task_value(call.what), call.phase].append(call)
    return found


def _moved_lines(before: _Units, after: _Units) -> Callable[[str], str]:
    """Where a line of the earlier program stands now, as calls that are alike in both tell."""
    known: dict[str, dict[int, int]] = defaultdict(dict)
    for unit, calls in before.items():
        if len(calls) == len(after.get(unit, ())):
            for one, other in zip(calls, after[unit], strict=True):
                (file, _, line), (now, _, to) = (c.place.source.rpartition(":") for c in (one, other))
                if file and file == now:
                    known[file][int(line)] = int(to)
    lines = {file: sorted(pairs.items()) for file, pairs in known.items()}

    def moved(source: str) -> str:
        file, _, line = source.rpartition(":")
        if file not in lines:
            return source
        old, new = lines[file][max(bisect_right(lines[file], (int(line), 1 << 62)) - 1, 0)]
        return f"{file}:{int(line) + new - old}"

    return moved


def _difference(
    place: tuple[Cause, str, str],
    rows: Sequence[tuple[float, tuple[Any, ...], list[Call]]],
    priced: Prediction,
    moved: Callable[[str], str],
) -> CallDifference:
    cause, names, dtypes, seconds = place[0], Counter[str](), Counter[str](), 0.0
    lines: dict[str, float] = defaultdict(float)
    origin: dict[str, str] = {}
    for times, unit, calls in rows:
        sign = 1 if times > 0 else -1
        what = None if cause is Cause.HOST or not calls else calls[0].what
        each_s = 0.0 if what is None else float(priced.prices.seconds(what))
        seconds += times * each_s * len(calls)
        names[unit[1]] += sign * len(calls)
        dtypes[str(getattr(what, "dtype", ""))] += sign * len(calls)
        for call in calls:
            now = call.place.source if sign > 0 else moved(call.place.source)
            lines[now] += sign * max(each_s, 1e-9)
            origin.setdefault(now, call.place.source)
    source = max(lines, key=lambda one: (lines[one], one))
    if lines[source] <= 0:
        source = origin[min(lines, key=lambda one: (lines[one], one))]
    kind, said = _what(cause, names, dtypes)
    return CallDifference(kind, cause, place[1], source, said, names.total(), seconds)


def _what(cause: Cause, names: Counter[str], dtypes: Counter[str]) -> tuple[DifferenceKind, str]:
    """What is otherwise, and in words."""
    more = sorted(((name, n) for name, n in names.items() if n), key=lambda pair: (-abs(pair[1]), pair[0]))
    said = ", ".join(f"{n:+d} {name}".replace("-", "−", 1) for name, n in more[:_MOST_NAMES])
    new, old = (" and ".join(sorted(d for d in dtypes if d and sign * dtypes[d] > 0)) for sign in (1, -1))
    if cause is Cause.HOST or cause.is_exposed:
        return "communication" if cause.is_exposed else "host waits", said or "other sizes"
    if old and new:
        return "precision", f"{new} instead of {old}"
    return ("kernels", said) if more else ("sizes", "other sizes")


def held_differences(before: Prediction, after: Prediction) -> list[HeldDifference]:
    """What the fullest ranks hold otherwise, most bytes first."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for one, sign in ((before, -1.0), (after, 1.0)):
        for held in max(one.program.ranks, key=lambda rank: rank.held_bytes).held:
            found[str(held.kind), _NUMBER.sub("*", held.module)] += sign * held.bytes
    least = LEAST_SHARE * before.memory_bytes
    rows = [HeldDifference(*key, more) for key, more in found.items() if abs(more) > least]
    return sorted(rows, key=lambda one: (-abs(one.bytes), one.kind, one.module))


def unknown_difference(before: Program, after: Program) -> float:
    """Share of a step that is not known and not alike in both: what is alike cancels out."""
    sides = []
    for program in (before, after):
        noted = [(one.note, one) for one in noted_shares(program) if one.note.kind in NOT_KNOWN]
        sides.append({(n.what, n.count, n.flops, n.bytes, n.place.module): one for n, one in noted})
    rest = [side[key] for side, other in (sides, sides[::-1]) for key in side.keys() - other.keys()]
    return min(sum(sorted(one.largest for one in rest)), 1.0)
