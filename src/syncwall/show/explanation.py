"""What files say: verdict, files, ledger or comparison, why, what was found, what to do next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall.cause import Cause
from syncwall.describe import Cluster
from syncwall.explain.answer import Explanation
from syncwall.explain.benchmarks import MachineCheck
from syncwall.explain.changes import Changed
from syncwall.explain.collective_benchmarks import Judgement
from syncwall.explain.failures import Failure, named_ranks
from syncwall.explain.finding import Finding
from syncwall.explain.hang import Hang
from syncwall.explain.side_by_side import SideBySide
from syncwall.explain.stragglers import Slowdown
from syncwall.explain.traces.job_traces import JobTraces, rank_steps
from syncwall.explain.traces.rank import RankLedger
from syncwall.explain.traces.rank_comparison import NEXT, RanksVerdict
from syncwall.explain.training_level import Level
from syncwall.explain.verdict import FEW_STEPS, PROVEN, Judged, NotJudged, VerdictState
from syncwall.public import published
from syncwall.read.memory_snapshot import DeviceMemory
from syncwall.read.topology import HostTopology
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, ledger, table
from syncwall.show.changes import changed_next, changed_verdict, changed_why
from syncwall.show.draw.rank_steps import rank_heat, rank_lanes
from syncwall.show.gap import suspect_words
from syncwall.show.measurement import flops_text
from syncwall.show.numbers import byte_size, duration, percent, plural, rate, signed, span
from syncwall.show.training_log import level_verdict, log_blocks
from syncwall.timeline.ledger import Ledger

_NOT_JUDGED: Final = 3
_SUSPECTS: Final = 2
_FOLLOWERS: Final = 4
_RESTART_S: Final = 600.0
"""What a restart is taken to cost: loading, compiling and the work since the last checkpoint."""
_AGAINST_WAITS: Final = {
    Cause.IDLE_HOST: NEXT["host-bound"],
    Cause.IDLE_DATA: NEXT["slow data loader"],
    Cause.IDLE_SYNC: "take .item(), .cpu() and synchronize() out of the loop, or call them rarely",
}


_LATE_HOST: Final = "look at what its host does then (py-spy dump), and for other programs on its cores"


def verdict(found: Explanation) -> str:
    """The worst that can be concluded, in one line; after its state, where that is in doubt."""
    one = found.conclusion
    said = _conclusion(found, one.about)
    if one.state in (VerdictState.SUSPECT, VerdictState.NOT_JUDGED):
        said = f"{one.state}: {said}"
    others = [other for other in found.not_judged if other is not one.about]
    if one.state is VerdictState.HEALTHY or not others:
        return said
    return f"{said}; not judged: {', '.join(other.what for other in others[:_NOT_JUDGED])}"


def _conclusion(found: Explanation, about: Any) -> str:  # noqa: PLR0911 - one a kind
    """What was found of one thing."""
    match about:
        case NotJudged():
            return f"{about.what}: {about.why}; give {about.give}"
        case Failure():
            return about.what
        case Hang():
            return _hang(about)
        case Changed():
            return changed_verdict(about)
        case RanksVerdict():
            return _among(found, ranks_verdict(about))
        case Slowdown():
            return _slowdown(about)
        case SideBySide():
            return _gap(found)
        case Finding():
            return about.what
        case JobTraces():
            return _among(found, _one_rank(about.ledger))
        case Judgement():
            return _as_expected(about)
        case Level():
            return level_verdict(about)
    assert isinstance(about, Judged)
    return f"{about.what}: nothing wrong against {about.against}"


def _among(found: Explanation, said: str) -> str:
    """A verdict on ranks with how many of the job there are."""
    traces = found.traces
    assert traces is not None
    count, world = len(traces.ranks) or 1, traces.world_size or 1
    said += f" (ranks assumed from the {traces.ranks_from})" * bool(traces.ranks_from)
    return said if count >= world else f"{said}, seen from {count:,} of {plural(world, 'rank')}"


def _as_expected(said: Judgement) -> str:
    """Of a benchmark that is not slow."""
    _, reached, expected, _ = said.largest
    return (
        f"{said.benchmark.kind} is as fast as {said.machine.name} should be: {rate(reached)} of "
        f"{rate(expected)} busbw"
    )


def why_lines(found: Explanation) -> Iterator[str]:
    """What stands behind the verdict."""
    if found.changed is not None:
        yield from changed_why(found.changed)
        return
    if found.failure is not None:
        yield from _of_failure(found.failure)
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


def _of_failure(failure: Failure) -> Iterator[str]:
    """What its lines mean, and what others say of what followed."""
    yield f"{failure.why} [{Path(failure.where).name}; see {failure.source}]"
    others = [
        f"{one.cause} ({one.count}x{', ' + named_ranks(one.ranks) if one.ranks else ''})"
        for one in failure.followed_by[:_FOLLOWERS]
    ]
    if others:
        yield f"beside it: {', '.join(others)}"


def next_lines(found: Explanation) -> Iterator[str]:
    """What to do or to collect."""
    if found.failure is not None:
        yield found.failure.next
    else:
        yield from (f"give {one.give}" for one in found.not_judged[:_NOT_JUDGED])
    if found.changed is not None and not found.hangs:
        yield from changed_next(found.changed)
        return
    yield from _after_findings(found)
    yield from _priced(found)
    if found.gap is not None and found.against is None and found.gap.named is None:
        yield "no single cause explains the gap: give traces of all ranks, or measure the machine"


def _after_findings(found: Explanation) -> Iterator[str]:
    """What to do about what was found in single files, or in traces."""
    ranks = found.ranks if found.ranks is not None and found.ranks.kind != "clean" else None
    if ranks is not None:
        asleep = ranks.cause is not None and ranks.cause.kind == "host" and ranks.kind == "slow worker"
        yield _LATE_HOST if asleep else ranks.next
        yield from _drained(ranks)
    for slow in found.slowdowns:
        if slow.collect:
            yield "collect " + "; ".join(item.value for item in slow.collect)
    for hang in found.hangs[:1]:
        yield _after_hang(hang)
    if found.traces is not None and ranks is None and found.traces.ledger.on_device:
        cause, share = found.traces.ledger.largest_wait
        if cause in _AGAINST_WAITS:
            yield f"{_AGAINST_WAITS[cause]}; that can gain at most {percent(share)} of the step"
    if found.traces is not None and found.gap is None:
        yield "lay a prediction beside it: --run run.yaml"
    if found.traces is None and found.hangs == () and found.failure is None and found.findings:
        yield found.findings[0].next
    elif found.state is VerdictState.HEALTHY and found.benchmarks.collectives:
        yield "keep the output as the good day: explain NEW --against THIS shows what changed"


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
    few = len(found.skew.wait_s) < FEW_STEPS
    if not found.ranks or found.share <= 0.0 or found.explained < PROVEN or few:
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
    if hang.without_dump:
        absent, several = _ranks_named(hang.without_dump), len(hang.without_dump) > 1
        with_one = plural(len(hang.waiting), "rank")
        return (
            f"hang: {absent} left no dump and {'are' if several else 'is'} the first suspect; "
            f"{what} was issued by all {with_one} with one, and did not end"
        )
    return f"hang: {what} was issued by all ranks and did not end"


def _after_hang(hang: Hang) -> str:
    """Where to look next."""
    if hang.missing or hang.odd:
        return f"look at the line of {_ranks_named(hang.missing or hang.odd)}, and at the log"
    if hang.without_dump:
        return (
            f"look at logs and hosts of {_ranks_named(hang.without_dump)}: is the process there? "
            "dmesg (Xid, out of memory), end of the job in Slurm or Kubernetes"
        )
    return (
        "all ranks came, so data did not move: NCCL_DEBUG=INFO of all ranks, ibstat and Xid errors of their "
        "hosts, and the stacks of all (py-spy dump)"
    )


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


_OTHERS: Final = 5
"""Machines that are named, the first included."""


@published()
@dataclass(frozen=True, slots=True)
class Fact:
    """What one file, or the traces together, say."""

    file: str
    says: str


def file_facts(found: Explanation) -> list[Fact]:
    """What each file is, and what it says in a few words."""
    return [Fact(*one) for one in file_lines(found)]


def file_lines(found: Explanation) -> Iterator[tuple[str, str]]:
    """What each file is, and what it says in a few words."""
    if found.traces is not None:
        yield "traces", _traces(found.traces)
    if found.against is not None:
        yield "against", _traces(found.against)
    for files in found.read.values():
        yield from ((one.path.name, one.says) for one in files)
    for topology, machine in found.topologies:
        likely = found.likely.get(topology.source, ())
        yield Path(topology.source).name, _topology(topology, machine, likely)
    guess = found.benchmarks.recognised
    if guess is not None:
        names = [machine.name for machine in guess.machines]
        yield "machine", f"taken for {_one_of(names)}: {', '.join(guess.evidence)}"


def _traces(job: JobTraces) -> str:
    ranks = plural(len(job.ranks) or 1, "rank")
    of = f" of {job.world_size:,}" if job.world_size else ""
    device = f" on {job.device}" if job.device else ""
    assumed = f"; ranks assumed from the {job.ranks_from}" * bool(job.ranks_from)
    told = "" if job.ledger.found_by == "marks" else f", found by {job.ledger.found_by}"
    return f"{ranks}{of}{device}; {plural(len(job.ledger.steps), 'step')}{told}{assumed}"


def _topology(
    topology: HostTopology, machine: Cluster | None, likely: Sequence[tuple[str, list[str]]]
) -> str:
    counts = {"GPU": topology.gpus, "NIC": topology.nics, "NUMA node": topology.numa_nodes}
    found = ", ".join(plural(len(all_), one) for one, all_ in counts.items() if all_)
    against = f"; checked against {machine.name}" if machine is not None else ""
    if likely:
        alike = [name for name, reasons in likely if len(reasons) == len(likely[0][1])]
        against = f"; taken for {_one_of(alike)} ({', '.join(likely[0][1])})"
    return f"{topology.format}: {found}{against}"


def _one_of(names: Sequence[str]) -> str:
    """The first, and those that fit as well."""
    others = ", ".join(names[1:_OTHERS]) + (", ..." if len(names) > _OTHERS else "")
    return f"{names[0]} (or {others})" if len(names) > 1 else names[0]


_FINDINGS: Final = 6
_FILES: Final = 12
_PROBLEMS: Final = 3
_LEAST: Final = 0.005
"""Share of a step from which a cause has a line."""


def explanation_view(found: Explanation) -> View:
    """All of it."""
    files = [plural(count, kind) for kind, count in found.files.items()]
    blocks = [
        Verdict((verdict(found),)),
        *table(("file", "says"), _first(list(file_lines(found)), _FILES), words=2, label="Files"),
        *_seconds(found),
        *_ranks(found),
        *_benchmarks(found.benchmarks),
        *log_blocks(found.levels),
        *_memory(found.memory),
        *_labelled("Judged", [f"{one.what}, against {one.against}" for one in found.judged[:_FILES]]),
        *_labelled("Why", list(why_lines(found))),
        *_findings(found.findings),
        *_labelled("Next", list(next_lines(found))),
        *_not_read(found),
    ]
    return View(", ".join(files), tuple(blocks))


def _benchmarks(found: MachineCheck) -> list[Block]:
    """What each reached at its largest size, beside what the machine should give."""
    rows = []
    for one in found.collectives[:_FILES]:
        size, reached, expected, least = one.largest
        said = "slow" if one.is_slow else "unsteady" if one.is_unsteady else "as expected"
        said = said if one.rate is not None else "too small to tell"
        said = "slow at small sizes" if one.is_late else said
        what = f"{one.benchmark.kind}, {plural(one.benchmark.ranks, 'rank')}"
        rows.append((what, byte_size(size), rate(reached), rate(expected), rate(least), said))
    for gemm in found.gemms[:_FILES]:
        at_best = flops_text(gemm.flop_per_s), flops_text(gemm.expected_flop_per_s)
        said = "slow" if gemm.is_slow else "as expected"
        rows.append((f"GEMM, {plural(gemm.count, 'shape')}", "", *at_best, "", said))
    head = ("benchmark", "size", "busbw", "expected", "at least", "")
    return table(head, rows) if rows else []


_HOLDERS: Final = 6
_LONGEST_LINE: Final = 60
_LEAST_PHASE: Final = 0.005
"""Share from which a phase has a line."""


def _memory(devices: Sequence[DeviceMemory]) -> list[Block]:
    """What holds most of each GPU at its worst moment: by line, and by what was being done there."""
    blocks: list[Block] = []
    for one in devices:
        who = f"GPU {one.device} at {'the failure' if one.refusal else 'the peak'}"
        who += f" of {Path(one.source).name}" * (len({other.source for other in devices}) > 1)
        blocks += table((who, "GiB", "share", "blocks", "allocated in"), _by_line(one))
        blocks += table(("allocated in", "GiB", "share"), _by_phase(one))
    return blocks


def _by_line(one: DeviceMemory) -> Iterator[tuple[str, ...]]:
    for holder in one.holders[:_HOLDERS]:
        line = holder.line or "(no line of Python)"
        short = line if len(line) <= _LONGEST_LINE else f"...{line[3 - _LONGEST_LINE :]}"
        yield short, *_amount(holder.held_bytes, one), f"{holder.blocks:,}", holder.phase
    if rest := one.held_bytes - sum(holder.held_bytes for holder in one.holders[:_HOLDERS]):
        yield "other lines", *_amount(rest, one), "", ""


def _by_phase(one: DeviceMemory) -> Iterator[tuple[str, ...]]:
    for phase, count in one.phases.items():
        if count >= _LEAST_PHASE * one.held_bytes:
            yield phase, *_amount(count, one)
    yield "reserved, not in use", f"{one.unused_bytes / 2**30:.2f}", ""


def _amount(count: float, one: DeviceMemory) -> tuple[str, str]:
    return f"{count / 2**30:.2f}", percent(count / one.held_bytes) if one.held_bytes else ""


def _first(rows: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most so many `rows`, and how many there are besides."""
    more = len(rows) - most
    return [*rows[:most], *([("...", f"and {more} more: --json lists all")] if more > 0 else [])]


