"""The sentences of an explanation.

Holds `verdict`, `why_lines` and `next_lines`.
"""

from collections.abc import Iterator
from typing import Final

from syncwall.cause import Cause
from syncwall.explain.answer import Explanation
from syncwall.explain.collective_benchmarks import Judgement
from syncwall.explain.hang import Hang
from syncwall.explain.stragglers import Slowdown
from syncwall.explain.traces.rank import RankLedger
from syncwall.explain.traces.ranks import NEXT, RanksVerdict
from syncwall.show.numbers import duration, percent, plural, rate, span
from syncwall.show.words.changes import changed_next, changed_verdict, changed_why
from syncwall.show.words.gap import suspect_words
from syncwall.timeline.ledger import Ledger

_SUSPECTS: Final = 2
_RESTART_S: Final = 600.0
"""What a restart is taken to cost: loading, compiling and the work since the last checkpoint."""
_AGAINST_WAITS: Final = {
    Cause.IDLE_HOST: NEXT["host-bound"],
    Cause.IDLE_DATA: NEXT["slow data loader"],
    Cause.IDLE_SYNC: "take .item(), .cpu() and synchronize() out of the loop, or call them rarely",
}


def verdict(found: Explanation) -> str:
    """The most important thing, in one line."""
    return next(_verdicts(found))


def _verdicts(found: Explanation) -> Iterator[str]:
    """What could be said, the most important first."""
    yield from (_hang(hang) for hang in found.hangs)
    if found.changed is not None:
        yield changed_verdict(found.changed)
    ranks = found.ranks
    if ranks is not None and ranks.kind != "clean":
        yield ranks_verdict(ranks)
    yield from (_slowdown(one) for one in found.slowdowns if one.slow)
    if found.gap is not None:
        yield _gap(found)
    yield from (finding.what for finding in found.findings if finding.severity == "wrong")
    if found.traces is not None:
        yield _one_rank(found.traces.ledger)
    if found.benchmarks.collectives:
        yield _as_expected(found.benchmarks.collectives[0], bool(found.findings))
    if found.findings:
        many = plural(len(found.findings), "thing")
        yield f"nothing is surely wrong; {many} to look at"
    yield "nothing wrong was found"


def _as_expected(said: Judgement, looked_at: bool) -> str:
    """Of a benchmark that is not slow."""
    _, reached, expected, _ = said.largest
    more = "; there are things to look at" if looked_at else ""
    return (
        f"{said.benchmark.kind} is as fast as {said.machine.name} should be: {rate(reached)} of "
        f"{rate(expected)} busbw{more}"
    )


def why_lines(found: Explanation) -> Iterator[str]:
    """What stands behind the verdict."""
    if found.changed is not None:
        yield from changed_why(found.changed)
        return
    ranks = found.ranks
    yield from _other_size(found)
    if ranks is not None and ranks.cause is not None:
        why = ranks.cause
        yield (
            f"late ranks spend {duration(why.excess_s)} more on {why.kind} in a step, the others "
            f"wait {duration(why.waiting_s)}: {percent(why.explained)} of the waiting is explained"
        )
    if ranks is not None and ranks.rate is not None:
        yield f"collectives reach {ranks.rate.bytes_per_s / 1e9:.3g} GB/s bus bandwidth"
    if ranks is not None and ranks.also:
        others = ", ".join(f"{kind} ({duration(lost_s)} a step)" for kind, lost_s in ranks.also)
        yield f"also: {others}"
    for slow in found.slowdowns:
        kinds = ", ".join(f"{kind} {s:.3f}" for kind, s in list(slow.by_kind.items())[:3])
        yield f"S = {slow.total:.3f}; with one kind as recorded and the rest ideal: {kinds}"
    for hang in found.hangs[:2]:
        for rank, last in list(hang.last.items())[:2]:
            yield f"rank {rank} was last seen in {last}"
    if found.traces is not None and ranks is None and found.gap is None:
        yield from _waits(found.traces.ledger.ledger)


def next_lines(found: Explanation) -> Iterator[str]:
    """What to do or to collect."""
    if found.changed is not None and not found.hangs:
        yield from changed_next(found.changed)
        return
    ranks = found.ranks if found.ranks is not None and found.ranks.kind != "clean" else None
    if ranks is not None:
        yield ranks.next
        yield from _drained(ranks)
    for slow in found.slowdowns:
        if slow.collect:
            yield "collect " + "; ".join(item.value for item in slow.collect)
    if found.hangs:
        yield "look at the line that the missing ranks were in, and at their logs"
    if found.traces is not None and ranks is None and found.traces.ledger.on_device:
        cause, share = found.traces.ledger.largest_wait
        if cause in _AGAINST_WAITS:
            yield f"{_AGAINST_WAITS[cause]}; that can gain at most {percent(share)} of the step"
    if found.traces is not None and found.gap is None:
        yield "lay a prediction beside it: --run run.yaml"
    if found.traces is None and found.hangs == () and found.findings:
        yield found.findings[0].next
    elif found.traces is None and found.benchmarks.collectives:
        yield "keep the output as the good day: explain NEW --against THIS shows what changed"
    yield from _priced(found)
    if found.gap is not None and found.against is None and found.gap.named is None:
        yield "no single cause explains the gap: give traces of all ranks, or measure the machine"


