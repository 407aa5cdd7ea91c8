"""The sentences about what changed since a good day."""

from collections.abc import Iterator
from math import isnan
from typing import Final

from syncwall.explain.benchmark_changes import BenchmarkChange
from syncwall.explain.changes import (
    ChangeCause,
    Changed,
    CollectiveChange,
    StepChange,
)
from syncwall.explain.setting_changes import SettingChange
from syncwall.explain.traces.rank_comparison import NEXT
from syncwall.show.numbers import byte_size, duration, percent, plural, signed

_KINDS: Final = {
    "compute": "computation",
    "data": "waiting for data",
    "gc": "garbage collection",
    "host": "launching on the host",
    "sync": "waiting of the host for the device",
    "other": "unexplained time",
    "transfer": "moving data between ranks",
}
_NEXT: Final = {
    "compute": "compare clocks (nvidia-smi -q -d CLOCK,PERFORMANCE), versions and kernels; "
    "syncwall measure matmul shows whether it is the device",
    "data": NEXT["slow data loader"],
    "gc": NEXT["garbage collection"],
    "host": NEXT["host-bound"] + "; look for other processes on the host",
    "sync": "take .item(), .cpu() and synchronize() out of the loop, or call them rarely",
    "other": NEXT["unexplained"],
    "transfer": NEXT["slow link"],
}
_OF_COLLECTIVES: Final = {
    "calls": "set the bucket size back (bucket_cap_mb, reduce_bucket_size): {0:.3g} calls a step "
    "were {1:.3g}",
    "overlap": "let communication overlap with the backward pass again: find_unused_parameters, "
    "no_sync, the order of hooks, CUDA_DEVICE_MAX_CONNECTIONS",
}
_MOST: Final = 3
_LEAST: Final = 0.05
"""Share of the change from which a part has a line."""


def changed_verdict(found: Changed) -> str:
    """What changed, in one line."""
    benchmark = _worst(found)
    step = found.difference
    if step is not None and (step.is_changed or (benchmark is None and not found.findings)):
        return _step(found)
    if benchmark is not None:
        return _benchmark(benchmark)
    if found.findings:
        return f"new since the good day: {found.findings[0].what}"
    if found.settings:
        return f"{plural(len(found.settings), 'setting')} changed: {_settings(found.settings)}"
    return "nothing changed"


def changed_why(found: Changed) -> Iterator[str]:
    """What stands behind it."""
    step = found.difference
    if step is not None and step.is_changed:
        large = [one for one in step.parts if abs(one.seconds) >= _LEAST * abs(step.change_s)]
        yield from (_part(one, step) for one in large[:_MOST])
        computed = any(one.kind == "compute" for one in step.named)
        for name in found.names[: _MOST if computed else 0]:
            shift = f"{duration(name.before_s)} → {duration(name.now_s)}"
            yield f"{name.name[:80]}: {shift} a step"
    yield from map(_collective, found.collectives[:_MOST])
    yield from (_benchmark(one) for one in found.benchmarks if one.is_changed)
    for one in found.settings[:6]:
        yield f"{one.name}: {one.before or 'not set'} → {one.now or 'not set'}"


def changed_next(found: Changed) -> Iterator[str]:
    """What to do: settings first, then by the part that changed."""
    yield from (one.next for one in found.findings[:_MOST])
    if not found.is_changed and not found.findings:
        more = "more steps, or more good days (--against DIR of days)"
        yield f"to see smaller changes, compare {more}"
        return
    if not found.is_changed:
        return
    if found.is_slower and found.settings:
        names = ", ".join(_back(one) for one in found.settings[:_MOST])
        yield f"try the settings of the good day first: {names}"
    for one in found.collectives:
        if one.what in _OF_COLLECTIVES:
            yield _OF_COLLECTIVES[one.what].format(one.calls[1], one.calls[0])
    if found.difference is not None and found.difference.is_slower and not found.difference.parts:
        yield "record profiler traces of both, which name the part: explain NEW --against OLD"
    elif found.difference is not None and found.difference.is_slower:
        for part in found.difference.named:
            of_rank = part.ranks and part.kind == "compute"
            yield NEXT["slow worker"] if of_rank else _NEXT[part.kind]
    elif any(one.is_slower for one in found.benchmarks):
        yield "run syncwall measure links, which names the slow host; NCCL_DEBUG=INFO on both days"
    else:
        yield "it is faster: keep these files as the good day"


