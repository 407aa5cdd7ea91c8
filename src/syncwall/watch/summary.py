"""A job at one moment, over its latest steps, and at its end.

Holds `Live` (a round of an agent), `Listener` (who is told of rounds), `Recent` with `RankTotals`
(what was seen so far, added up), `Snapshot` (what `Recent` knows at one moment), `SnapshotFile`, a
listener that keeps it beside the rings for terminals and pages of the same machine, with
`read_snapshot` and `watched_here`; `Summary` and `summary_of`, the job after its end.
"""

import os
import stat
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final, Protocol

from syncwall.cause import Cause
from syncwall.documents import write_whole
from syncwall.problems import InputError
from syncwall.watch.baseline import UsualStep, usual_step
from syncwall.watch.devices import DeviceState
from syncwall.watch.events import (
    FORMAT,
    TIMES_OF_A_STEP,
    Expectation,
    Finding,
    FindingKey,
    FindingKind,
    NodeReport,
    RankState,
    StepRecord,
    from_json,
    to_json,
)
from syncwall.watch.findings import Findings
from syncwall.watch.job_state import JobStatus, Writer, job_name, job_status
from syncwall.watch.place import homes, open_plain
from syncwall.watch.ranks import WatchedRank, read_facts
from syncwall.watch.speed import is_pause


@dataclass(frozen=True, slots=True)
class Live:
    """What an agent knows after one round."""

    now_s: float
    """Since the epoch."""
    reports: tuple[NodeReport, ...]
    """Of this node, then of others that were heard of: on the first node of all, elsewhere of the
    first. In a large job, ranks that are well are left out."""
    steps: tuple[StepRecord, ...]
    """Finished on this node since the round before."""
    findings: tuple[Finding, ...]
    """That hold now."""
    new: tuple[Finding, ...]
    """Those of them that did not hold in the round before."""
    expected: Expectation | None = None
    told: tuple[Finding, ...] = ()
    """What the first node has found elsewhere: shown here, and told to others by its own agent."""
    devices: tuple[DeviceState, ...] = ()
    """Of this node, where NVML is there."""

    @property
    def ranks(self) -> tuple[RankState, ...]:
        """Of all nodes, by rank."""
        states = (one for report in self.reports for one in report.ranks)
        return tuple(sorted(states, key=lambda one: one.rank))


class Listener(Protocol):
    """Somebody who is told of every round; it must return soon, and what it raises is ignored."""

    def round(self, live: Live) -> None:
        """Once for each look at the ranks, four times a second."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A watched job after its end, as its node saw it."""

    node: str
    ranks: int
    """Processes that were watched."""
    world: int
    steps: int
    """Finished by the rank that came farthest."""
    step_s: float | None
    """Mean over ranks and steps, without what is beside them; None without a step."""
    seconds: Mapping[Cause, float]
    """Of such a step, by cause."""
    tokens_per_s: float | None
    """All ranks of the node together; None if nobody told tokens."""
    watched_s: float
    findings: tuple[Finding, ...]
    """All that ever held, in the order in which they came."""
    expected: Expectation | None
    lost_marks: int
    notes: tuple[str, ...]
    beside_s: Mapping[Cause, float] = field(default_factory=dict)
    """Of a rank beside its steps, the mean over ranks: checkpoints, evaluations, and pauses by what
    they were spent on."""
    pauses: int = 0
    """Steps many times as long as usual, of the rank that has most of them."""
    held: tuple[Finding, ...] = ()
    """Of the findings, those that held to the end."""
    usual: UsualStep | None = None
    """None of a run that is too short."""


_KEPT: Final = 240
"""Steps that a ledger and curves show."""