def _seconds(found: Explanation) -> list[Block]:
    """Two ledgers side by side, or the one of a rank."""
    if found.gap is not None:
        names = ("against", "now") if found.against is not None else ("predicted", "measured")
        return _gap_blocks(found.gap, names)
    if found.traces is None:
        return []
    measured = found.traces.ledger
    who = "" if found.traces.rank is None else f" of rank {found.traces.rank}"
    title, least = f"where the time{who} goes", _LEAST * measured.step_s
    return [ledger(title, measured.ledger, least=least, total="mean step")]


def _ranks(found: Explanation) -> list[Block]:
    """The ranks in pictures, which a terminal does without."""
    if found.traces is None or found.ranks is None:
        return []
    steps = rank_steps(found.traces.summaries, found.ranks.ranks)
    if steps is None:
        return []
    caption = "own time of each rank and step, above the median of the ranks"
    figures: list[Block] = [Figure(lambda: rank_heat(steps), caption)]
    if steps.lanes:
        caption = f"step {steps.step} in time, clocks of the ranks brought together"
        figures.append(Figure(lambda: rank_lanes(steps), caption))
    return figures


def _gap_blocks(gap: SideBySide, names: tuple[str, str]) -> list[Block]:
    rows = [
        (
            str(one.cause),
            duration(one.first_s),
            duration(one.second_s),
            signed(one.gap_s),
            percent(one.gap_s / gap.gap_s) if gap.gap_s else "",
        )
        for one in gap.gaps
    ]
    rows.append(("step", duration(gap.first_s), duration(gap.second_s), signed(gap.gap_s), ""))
    head = ("a step", *names, "difference", "of the gap")
    return table(head, rows, strong=frozenset({len(gap.gaps)}))


def _labelled(label: str, lines: list[str]) -> list[Block]:
    return [Lines(label, tuple(lines))] if lines else []


def _findings(findings: Sequence[Finding]) -> list[Block]:
    """The worst: what, how much it costs, why, what to do, and where it was seen."""
    rows: list[tuple[str, str]] = []
    for one in findings:
        cost = f" ({one.slowdown:.2f} times slower)" if one.slowdown else ""
        where = Path(one.where).name
        rows.append((one.severity, f"{one.what}{cost}: {one.why}; {one.next} [{where}]"))
    return table(("", "found"), _first(rows, _FINDINGS), words=2, label="Found")


def _not_read(found: Explanation) -> list[Block]:
    if not found.problems:
        return []
    more = len(found.problems) - _PROBLEMS
    said = "; ".join(map(str, found.problems[:_PROBLEMS])) + (f" and {more} more" * (more > 0))
    return [Lines("Not read", (said,), is_quiet=True)]