def _step(found: Changed) -> str:
    step = found.difference
    assert step is not None
    of = "before" if found.days == 1 else f"on {found.days} good days"
    if not step.is_changed:
        within = percent(step.least_s / step.before_s) if step.before_s else "?"
        said = f"nothing changed: a {step.what} takes {duration(step.now_s)}, {duration(step.before_s)} {of}"
        other = f"; {plural(len(found.settings), 'other setting')}" if found.settings else ""
        return f"{said} (below {within} is noise){other}"
    ratio = step.now_s / step.before_s
    way = f"{ratio:.2f} times slower" if ratio > 1 else f"{1 / ratio:.2f} times faster"
    named = " and ".join(_named(part, found) for part in step.named) or "no part in particular"
    since = f" from step {step.first_bad} on" if step.first_bad is not None else ""
    return (
        f"a {step.what} takes {duration(step.now_s)}, {way} than {of} ({duration(step.before_s)}){since}: "
        f"{named}, {percent(step.sure)} sure"
    )


def _named(part: ChangeCause, found: Changed) -> str:
    how = ""
    if part.kind == "transfer":
        how = next((f" ({_how(one)})" for one in found.collectives), "")
    return f"{_KINDS[part.kind]}{_who(part)}{how}"


def _how(one: CollectiveChange) -> str:
    if one.what == "calls":
        size = "" if isnan(one.bytes[1]) else f" of {byte_size(round(one.bytes[1]))}"
        return f"{one.calls[1]:.3g} {one.kind} calls a step{size}, {one.calls[0]:.3g} before"
    return f"{one.kind} overlaps less" if one.what == "overlap" else f"slower {one.kind}"


def _who(part: ChangeCause) -> str:
    if not part.ranks:
        return ""
    some = ", ".join(map(str, part.ranks[:6])) + (", ..." if len(part.ranks) > 6 else "")
    return f" on rank{'s' * (len(part.ranks) > 1)} {some}"


def _part(part: ChangeCause, step: StepChange) -> str:
    share = percent(part.seconds / step.change_s)
    who = _who(part) or " on all ranks"
    return f"{_KINDS[part.kind]}{who}: {signed(part.seconds)} a step, {share} of the change"


def _collective(one: CollectiveChange) -> str:
    sizes = (
        ""
        if isnan(one.bytes[1]) or isnan(one.bytes[0])
        else (f" of {byte_size(round(one.bytes[0]))} → {byte_size(round(one.bytes[1]))}")
    )
    return (
        f"{one.kind}: {one.calls[0]:.3g} → {one.calls[1]:.3g} calls a step{sizes}, a call "
        f"{duration(one.call_s[0])} → {duration(one.call_s[1])}, exposed "
        f"{percent(one.exposed[0])} → {percent(one.exposed[1])}"
    )


def _worst(found: Changed) -> BenchmarkChange | None:
    changed = [one for one in found.benchmarks if one.is_changed]
    return max(changed, key=lambda one: one.ratio, default=None)


def _benchmark(one: BenchmarkChange) -> str:
    way = f"{one.ratio:.2f} times slower" if one.is_slower else f"{1 / one.ratio:.2f} times faster"
    sizes = f"{byte_size(one.sizes[0])} to {byte_size(one.sizes[1])}"
    return f"{one.kind} of {plural(one.ranks, 'rank')} is {way} than before ({sizes})"


def _settings(changes: tuple[SettingChange, ...]) -> str:
    more = f" and {len(changes) - _MOST} more" if len(changes) > _MOST else ""
    return ", ".join(f"{one.name} {one.before} → {one.now}" for one in changes[:_MOST]) + more


def _back(one: SettingChange) -> str:
    return f"unset {one.name}" if one.before is None else f"{one.name} {one.before}"
