"""What files say as plain data: seconds.

Holds `ExplainRecord`, its parts and `explanation_record`.
"""

from typing_extensions import TypedDict

from syncwall.cause import Cause
from syncwall.explain.answer import Explanation
from syncwall.explain.benchmarks.judged import Judgement
from syncwall.explain.changes.changed import Changed
from syncwall.explain.changes.details import BenchmarkChange, CollectiveChange, NameChange
from syncwall.explain.changes.parts import Part
from syncwall.explain.changes.settings import SettingChange
from syncwall.explain.finding import Finding
from syncwall.explain.logs.hang import Hang
from syncwall.explain.side_by_side import Gap
from syncwall.show.records.interface import record
from syncwall.show.words.explanation import next_lines, verdict, why_lines
from syncwall.show.words.files_read import file_lines


@record
class FactRecord(TypedDict):
    """What one file, or the traces together, say."""

    file: str
    says: str


@record
class RanksRecord(TypedDict):
    """What holds the ranks of a job up."""

    kind: str
    """clean, slow worker, slow link, ..."""
    ranks: list[int]
    """Those to blame; empty if none in particular."""
    hosts: list[str]
    """Theirs, as far as they are known."""
    step_s: float
    """Median step."""
    lost_s: float
    """Seconds of a step that would be saved."""
    explained: float
    """Share of the lost time that the verdict explains."""


@record
class SlowdownRecord(TypedDict):
    """What stragglers cost, from a table of operations; ratios to the ideal job."""

    source: str
    """The table."""
    total: float
    """Replayed step over the ideal one."""
    by_kind: dict[str, float]
    """With only this kind of operation as recorded."""
    by_stage: dict[str, float]
    """With only this pipeline stage as recorded."""
    by_dp_rank: dict[str, float]
    """With only this data-parallel rank as recorded."""
    cause: str | None
    """What explains at least 80% of it."""


@record
class BenchmarkRecord(TypedDict):
    """A benchmark of a collective beside what its machine should give."""

    source: str
    """The file."""
    collective: str
    ranks: int
    machine: str
    """What it was judged against."""
    is_slow: bool
    slower: float | None
    """Measured over expected time of large sizes; null if there are only small ones."""
    slower_small: float | None
    """The same of sizes up to 64 KiB; null without them."""
    healthy: list[float]
    """Least and most of it on healthy machines."""
    likely: list[str]
    """What may be wrong, the likeliest first."""
    sizes_bytes: list[float]
    measured_s: list[float]
    expected_s: list[float]


@record
class ChangedRecord(TypedDict):
    """What is different from the good days."""

    is_changed: bool
    is_slower: bool
    days: int
    """Good days with traces that it was compared with."""
    before_s: float | None
    """Median step of the good days; null without traces."""
    now_s: float | None
    noise_s: float | None
    """Changes of the step up to this are noise."""
    sure: float | None
    """Share of resamples of the steps with the same verdict."""
    first_bad: int | None
    """Step from which on it is slow; null if from the first one, or never."""
    parts: list[Part]
    """Why, the most first."""
    names: list[NameChange]
    """Kernels or operators."""
    collectives: list[CollectiveChange]
    settings: list[SettingChange]
    findings: list[Finding]
    """What is wrong now, and was not."""
    benchmarks: list[BenchmarkChange]


@record
class RemedyRecord(TypedDict):
    """A change that helps against the verdict."""

    change: str
    """In the words of the keys of a run."""
    gained_s: float
    """Predicted seconds of a step."""