def _priced(found: Explanation) -> Iterator[str]:
    """What the predictor says of remedies, and of what may be otherwise than described."""
    for better in found.remedies:
        assert found.predicted is not None
        before = duration(found.predicted.step_s)
        yield f"{better.change} is predicted to save {duration(better.gained_s)} of {before} a step"
    for one in found.suspects[:_SUSPECTS]:
        yield f"{suspect_words(one)} would take {duration(one.step_s)} a step: {one.tell}"


def _drained(found: RanksVerdict) -> Iterator[str]:
    """What it takes to do without the ranks that are to blame."""
    if not found.ranks or found.share <= 0.0:
        return
    who = f"host {', '.join(found.hosts)}" if any(found.hosts) else _ranks_named(found.ranks)
    yield (
        f"or drain {who}: a restart on a spare that takes {span(_RESTART_S)} has paid for "
        f"itself after {span(_RESTART_S / found.share)} of training"
    )


def _other_size(found: Explanation) -> Iterator[str]:
    """A warning if the run file is not of this job."""
    traces, predicted = found.traces, found.predicted
    if traces is None or predicted is None or traces.world_size is None:
        return
    if traces.world_size != predicted.run.gpus:
        yield (
            f"the traces are of {traces.world_size:,} ranks, the run file is of "
            f"{predicted.run.gpus:,} GPUs: predicted and measured are not the same job"
        )


def _hang(hang: Hang) -> str:
    what = f"{hang.operation} number {hang.sequence} of group {hang.group}"
    if hang.missing:
        return f"hang: {_ranks_named(hang.missing)} did not reach {what}, the others wait there"
    if hang.odd:
        return f"hang: {_ranks_named(hang.odd)} differ in {what} ({hang.kind})"
    return f"hang: {what} was issued by all ranks and did not end"


def ranks_verdict(found: RanksVerdict) -> str:
    """What holds the ranks up most."""
    if found.kind == "clean":
        return "nothing holds the ranks up"
    hosts = f" on {', '.join(found.hosts)}" if any(found.hosts) else ""
    who = f": {_ranks_named(found.ranks)}{hosts}" if found.ranks else hosts.replace(" on", ":", 1)
    lost = f"{duration(found.lost_s)} of {duration(found.step_s)} a step"
    return f"{found.kind}{who}; {lost} ({percent(found.share)}) are lost"


def _slowdown(found: Slowdown) -> str:
    cause = "no single cause explains 80% of it"
    if found.cause is not None:
        ranks = ", ".join(map(str, found.cause.ranks[:4]))
        where = f" (ranks {ranks})" if ranks else ""
        share = percent(min(found.cause.share, 1))
        cause = f"{found.cause.what.value}{where} explain {share} of it"
    return f"stragglers cost {percent(found.total - 1, 1)} of the ideal step; {cause}"


def _gap(found: Explanation) -> str:
    gap = found.gap
    assert gap is not None
    ratio = gap.second_s / gap.first_s if gap.first_s else 1.0
    way = "slower" if ratio >= 1 else "faster"
    named = gap.named
    why = f"mostly {named.cause}" if named is not None else "for several reasons"
    if abs(ratio - 1) < 0.02:
        return f"a step takes {duration(gap.second_s)}, as predicted"
    factor = ratio if ratio >= 1 else 1 / ratio
    return f"a step takes {duration(gap.second_s)}, {factor:.2f} times {way} than predicted: {why}"


def _one_rank(found: RankLedger) -> str:
    largest, share = found.largest_wait
    if largest is None:
        return f"a step of {duration(found.step_s)} is mostly computation"
    long = f"{percent(share)} of a step of {duration(found.step_s)}"
    if largest.is_exposed:
        return f"communication-bound: {largest} takes {long}"
    if not found.on_device and largest is Cause.IDLE_HOST:
        return f"nothing recorded runs on the host for {long}"
    known = {
        Cause.IDLE_HOST: "host-bound: the device waits for launches for",
        Cause.IDLE_DATA: "the data loader is too slow: the device waits for it for",
        Cause.IDLE_SYNC: "the host waits for the device, and then the device for it, for",
    }
    return f"{known.get(largest, f'{largest} takes')} {long}"


def _waits(ledger: Ledger) -> Iterator[str]:
    step = float(ledger.total)
    waits = sorted(((float(s), c) for c, s in ledger.items() if c.is_wait), reverse=True)
    large = [(seconds / step, cause) for seconds, cause in waits[:4] if seconds >= 0.01 * step]
    said = ", ".join(f"{cause} {percent(share)}" for share, cause in large)
    if said:
        yield f"the device waits: {said}"


def _ranks_named(ranks: tuple[int, ...]) -> str:
    some = ", ".join(map(str, ranks[:6])) + (", ..." if len(ranks) > 6 else "")
    return f"rank{'s' * (len(ranks) > 1)} {some}"
