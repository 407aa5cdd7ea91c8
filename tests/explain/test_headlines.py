"""A headline cannot contradict the ledger below it, whatever slows the ranks down.

Together the laws of this file try 500 generated explanations, and 5,000 in the profile `weekly`.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syncwall.cause import Cause
from syncwall.explain.answer import Explanation
from syncwall.explain.changes import Changed, day_of, difference
from syncwall.explain.traces.job_traces import JobTraces
from syncwall.explain.traces.rank import RankLedger, rank_ledger, rank_summary
from syncwall.explain.traces.rank_comparison import explain_ranks
from syncwall.explain.verdict import FEW_STEPS, PROVEN, VerdictState
from syncwall.read.detect import FileKind
from syncwall.read.trace import Step, Trace
from syncwall.show.changes import changed_verdict
from syncwall.show.explanation import next_lines, verdict, why_lines
from syncwall.show.numbers import duration, percent
from syncwall.timeline.ledger import Ledger
from tests.explain.traces.job import COLLECTION, Job
from tests.laws.questions import law
from tests.oncall.makers import silent

WAITS = [cause for cause in Cause if cause.is_wait]
WORK = [Cause.GEMM, Cause.ATTENTION, Cause.ELEMENTWISE, Cause.OPTIMIZER]
BOOKED = {Cause.IDLE_DATA: "data", Cause.IDLE_HOST: "host", Cause.IDLE_SYNC: "sync"}
"""What a rank does itself, by the line of its ledger; the rest is computation. Garbage collection has
no line of its own: the device waits for the host."""
SHARES = st.floats(0.0, 1.0)


def some(values: Any, least: float, most: float) -> Any:
    """At most two of `values`, each with a number."""
    return st.dictionaries(values, st.floats(least, most), max_size=2)


@st.composite
def jobs(draw: Any) -> tuple[Job, tuple[int, ...]]:
    """A job with any faults, and the ranks of it that sleep."""
    ranks = draw(st.integers(2, 5))
    rank = st.integers(0, ranks - 1)
    collecting = draw(some(rank, 0.01, 0.3))
    job = Job(
        ranks=ranks,
        steps=draw(st.integers(1, 7)),
        data_s=draw(st.sampled_from([0.002, 0.002, 0.04])),
        transfer_s=draw(st.sampled_from([0.005, 0.01, 0.08])),
        meetings=draw(st.integers(1, 3)),
        pieces=4,
        slower=draw(some(rank, 1.0, 3.0)),
        loading=draw(some(rank, 0.01, 0.3)),
        collecting=collecting,
        more_pieces=draw(st.dictionaries(rank, st.integers(1, 4), max_size=1)),
        hosts=draw(st.integers(1, 2)),
        noise=draw(st.sampled_from([0.0, 0.002, 0.05])),
        seed=draw(st.integers(0, 1000)),
    )
    return job, tuple(one for one in collecting if draw(st.booleans()))


def recorded(job: Job, asleep: tuple[int, ...]) -> list[Trace]:
    return [silent(one) if one.rank in asleep else one for one in job.traces()]


def together(traces: list[Trace], ledgers: list[RankLedger]) -> JobTraces:
    """As `job_of`, which reads the trace that is shown from its file."""
    summaries = tuple(rank_summary(one) for one in traces)
    found = explain_ranks(summaries)
    shown = found.ranks[0] if found.ranks else 0
    return JobTraces(
        files=len(traces),
        ranks=tuple(one.rank for one in summaries),
        world_size=len(traces),
        rank=shown,
        ledger=ledgers[shown],
        device=None,
        verdict=found,
        peak_bytes=0,
        summaries=summaries,
    )


def own_s(ledger: RankLedger) -> dict[str, Any]:
    """Seconds of each step by kind of what the rank does itself, as its ledger has it."""
    found: dict[str, Any] = {}
    for cause, seconds in ledger.by_step.items():
        kind = BOOKED.get(cause, "compute")
        if not cause.is_exposed and cause is not Cause.IDLE_PEER:
            found[kind] = found.get(kind, 0.0) + np.asarray(seconds)
    none = np.zeros(len(ledger.steps))
    return {kind: found.get(kind, none) for kind in ("compute", *BOOKED.values())}


def excess_s(ledgers: list[RankLedger], late: int) -> dict[str, float]:
    """What one rank does longer than the median of the others, on the mean step."""
    own = [own_s(one) for one in ledgers]
    others = [one for rank, one in enumerate(own) if rank != late]
    return {
        kind: float(np.mean(own[late][kind] - np.median([one[kind] for one in others], axis=0)))
        for kind in own[late]
    }


def held(found: Explanation) -> None:
    """What is true of every explanation."""
    for one in found.verdicts:
        assert one.explained is None or 0 <= one.explained <= 1
        assert one.certainty is None or 0 <= one.certainty <= 1
    assert found.state is found.conclusion.state


@law(200)
@given(jobs())
def test_ranks_are_blamed_for_what_their_ledgers_say(drawn):
    job, asleep = drawn
    traces = recorded(job, asleep)
    ledgers = [rank_ledger(one) for one in traces]
    traced = together(traces, ledgers)
    found = Explanation({FileKind.TRACE: len(traces)}, traces=traced)
    held(found)
    said, ranks = verdict(found), traced.verdict
    assert ranks is not None
    steps = np.concatenate([np.asarray(one.by_step.total) for one in ledgers])
    assert abs(ranks.step_s - np.median(steps)) < 1e-6
    proven = ranks.explained >= PROVEN and job.steps >= FEW_STEPS
    drained = [line for line in next_lines(found) if line.startswith("or drain")]
    assert not drained or (proven and found.state is VerdictState.WRONG)
    if ranks.kind == "clean":
        return
    assert f"{ranks.kind}" in said
    assert f"{duration(ranks.lost_s)} of {duration(ranks.step_s)} a step ({percent(ranks.share)})" in said
    assert 0 < ranks.share <= 1
    assert (found.state is VerdictState.WRONG) == (proven and ranks.kind != "unexplained")
    if ranks.cause is None or len(ranks.ranks) != 1:
        return
    (late,) = ranks.ranks
    assert f"rank {late}" in said
    more = excess_s(ledgers, late)
    own = sum(more.values())
    collected = max(s for rank, s in {-1: 0.0, **job.collecting}.items() if rank != late)
    tolerance = 0.02 * ranks.step_s + collected  # medians of lines are no sums, and one line has both
    assert own - tolerance <= ranks.lost_s <= max(own, ranks.cause.waiting_s) + tolerance
    named = ranks.cause.kind
    assert f"more on {named}" in " ".join(why_lines(found))
    booked = {"gc": "host"}.get(named, named)
    if booked in more:
        assert ranks.cause.excess_s <= more[booked] + tolerance
        assert ranks.kind == "unexplained" or more[booked] >= max(more.values()) - tolerance
    if ranks.kind == "garbage collection":
        assert late not in asleep
    if ranks.kind == "slow data loader":
        assert named == "data"


@st.composite
def ledgers(draw: Any) -> tuple[RankLedger, int]:
    """The ledger of a rank alone, and how many ranks its job has."""
    causes = draw(st.lists(st.sampled_from([*WAITS, *WORK]), min_size=1, max_size=6, unique=True))
    count = draw(st.integers(1, 8))
    seconds = {cause: draw(st.floats(1e-4, 1.0)) for cause in causes}
    by_step = Ledger({cause: np.full(count, one) for cause, one in seconds.items()})
    total_ns = round(1e9 * sum(seconds.values()))
    steps = tuple(Step(n, n * total_ns, (n + 1) * total_ns) for n in range(count))
    on_device = draw(st.booleans())
    return RankLedger(Ledger(seconds), {}, by_step, steps, "marks", on_device=on_device), draw(
        st.sampled_from([1, 8])
    )


@law(250)
@given(ledgers())
def test_a_rank_alone_is_told_by_its_largest_wait(drawn):
    ledger, world = drawn
    traced = JobTraces(1, (0,), world, 0, ledger, None, None, 0)
    found = Explanation({FileKind.TRACE: 1}, traces=traced)
    held(found)
    said, state = verdict(found), found.state
    waits = {cause: float(one) for cause, one in ledger.ledger.items() if cause.is_wait}
    largest = max(waits, key=lambda one: waits[one], default=None)
    share = waits[largest] / float(ledger.ledger.total) if largest else 0.0
    if largest is None or share < 0.1:
        assert state in (VerdictState.HEALTHY, VerdictState.NOT_JUDGED)
        assert (state is VerdictState.HEALTHY) == (world == 1 and len(ledger.steps) > 1)
        return
    (figure,) = re.findall(r"(\d+)(?:\.\d+)?%", said)[:1]
    assert abs(int(figure) - 100 * share) <= 1
    assert state is not VerdictState.HEALTHY
    if state is VerdictState.WRONG:
        assert share >= 0.25
        assert len(ledger.steps) >= FEW_STEPS
        assert found.conclusion.cause != Cause.UNEXPLAINED
    if state is not VerdictState.NOT_JUDGED:
        assert waits[Cause(str(found.conclusion.cause))] == waits[largest]
        assert found.conclusion.explained == share
        assert duration(ledger.step_s) in said


@law(50)
@given(jobs(), jobs(), SHARES)
def test_what_changed_is_what_grew_in_the_ledgers(first, second, same):
    job, asleep = first
    job = replace(job, steps=max(job.steps, 3), noise=0.002)
    other = job if same < 0.2 else replace(second[0], ranks=job.ranks, steps=job.steps, noise=0.002)
    keep = {"slower", "loading", "collecting", "more_pieces"}
    limited = {name: {r: x for r, x in getattr(other, name).items() if r < job.ranks} for name in keep}
    days = []
    for one, seed, sleeping in ((replace(other, **limited), 1, ()), (job, 2, asleep)):
        traces = recorded(replace(one, seed=seed), sleeping)
        read = [rank_ledger(trace) for trace in traces]
        days.append((together(traces, read), read))
    (before, old), (now, new) = days
    step = difference(day_of(now, "now"), [day_of(before, "before")])
    found = Explanation({FileKind.TRACE: 2}, traces=now, changed=Changed(1, step, compared=("steps",)))
    held(found)
    said = changed_verdict(found.changed)  # type: ignore[arg-type]
    assert duration(step.now_s) in said
    assert duration(step.before_s) in said
    assert (found.state is VerdictState.WRONG) == step.is_slower
    if not step.is_changed:
        assert said.startswith("nothing changed")
        return
    ratio = step.now_s / step.before_s
    assert f"{max(ratio, 1 / ratio):.2f} times" in said
    assert f"{percent(step.sure)} sure" in said
    if not step.named:
        assert "no part in particular" in said
        return
    first_part = step.named[0]
    assert step.parts[0] == first_part
    if len(first_part.ranks) == 1 and first_part.kind in ("compute", "data", "host"):
        (rank,) = first_part.ranks
        if first_part.kind == "host" and rank in limited["collecting"]:
            return  # what was garbage collection is in the same line of the ledger
        grown = {
            kind: float(np.median(own_s(new[rank])[kind]) - np.median(own_s(old[rank])[kind]))
            for kind in ("compute", "data", "host")
        }
        assert grown[first_part.kind] * step.change_s > 0
        assert abs(first_part.seconds) <= abs(grown[first_part.kind]) + 0.03 * step.now_s


def test_a_rank_that_sleeps_is_not_told_to_measure_its_multiplications():
    traces = recorded(Job(collecting={1: 0.2}), (1,))
    assert all((one.name != COLLECTION).all() for one in traces if one.rank == 1)
    traced = together(traces, [rank_ledger(one) for one in traces])
    found = Explanation({FileKind.TRACE: 4}, traces=traced)
    assert "more on host" in " ".join(why_lines(found))
    assert not any("matmul" in line for line in next_lines(found))