@record
class ExplainRecord(TypedDict):
    """Verdict, why, next, and what they rest on."""

    verdict: str
    """In one line."""
    why: list[str]
    next: list[str]
    """What to do or to collect."""
    files: dict[str, int]
    """How many of each kind were read."""
    facts: list[FactRecord]
    ledger_s: dict[Cause, float] | None
    """Seconds of a mean step by cause, of the rank to blame or the first; null without traces."""
    hidden_s: dict[str, float] | None
    """Seconds of communication behind computation, by kind; not part of the step."""
    step_s: float | None
    """What the ledger adds up to."""
    ranks: RanksRecord | None
    """Null without traces of several ranks."""
    gap: list[Gap] | None
    """Predicted and measured, or before and after, by cause."""
    remedies: list[RemedyRecord]
    """As the predictor prices them; empty without --run."""
    slowdowns: list[SlowdownRecord]
    hangs: list[Hang]
    """Collectives that some ranks did not reach or end."""
    changed: ChangedRecord | None
    """Null without --against."""
    benchmarks: list[BenchmarkRecord]
    """Collectives that were timed, if the machine is known."""
    machines: list[str]
    """What the machine was taken for, if nobody named it; all that fit."""
    findings: list[Finding]
    """Settings and hardware that cost speed, the worst first."""
    problems: list[str]
    """What could not be read."""


def explanation_record(found: Explanation) -> ExplainRecord:
    """All of it."""
    measured = found.traces.ledger if found.traces else None
    ranks, guess = found.ranks, found.benchmarks.recognised
    return {
        "verdict": verdict(found),
        "why": list(why_lines(found)),
        "next": list(next_lines(found)),
        "files": dict(found.files),
        "facts": [{"file": name, "says": says} for name, says in file_lines(found)],
        "ledger_s": dict(measured.ledger) if measured else None,
        "hidden_s": measured.hidden if measured else None,
        "step_s": measured.step_s if measured else None,
        "ranks": None if ranks is None else {
            "kind": ranks.kind, "ranks": list(ranks.ranks), "hosts": list(ranks.hosts),
            "step_s": ranks.step_s, "lost_s": ranks.lost_s, "explained": ranks.explained,
        },
        "gap": list(found.gap.gaps) if found.gap else None,
        "remedies": [{"change": one.change, "gained_s": one.gained_s} for one in found.remedies],
        "slowdowns": [
            {"source": one.source, "total": one.total, "by_kind": dict(one.by_kind),
             "by_stage": {str(key): value for key, value in one.by_stage.items()},
             "by_dp_rank": {str(key): value for key, value in one.by_dp_rank.items()},
             "cause": one.cause.what.value if one.cause else None}
            for one in found.slowdowns
        ],
        "hangs": list(found.hangs),
        "changed": _changed(found.changed) if found.changed else None,
        "benchmarks": [_benchmark(one) for one in found.benchmarks.collectives],
        "machines": [one.name for one in guess.machines] if guess else [],
        "findings": list(found.findings),
        "problems": list(map(str, found.problems)),
    }  # fmt: skip


def _benchmark(one: Judgement) -> BenchmarkRecord:
    found = one.benchmark
    return {
        "source": found.source, "collective": found.kind, "ranks": found.ranks,
        "machine": one.machine.name, "is_slow": one.is_slow, "slower": one.rate,
        "slower_small": one.small, "healthy": [one.limits.least, one.limits.most],
        "likely": [kind.value for kind in one.faults], "sizes_bytes": found.sizes.tolist(),
        "measured_s": found.seconds.tolist(), "expected_s": one.expected_s.tolist(),
    }  # fmt: skip


def _changed(found: Changed) -> ChangedRecord:
    step = found.difference
    return {
        "is_changed": found.is_changed, "is_slower": found.is_slower, "days": found.days,
        "before_s": step.before_s if step else None, "now_s": step.now_s if step else None,
        "noise_s": step.least_s if step else None, "sure": step.sure if step else None,
        "first_bad": step.first_bad if step else None, "parts": list(step.parts) if step else [],
        "names": list(found.names), "collectives": list(found.collectives),
        "settings": list(found.settings), "findings": list(found.findings),
        "benchmarks": list(found.benchmarks),
    }  # fmt: skip