@dataclass(slots=True)
class RankTotals:
    """One rank since it was watched, restarts included."""

    node: str = ""
    steps: int = 0
    seconds: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    tokens: float = 0.0
    latest: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=_KEPT))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A watched job at one moment."""

    now_s: float
    node: str
    world: int
    ranks: tuple[RankState, ...]
    """Of this node and of others that it hears of."""
    step_s: float | None = None
    """Mean of the latest steps of all ranks."""
    seconds: Mapping[Cause, float] = field(default_factory=dict)
    """Of such a step."""
    steps: tuple[int, ...] = ()
    """Numbers of the latest steps of the lowest rank ..."""
    steps_s: tuple[float, ...] = ()
    """... their times ..."""
    losses: tuple[float | None, ...] = ()
    """... and losses."""
    tokens_per_s: float | None = None
    """Of the node, over the latest steps."""
    mfu: float | None = None
    goodput: float | None = None
    finish_s: tuple[float, float, float] | None = None
    """P10, P50 and P90 of the time that is left."""
    findings: tuple[Finding, ...] = ()
    """That hold now, of this node's agent and of the first one's."""
    past: tuple[Finding, ...] = ()
    """Resolved findings, the latest last."""
    expected: Expectation | None = None
    notes: tuple[str, ...] = ()
    name: str = ""
    """The command of its ranks; empty before there is one."""
    is_over: bool = False
    """Its agent saw its end, and leaves."""
    writer: Writer = field(default_factory=Writer)
    format: int = FORMAT

    def status(self) -> JobStatus:
        """What whoever reads this can know of the job right now."""
        return job_status(self.writer, self.node, self.ranks, self.findings, self.now_s, is_over=self.is_over)


class Recent:
    """Totals of all ranks of a node."""

    def __init__(self) -> None:
        self.totals: dict[int, RankTotals] = defaultdict(RankTotals)
        self.live: Live | None = None
        self.found: dict[FindingKey, Finding] = {}
        self.counted: dict[FindingKind, int] = defaultdict(int)
        """Findings so far, by kind."""
        self.flops_per_token: float | None = None
        self.peak_flops: float | None = None
        """Of one device."""
        self.goodput: float | None = None
        self.finish_s: tuple[float, float, float] | None = None

    def round(self, live: Live) -> None:
        """Add up."""
        self.live = live
        for state in live.reports[0].ranks if live.reports else ():
            self.totals[state.rank].node = state.node
        for step in live.steps:
            total = self.totals[step.rank]
            if total.latest and step.step <= total.latest[-1].step:
                total.latest.clear()  # the rank was started anew
            total.steps += 1
            total.tokens += step.tokens or 0.0
            total.latest.append(step)
            for cause, spent_s in step.seconds.items():
                total.seconds[cause] += spent_s
        for one in live.new:
            self.found[one.key] = one
            self.counted[one.kind] += 1

    @property
    def tokens_per_s(self) -> float | None:
        """Of all ranks together, over their latest steps."""
        found = [_tokens_per_s(list(one.latest)) for one in self.totals.values()]
        return sum(rates) if (rates := [one for one in found if one is not None]) else None

    @property
    def mfu(self) -> float | None:
        """Model FLOPs over what the devices of these ranks could do; recomputation not counted."""
        if not self.flops_per_token or not self.peak_flops or self.tokens_per_s is None:
            return None
        ranks = sum(1 for one in self.totals.values() if one.latest)
        return self.tokens_per_s * self.flops_per_token / (self.peak_flops * ranks)

    def snapshot(self) -> Snapshot | None:
        """What is known now; None before the first round."""
        live = self.live
        if live is None:
            return None
        latest = [list(one.latest) for one in self.totals.values() if one.latest]
        usual = [step for steps in latest for step in _without_pauses(steps)]
        count = len(usual)
        seconds: dict[Cause, float] = defaultdict(float)
        for step in usual:
            for cause in TIMES_OF_A_STEP & step.seconds.keys():
                seconds[cause] += step.seconds[cause] / count
        first = list(self.totals[min(self.totals)].latest) if self.totals else []
        held = {one.key for one in live.findings}
        return Snapshot(
            live.now_s,
            live.reports[0].node if live.reports else "",
            max((one.world for one in live.reports), default=0),
            live.ranks,
            step_s=sum(seconds.values()) if count else None,
            seconds={cause: seconds[cause] for cause in sorted(seconds, key=lambda c: c.order)},
            steps=tuple(one.step for one in first),
            steps_s=tuple(one.step_s for one in first),
            losses=tuple(one.loss for one in first),
            tokens_per_s=self.tokens_per_s,
            mfu=self.mfu,
            goodput=self.goodput,
            finish_s=self.finish_s,
            findings=live.findings + live.told,
            past=tuple(one for key, one in self.found.items() if key not in held)[-20:],
            expected=live.expected,
            notes=tuple(dict.fromkeys(note for one in live.reports for note in one.notes)),
        )


def _without_pauses(steps: list[StepRecord]) -> list[StepRecord]:
    usual_s = median(one.step_s for one in steps)
    return [one for one in steps if not is_pause(one.step_s, usual_s)]


def _tokens_per_s(steps: list[StepRecord]) -> float | None:
    told = [one for one in steps if one.tokens is not None]
    spent_s = sum(one.step_s for one in told)
    return sum(one.tokens or 0.0 for one in told) / spent_s if spent_s else None


def median_step_s(total: RankTotals) -> float | None:
    """Of the latest steps of a rank."""
    return median(one.step_s for one in total.latest) if total.latest else None


SNAPSHOT: Final = "live.json"
_EVERY_S: Final = 0.9
_MOST_BYTES: Final = 64 << 20
"""Of a snapshot: of 100,000 ranks it has some 30 MB."""
_SEEN: Final = 64
"""Folders that are looked at."""


class SnapshotFile:
    """Written about once a second, whole: a reader never sees half of it."""

    def __init__(self, recent: Recent, home: Path) -> None:
        self._recent, self._path = recent, home / SNAPSHOT
        self._written_s = -_EVERY_S
        self._name = ""

    def round(self, live: Live) -> None:
        """Write if it is time."""
        if time.monotonic() - self._written_s < _EVERY_S and not live.new:
            return
        self._written_s = time.monotonic()
        self._write()

    def close(self) -> None:
        """Say that the job is over."""
        self._write(is_over=True)

    def _write(self, *, is_over: bool = False) -> None:
        self._name = self._name or name_in(self._path.parent)
        if (found := self._recent.snapshot()) is not None:
            found = replace(found, name=self._name, is_over=is_over, writer=Writer.now())
            write_whole(self._path, to_json(found))


def name_in(home: Path) -> str:
    """The command of a rank that has left it in a folder."""
    for path in home.glob("rank-*.json"):
        with suppress(OSError, ValueError):
            return job_name(read_facts(path).command)
    return ""


def read_snapshot(home: Path) -> Snapshot:
    """The latest of a folder; InputError if there is none, or a link to something else."""
    try:
        file = open_plain(home / SNAPSHOT)
        with os.fdopen(file, "rb") as opened:
            if opened.seekable() and os.fstat(file).st_size <= _MOST_BYTES:
                return from_json(Snapshot, opened.read(_MOST_BYTES))
    except (OSError, ValueError):
        pass
    raise InputError.of(f"{home}: no job is watched there") from None


def watched_here() -> list[Path]:
    """Folders of jobs that this user has watched on this machine, the latest first."""
    found = []
    for above in homes():
        for path in above.glob(f"syncwall-*/{SNAPSHOT}"):
            try:
                owners = path.parent.lstat(), path.lstat()
            except OSError:
                continue
            if all(one.st_uid == os.getuid() for one in owners) and stat.S_ISDIR(owners[0].st_mode):
                found.append((owners[1].st_mtime, path.parent))
    return [home for _, home in sorted(found, reverse=True)[:_SEEN]]


def summary_of(watched: Iterable[WatchedRank], findings: Findings, watched_s: float) -> Summary:
    """Means over all steps of all ranks, and all findings."""
    ranks = list(watched)
    steps = sum(one.steps - one.pauses for one in ranks)
    spent: dict[Cause, float] = defaultdict(float)
    beside: dict[Cause, float] = defaultdict(float)
    for one in ranks:
        for cause, seconds in one.spent_s.items():
            spent[cause] += seconds
        for cause, seconds in one.beside_s.items():
            beside[cause] += seconds / len(ranks)
    tokens = [one.tokens for one in ranks if one.tokens is not None]
    training_s = max((one.last_s - one.first_s for one in ranks if one.first_s), default=0.0)
    notes = dict.fromkeys([*(note for one in ranks for note in one.notes), *findings.notes])
    return Summary(
        node=ranks[0].node if ranks else "",
        ranks=len({one.rank for one in ranks}),
        world=ranks[0].facts.world if ranks else 0,
        steps=max((one.steps for one in ranks), default=0),
        step_s=sum(spent.values()) / steps if steps else None,
        seconds={cause: spent[cause] / steps for cause in sorted(spent, key=lambda c: c.order)},
        tokens_per_s=sum(tokens) / training_s if tokens and training_s else None,
        watched_s=watched_s,
        findings=tuple(findings.history),
        expected=findings.expected,
        lost_marks=sum(one.lost_marks for one in ranks),
        notes=tuple(notes),
        beside_s={cause: beside[cause] for cause in sorted(beside, key=lambda c: c.order)},
        pauses=max((one.pauses for one in ranks), default=0),
        held=findings.held,
        usual=usual_step(findings.job),
    )
