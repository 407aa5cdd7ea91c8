"""Whether a watched job runs, as far as whoever reads its snapshot can know.

Holds `JobState`; `JobStatus` and `job_status`, the one place where a state is concluded, for the
Live page, `--attach` and JSON alike; `Writer`, the agent that wrote a snapshot: it is read by a
clock that nobody sets, and an agent that is gone never leaves a running job behind; `job_name`, the
command of a job as people call it.
"""

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from syncwall.watch.cores import process_stat
from syncwall.watch.events import Finding, RankState


class JobState(StrEnum):
    """What a job does."""

    RUNNING = "running"
    SLOW = "slow"
    """It goes on, and a finding says that each step takes longer for it."""
    HUNG = "hung"
    """A finding says that nothing goes on until somebody acts."""
    SILENT = "silent"
    """Nothing was heard of it for longer than its steps explain: what it does is not known."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A state, and what it rests on."""

    state: JobState
    reason: str = ""
    """In one clause; empty for a running job without a finding."""
    age_s: float | None = None
    """Of the snapshot; None if it comes from another machine or from before a restart."""
    is_current: bool = True
    """False if the snapshot is about a moment that has passed."""


_NEVER: Final = "another"


@dataclass(frozen=True, slots=True)
class Writer:
    """An agent when it wrote a snapshot."""

    boot: str = _NEVER
    """Of the kernel: its clock means nothing in another one."""
    namespace: str = ""
    """In which process ids are those of the snapshot."""
    pid: int = 0
    started: int = 0
    """In ticks since the boot: process ids are used again."""
    at_s: float = 0.0
    """Since the boot, sleep included."""

    @classmethod
    def now(cls) -> "Writer":
        """This process at this moment."""
        pid = os.getpid()
        return cls(_boot(), _namespace(), pid, _started(pid) or 0, _since_boot_s())

    @property
    def age_s(self) -> float | None:
        """Since it wrote; None if that was under another kernel."""
        return max(_since_boot_s() - self.at_s, 0.0) if self.boot == _boot() else None

    def sees_gone(self, pid: int, started: int | None = None) -> bool:
        """True if a process that it knew has surely ended; what cannot be seen from here has not."""
        if self.boot != _boot() or self.namespace != _namespace():
            return False
        found = _started(pid)
        return found is None or (started is not None and found != started)

    @property
    def is_gone(self) -> bool:
        """True if the agent itself has surely ended."""
        return self.sees_gone(self.pid, self.started)


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@cache
def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _since_boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _started(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None for one that is gone."""
    fields = process_stat(pid).split()
    return None if not fields or fields[0] in ("Z", "X") else int(fields[19])


_HEARD_S: Final = 3.0
"""Snapshots come every 0.9 s; an agent that is this late is stopped, or its machine stands still."""
_SILENT_STEPS: Final = 3.0
_PAUSE_S: Final = 1.0
"""Rings are read every 0.25 s and snapshots written every 0.9 s: less is no silence."""


def job_status(
    writer: Writer,
    node: str,
    ranks: Sequence[RankState],
    findings: Sequence[Finding],
    now_s: float,
    *,
    is_over: bool = False,
) -> JobStatus:
    """What is known now of a job whose agent saw this at `now_s`; `is_over`: it saw its end."""
    age_s = writer.age_s
    stops = [one.evidence for one in findings if one.kind.stops_the_job]
    all_over = bool(ranks) and all(one.process.is_over for one in ranks)
    if is_over or all_over:
        said = "all ranks have ended" if all_over else "the run is over"
        how = f": {stops[0]}" if stops else ""
        return JobStatus(JobState.ENDED, f"{said}{how}", age_s, is_current=False)
    if age_s is None or age_s > _HEARD_S or writer.is_gone:
        return _unheard(writer, node, ranks)
    if stops:
        return JobStatus(JobState.HUNG, f"the job stands still: {stops[0]}", age_s)
    silent = "nothing trains yet" if not ranks else _silence(ranks, now_s)
    if silent:
        return JobStatus(JobState.SILENT, silent, age_s)
    slow = next((one for one in findings if one.cost_s), None)
    first = slow or next(iter(findings), None)
    reason = f"{first.kind}: {first.evidence}" if first else ""
    return JobStatus(JobState.SLOW if slow else JobState.RUNNING, reason, age_s)


def _unheard(writer: Writer, node: str, ranks: Sequence[RankState]) -> JobStatus:
    """Of a job whose agent says nothing any more."""
    age_s = writer.age_s
    step = max((one.step for one in ranks), default=0)
    seen = f"it was last seen in step {step:,}" + ("" if age_s is None else f", {age_s:.0f} s ago")
    if age_s is None:
        why = "its agent wrote on another machine, or before this one was restarted"
    elif not writer.is_gone:
        why = f"its agent (process {writer.pid}) says nothing, as if stopped"
    elif all(one.node == node and (one.process.is_over or writer.sees_gone(one.pid)) for one in ranks):
        why = "its agent and all of its processes are gone without a word, as after kill -9"
        return JobStatus(JobState.ENDED, f"{why}; {seen}", age_s, is_current=False)
    else:
        why = f"its agent (process {writer.pid}) is gone, and nobody watches its ranks"
    return JobStatus(JobState.SILENT, f"{why}; {seen}", age_s, is_current=False)


def _silence(ranks: Sequence[RankState], now_s: float) -> str:
    """Of the rank that has made no mark for the most steps, if these are too many."""
    late = [
        ((now_s - one.phase_since_s) / one.step_s, one)
        for one in ranks
        if one.step_s and not one.process.is_over and one.phase != "ended"
        if now_s - one.phase_since_s > max(_SILENT_STEPS * one.step_s, _PAUSE_S)
    ]
    if not late:
        return ""
    steps, one = max(late, key=lambda each: each[0])
    spent_s = now_s - one.phase_since_s
    return (
        f'rank {one.rank} has made no mark in "{one.phase}" for {spent_s:.1f} s, '
        f"in which it makes {steps:,.0f} steps"
    )


_LONGEST: Final = 60
_PYTHON: Final = re.compile(r"(pypy|python)[\d.]*$")
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
"""Flags of Python whose value is a word of its own."""
_SECRET: Final = re.compile(r"(?i)(token|secret|passw|api.?key)")


def job_name(words: Sequence[str]) -> str:
    """The command of a rank without its interpreter and folders: "train.py --config x.yaml"."""
    left = list(words)
    if left and _PYTHON.match(Path(left[0]).name):
        del left[0]
        while left and left[0].startswith("-") and left[0] != "-":
            flag = left.pop(0)
            if flag == "-m":
                break
            if flag == "-c":
                return "python -c"
            if flag in _WITH_VALUE:
                del left[:1]
    shown = [Path(left[0]).name, *_without_secrets(left[1:])] if left else []
    text = "".join(one if one.isprintable() else "?" for one in " ".join(shown))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _without_secrets(words: Sequence[str]) -> list[str]:
    """Words of a command, without values of flags whose name says that they are secret."""
    found, hides = [], False
    for one in words:
        flag, equals, _ = one.partition("=")
        is_secret = one.startswith("-") and _SECRET.search(flag) is not None
        hidden = f"{flag}=***" if is_secret and equals else one
        found.append("***" if hides and not one.startswith("-") else hidden)
        hides = is_secret and not equals
    return found
