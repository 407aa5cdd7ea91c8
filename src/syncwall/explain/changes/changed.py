"""What changed since a good day.

Holds `Changed` and `what_changed`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncwall.explain.benchmarks.machine_check import tables_of
from syncwall.explain.changes.days import Day, day_of
from syncwall.explain.changes.details import (
    BenchmarkChange,
    CollectiveChange,
    NameChange,
    changed_benchmarks,
    changed_collectives,
    changed_names,
)
from syncwall.explain.changes.parts import Difference, Part, difference
from syncwall.explain.changes.settings import SettingChange, changed_settings, settings_of
from syncwall.explain.finding import Finding
from syncwall.explain.traces.job_traces import JobTraces
from syncwall.public import published

Files = Mapping[str, Sequence[Any]]


@published(
    "is_changed is_slower days before_s=difference.before_s now_s=difference.now_s",
    "noise_s=difference.least_s sure=difference.sure first_bad=difference.first_bad parts names",
    "collectives settings findings benchmarks",
)
@dataclass(frozen=True)
class Changed:
    """What is different from the good days."""

    days: int
    """Good days that it was compared with; 0 without traces on both sides."""
    difference: Difference | None
    """Of a step; None without traces."""
    names: tuple[NameChange, ...] = ()
    """Kernels or operators, the most first."""
    collectives: tuple[CollectiveChange, ...] = ()
    settings: tuple[SettingChange, ...] = ()
    benchmarks: tuple[BenchmarkChange, ...] = ()
    """Those that both days have, changed or not."""
    findings: tuple[Finding, ...] = ()
    """What is wrong now, and was not."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Why, the most first."""
        return self.difference.parts if self.difference else ()

    @property
    def is_slower(self) -> bool:
        """True if a step or a benchmark is slower than noise explains."""
        step = self.difference is not None and self.difference.is_slower
        return step or any(one.is_slower for one in self.benchmarks)

    @property
    def is_changed(self) -> bool:
        """True if a step or a benchmark is slower or faster."""
        step = self.difference is not None and self.difference.is_changed
        return step or any(one.is_changed for one in self.benchmarks)


def what_changed(
    now: JobTraces | None, read_now: Files, good: Sequence[Day], read_before: Files
) -> Changed | None:
    """The differences; None if nothing of both sides can be compared."""
    before = good[-1].job if good else None
    settings = changed_settings(settings_of(read_now, now), settings_of(read_before, before))
    benchmarks = tuple(changed_benchmarks(tables_of(read_now), tables_of(read_before)))
    if now is None or not good:
        told = bool(settings or benchmarks or set(read_now) & set(read_before))
        return Changed(0, None, settings=settings, benchmarks=benchmarks) if told else None
    day = day_of(now, "now")
    found = difference(day, good)
    if not found.is_changed:
        return Changed(len(good), found, settings=settings, benchmarks=benchmarks)
    return Changed(
        len(good), found, changed_names(day, good[-1], found.change_s),
        changed_collectives(day, good[-1]), settings, benchmarks,
    )  # fmt: skip
