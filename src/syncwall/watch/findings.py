"""What an agent has found so far: judges called when there is something new, findings kept.

Holds `Findings`.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from syncwall.watch.events import (
    Expectation,
    Finding,
    FindingKey,
    FindingKind,
    NodeReport,
    StepRecord,
    StepWindow,
)
from syncwall.watch.expected import expected, left
from syncwall.watch.judges import Thresholds, dead, hung, lost_nodes, stopped
from syncwall.watch.speed import (
    Hosts,
    JobWindow,
    common_windows,
    job_slowdown,
    job_window,
    slower_than_predicted,
    stood_out,
)
from syncwall.watch.spikes import Curves

_KEPT = 400
"""Windows of the job that a slow-down is looked for in: 10,000 steps."""
_LATEST = 4
"""Windows of each rank; some may be a window ahead."""


class Findings:
    """Findings of one job."""

    def __init__(self, home: Path, limits: Thresholds) -> None:
        self._home, self._limits = home, limits
        self._windows: dict[int, deque[StepWindow]] = defaultdict(lambda: deque(maxlen=_LATEST))
        self.job: deque[JobWindow] = deque(maxlen=_KEPT)
        """Its latest windows, since a rank was last started anew."""
        self._of_speed: list[Finding] = []
        self._busy: dict[FindingKey, tuple[float, Finding]] = {}
        """Busy hosts, and when they were last so: load comes and goes."""
        self._curves = Curves()
        self._open: dict[FindingKey, Finding] = {}
        self.history: list[Finding] = []
        """All that ever held."""
        self.notes: list[str] = []
        self.expected: Expectation | None = None
        self._asked = False

    def started_anew(self, rank: int) -> None:
        """The steps of a rank that was started again begin at 0."""
        self._windows.pop(rank, None)
        self.job.clear()
        self._curves = Curves()

    def round(
        self,
        reports: tuple[NodeReport, ...],
        silent_s: Mapping[str, float],
        now_s: float,
        steps: Iterable[StepRecord] = (),
        of_devices: Iterable[Finding] = (),
    ) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """Findings that hold now, and those of them that are new."""
        self._expect(max((one.world for one in reports if one.ranks), default=None))
        states = [one for report in reports for one in report.ranks]
        lost = lost_nodes({one.node: one for one in reports}, silent_s, self._limits, now_s)
        found = [*dead(states, self._limits), *stopped(states), *lost, *of_devices]
        if not lost and not any(one.quiet for one in reports):
            whole = len(states) >= max(one.world for one in reports)
            found += hung(states, now_s, self._limits, whole=whole)
        if self._take(window for report in reports for window in report.windows):
            self._of_speed = self._speed(_hosts(reports), now_s)
        found += self._of_speed + self._curves.take(steps, now_s)
        new = [one for one in found if one.key not in self._open]
        self._open = {one.key: self._open.get(one.key, one) for one in found}
        self.history += new
        return self.held, tuple(new)

    @property
    def held(self) -> tuple[Finding, ...]:
        """Those that held in the latest round."""
        return tuple(self._open.values())

    def _take(self, windows: Iterable[StepWindow]) -> bool:
        """Keep windows that are new; True if there is one."""
        found = False
        for one in windows:
            kept = self._windows[one.rank]
            if not kept or one.first > kept[-1].first:
                kept.append(one)
                found = True
        return found

    def _speed(self, hosts: Hosts, now_s: float) -> list[Finding]:
        latest = [one for kept in self._windows.values() for one in kept]
        done = self.job[-1].first if self.job else -1
        same = common_windows(latest)
        self.job.extend(job_window(one) for one in same if one[0].first > done)
        job = list(self.job)
        found = stood_out(same, self._limits, hosts) + job_slowdown(job, self._limits, hosts)
        busy = [one for one in found if one.kind is FindingKind.HOST_BUSY]
        self._busy = {k: v for k, v in self._busy.items() if now_s - v[0] < self._limits.stall_told_s}
        self._busy |= {one.key: (now_s, one) for one in busy}
        found = [one for one in found if one not in busy] + [one for _, one in self._busy.values()]
        if self.expected is not None:
            found += slower_than_predicted(job, self.expected, self._limits)
        return found

    def _expect(self, world: int | None) -> None:
        """What the run should be like, once somebody says it; unless it is about another one."""
        if not self._asked and (words := left(self._home)):
            self._asked = True
            self.expected, note = expected(words)
            self.notes += [note] if note else []
        about = self.expected.ranks if self.expected else None
        if world is not None and about is not None and about != world:
            self.notes.append(f"nothing to compare with: {about} ranks are expected, the job has {world}")
            self.expected = None


def _hosts(reports: Iterable[NodeReport]) -> Hosts:
    return {one.node: one.host for one in reports if one.host is not None}
