"""Everything that can be concluded from an explanation, the worst first.

Holds `verdicts`. Whatever was read has at least one: a file of which nothing was compared with
anything is not judged, with the reason and what to give.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from syncwall.answer.gap import Gap
from syncwall.cause import Cause
from syncwall.explain.answer import Explanation
from syncwall.explain.collective_benchmarks import UNPRICED, Judgement, of_nccl_tests
from syncwall.explain.failures import Failure, gib
from syncwall.explain.logs import blocking
from syncwall.explain.readers import readers
from syncwall.explain.series import FEWEST
from syncwall.explain.stragglers import Slowdown
from syncwall.explain.traces.job_traces import JobTraces
from syncwall.explain.traces.rank_comparison import RanksVerdict
from syncwall.explain.training_level import Level
from syncwall.explain.verdict import COSTLY, FEW_STEPS, PROVEN, Judged, NotJudged, Verdict, VerdictState
from syncwall.read.detect import FileKind
from syncwall.units import plural

_ORDER: Final = tuple(VerdictState)
"""The first that holds is the state of several together."""


def verdicts(found: Explanation) -> tuple[Verdict, ...]:
    """Everything that can be concluded, the worst first."""
    every = list(_verdicts(found)) or [_nothing_judged(found)]
    return tuple(sorted(every, key=lambda one: _ORDER.index(one.state)))


def _verdicts(found: Explanation) -> Iterator[Verdict]:
    if found.failure is not None and (found.failure.cause != _HANG or not found.hangs):
        yield from _of_failure(found.failure)
    yield from _of_dumps(found)
    yield from (Verdict(VerdictState.NOT_JUDGED, one) for one in found.empty)
    if found.changed is not None:
        yield from _of_change(found)
        return
    if found.traces is not None:
        yield from _of_traces(found, found.traces)
    yield from map(_of_operations, found.slowdowns)
    yield from _of_findings(found)
    yield from _of_memory(found)
    yield from _of_benchmarks(found)
    for level in found.levels:
        yield from _of_log(level, found)
    yield from _of_checks(found)
    yield from _of_settings(found)
    yield from _of_others(found)


_HANG: Final = "collective time-out"
"""What dumps tell better."""


def _of_failure(failure: Failure) -> Iterator[Verdict]:
    judged = (Judged(plural(failure.lines, "line") + " of logs", "messages of known failures"),)
    yield Verdict(_STATES[failure.state], failure, judged, failure.cause)
    if failure.cause == _HANG and not failure.silent:
        why = "the ranks that waited say nothing of those that did not come"
        give = "the logs of all ranks, or flight-recorder dumps (TORCH_FR_BUFFER_SIZE=2000)"
        yield _unjudged("which rank is missing", why, give)


def _of_memory(found: Explanation) -> Iterator[Verdict]:
    """Memory that ran out has a finding; a snapshot without that says no size of the GPU."""
    for one in found.memory:
        if one.refusal is None:
            why = "no allocation failed in what it records, and it does not say how much the GPU has"
            give = "one that is dumped where memory runs out (in except torch.OutOfMemoryError)"
            yield _unjudged(f"a peak of {gib(one.held_bytes)} on GPU {one.device}", why, give, one.source)


_PASSED: Final = 4
_EXPECTED: Final = {
    "ibstat": "Active and LinkUp",
    "ibstatus": "Active and LinkUp",
    "dcgmi diag": "Pass",
    "nvidia-smi -q": "no slowdown by the hardware, no uncorrected error",
}


def _of_checks(found: Explanation) -> Iterator[Verdict]:
    """Checks without a fault; faults have findings, which are verdicts already."""
    for one in found.read.get(FileKind.NODE_CHECK, ()):
        check = one.what
        if check.passed and not check.faults:
            more = ", ..." * (len(check.passed) > _PASSED)
            expected = "; ".join(dict.fromkeys(_EXPECTED[tool] for tool in check.tool.split(", ")))
            judged = Judged(f"{', '.join(check.passed[:_PASSED])}{more}", f"{check.tool}: {expected}")
            yield Verdict(VerdictState.HEALTHY, judged, (judged,))
        if check.screen and not check.faults:
            why = "one moment tells neither speed nor health: a kernel that waits counts as busy, too"
            give = "a training log or a trace of the job; nvidia-smi -q for clocks and memory errors"
            yield _unjudged("the table of nvidia-smi", why, give, check.source)
        elif not check.passed and not check.faults:
            why = f"nothing was tested: {', '.join(check.skipped[:4]) or 'no results'}"
            yield _unjudged(
                check.tool, why, "the output of dcgmi diag -r 3 as root on an idle node", check.source
            )


def _of_dumps(found: Explanation) -> Iterator[Verdict]:
    dumps = [one.what for one in found.read.get(FileKind.FLIGHT, ())]
    if not dumps:
        return
    for hang in found.hangs:
        cause = "a rank without a dump" if hang.without_dump else hang.kind
        judged = (Judged(f"collectives of group {hang.group}", f"{_ranks(len(dumps))} with a dump"),)
        yield Verdict(VerdictState.WRONG, hang, judged, cause)
    if found.hangs:
        return
    members = {rank for dump in dumps for group in dump.groups.values() for rank in group}
    absent = sorted(members - {dump.rank for dump in dumps})
    if len(dumps) == 1 or absent:
        whose = f"ranks {_listed(absent)}" if absent else "the other ranks"
        why = f"there is no dump of {whose}: where ranks part shows only beside them"
        yield Verdict(
            VerdictState.NOT_JUDGED,
            NotJudged("flight-recorder dumps", why, f"the dumps of {whose}", dumps[0].source),
        )
        return
    entries = sum(len(dump.entries) for dump in dumps)
    whole = Judged(f"{plural(entries, 'recorded collective')} of {_ranks(len(dumps))}", "each other")
    yield Verdict(VerdictState.HEALTHY, whole, (whole,))


def _of_change(found: Explanation) -> Iterator[Verdict]:
    changed = found.changed
    assert changed is not None
    step = changed.difference
    judged = [Judged(one, "the baseline") for one in changed.compared]
    slower = bool(changed.findings) or changed.is_slower
    for kind in changed.not_compared:
        why = "files of this kind are not on both sides, or hold nothing that both have"
        give = "the same kind of file of both days"
        if kind == FileKind.TRACE and found.traces is not None and found.against is not None:
            why = "they are of other ranks than the baseline, which differ on any day"
            give = "the same ranks of both days; or all ranks of one, without --against"
        yield Verdict(VerdictState.NOT_JUDGED, NotJudged(kind, why, give))
    if slower or judged:
        unproven = bool(changed.settings) and step is None and not changed.benchmarks
        state = VerdictState.SUSPECT if unproven else VerdictState.HEALTHY
        state = VerdictState.WRONG if slower else state
        part = step.named[0].kind if step is not None and step.is_changed and step.named else None
        certainty = None if step is None else step.sure
        yield Verdict(state, changed, tuple(judged), part, certainty=certainty)


def _of_traces(found: Explanation, traces: JobTraces) -> Iterator[Verdict]:
    ranks, ledger = traces.verdict, traces.ledger
    if found.gap is not None and found.predicted is not None:
        yield _of_gap(found)
    if ranks is not None:
        yield _of_ranks(ranks, traces)
        return
    if ledger.found_by == "whole trace":
        why = "no step is marked in it and no optimizer or period tells them"
        give = "call profiler.step() after each step, and record three steps or more"
        yield _unjudged("the trace", why, give)
        return
    largest, share = ledger.largest_wait
    steps = len(ledger.steps)
    several = (traces.world_size or 1) > 1
    alone = f"rank {traces.rank or 0} alone"
    others = f"the traces of the other ranks ({_of_all(traces)} is here)"
    judged = (Judged(f"{plural(steps, 'step')} of {_of_all(traces)}", "a step without waiting"),)
    if largest is not None and several and largest.is_exposed:
        why = f"{largest} takes {share:.0%} of the step, in which it may wait for a slower rank"
        yield _unjudged(alone, why, others)
    elif largest is Cause.IDLE_HOST and not ledger.on_device:
        why = f"nothing was recorded for {share:.0%} of the step: what the host does there is not known"
        give = "a trace with the device (ProfilerActivity.CUDA) and with_stack=True"
        yield _unjudged("the trace", why, give)
    elif largest is not None:
        proven = share >= COSTLY and steps >= FEW_STEPS and largest is not Cause.UNEXPLAINED
        state = VerdictState.WRONG if proven else VerdictState.SUSPECT
        yield Verdict(state, traces, judged, str(largest), share)
    elif several:
        yield _unjudged(alone, "it does not wait: it may be the one that others wait for", others)
    elif steps == 1:
        yield _unjudged("the trace", "one step may be like no other", "a trace of five steps or more")
    else:
        yield Verdict(VerdictState.HEALTHY, traces, judged, explained=share)


def _of_gap(found: Explanation) -> Verdict:
    gap, predicted = found.gap, found.predicted
    assert gap is not None
    assert predicted is not None
    low, high = predicted.step_interval_s
    state = VerdictState.HEALTHY
    if gap.second_s > high:
        state = VerdictState.WRONG
    elif gap.second_s < low:
        state = VerdictState.SUSPECT
    judged = Judged(f"a step of {gap.second_s:.3g} s", f"predicted {low:.3g} to {high:.3g} s")
    named = gap.named
    return Verdict(state, gap, (judged,), None if named is None else named.cause)


def _of_ranks(ranks: RanksVerdict, traces: JobTraces) -> Verdict:
    steps = len(ranks.skew.wait_s)
    judged = (Judged(f"{plural(steps, 'step')} of {_of_all(traces)}", "each other"),)
    if ranks.kind == "clean":
        if len(traces.ranks) < (traces.world_size or 1):
            why = "none of them waits for another of them; the ranks that are missing may be slow"
            return _unjudged(_of_all(traces), why, "the traces of the other ranks")
        if steps == 1:
            return _unjudged(_of_all(traces), "one step may be like no other", "traces of five steps or more")
        return Verdict(VerdictState.HEALTHY, ranks, judged)
    proven = ranks.explained >= PROVEN and steps >= FEW_STEPS and ranks.kind != "unexplained"
    state = VerdictState.WRONG if proven else VerdictState.SUSPECT
    return Verdict(state, ranks, judged, ranks.kind, ranks.explained)


def _of_operations(found: Slowdown) -> Verdict:
    workers = found.dp * found.stages
    if workers == 1 or (found.steps == 1 and not found.slow):
        what = f"{plural(found.operations, 'operation')} of {plural(workers, 'worker')}"
        why = "one worker is slower than nobody" if workers == 1 else "one step may be like no other"
        return _unjudged(what, why, "the operations of all workers in five steps or more", found.source)
    proven = found.cause is not None and found.steps >= FEW_STEPS
    slow = VerdictState.WRONG if proven else VerdictState.SUSPECT
    judged = (Judged(f"{plural(found.operations, 'operation')}", "the mean of their kind"),)
    cause = None if found.cause is None else found.cause
    return Verdict(
        slow if found.slow else VerdictState.HEALTHY,
        found,
        judged,
        None if cause is None else str(cause.what),
        None if cause is None else min(cause.share, 1.0),
    )


_STATES: Final = {"wrong": VerdictState.WRONG, "suspect": VerdictState.SUSPECT}


def _of_findings(found: Explanation) -> Iterator[Verdict]:
    """What is wrong or suspect; not what a benchmark of the same hosts shows to cost nothing."""
    across = any(
        (said.benchmark.nodes or 1) > 1 and said.rate is not None and not said.is_slow and not said.slow_on
        for said in found.benchmarks.collectives
    )
    logs = {str(one.path) for one in found.read.get(FileKind.NCCL_LOG, ())}
    for finding in found.findings:
        if finding.severity == "note":
            continue
        harmless = across and finding.severity == "suspect" and finding.where.rpartition(":")[0] in logs
        if not harmless:
            yield Verdict(_STATES[finding.severity], finding, cause=finding.cause or finding.what)


def _of_benchmarks(found: Explanation) -> Iterator[Verdict]:
    """Benchmarks beside their machine; slow ones have a finding, which is a verdict already."""
    checked = found.benchmarks
    for said in checked.collectives:
        if not (said.is_slow or said.is_unsteady or said.is_late):
            yield _of_collective(said)
    for gemm in checked.gemms:
        if not gemm.is_slow:
            judged = Judged(plural(gemm.count, "large matrix product"), f"other {gemm.device}")
            yield Verdict(VerdictState.HEALTHY, judged, (judged,))
    timed = {said.benchmark.source for said in checked.collectives}
    for one in found.read.get(FileKind.NCCL_TESTS, ()):
        run = one.what
        if run.source in timed:
            continue
        table = of_nccl_tests(run)
        if run.collective in UNPRICED:
            yield _unjudged(
                run.collective, "no cost model of it", "all_reduce_perf of the same ranks", run.source
            )
        elif table is None:
            why = "the output does not say which collective it is, or of how many ranks"
            yield _unjudged("a benchmark", why, "the whole output, header included", run.source)
        else:
            machine = found.machine
            why = f"{machine.name} has no room for so many ranks" if machine else "no machine is known"
            yield _unjudged(f"{table.kind} of {_ranks(table.ranks)}", why, _NAME_IT, run.source)
    for one in found.read.get(FileKind.MEASURED, ()):
        if one.what.times.knobs and not (checked.collectives or checked.gemms):
            yield _unjudged(one.says, "no machine is known", _NAME_IT, one.what.source)
    yield from _of_links(found)


_NAME_IT: Final = "the cluster: --cluster dgx-h100 (syncwall show clusters lists them)"


def _of_collective(said: Judgement) -> Verdict:
    """Of one that is not slow on the machine that speaks best for it."""
    table, source = said.benchmark, said.benchmark.source
    what = f"{table.kind} of {_ranks(table.ranks)}"
    if said.slow_on:
        others = " and ".join(said.slow_on[:3])
        why = f"as fast as {said.machine.name} should be, slow for {others}: it may be either"
        return _unjudged(what, why, f"the cluster: --cluster {said.slow_on[0]}", source)
    if said.rate is None:
        why = "all sizes are too small to tell the rate of links"
        return _unjudged(what, why, "larger sizes: -b 8 -e 8G -f 2", source)
    assert said.judged_bytes is not None
    sizes = " to ".join(f"{size / 2**20:,.0f} MiB" for size in said.judged_bytes)
    judged = Judged(f"{what}, {sizes}", f"{said.machine.name} of the catalogue")
    return Verdict(VerdictState.HEALTHY, said, (judged,))


def _nothing_judged(found: Explanation) -> Verdict:
    """Of files of which no rule, machine or other file says anything."""
    give = f"{_NAME_IT}, or traces, logs or benchmarks of the job"
    return _unjudged(", ".join(found.files), "nothing in them was compared with anything", give)


def _of_links(found: Explanation) -> Iterator[Verdict]:
    rates = [one.what for kind in (FileKind.IPERF3, FileKind.PERFTEST) for one in found.read.get(kind, ())]
    measured = [one.what for one in found.read.get(FileKind.MEASURED, ()) if one.what.links]
    wrong = {finding.where for finding in found.findings if finding.severity == "wrong"}
    machine = found.machine
    for one in rates:
        if machine is None or machine.node.nics is None:
            why = "nobody said what the adapters should reach"
            yield _unjudged(f"{one.tool} {one.who}", why, _NAME_IT, one.source)
        elif one.source not in wrong:
            judged = Judged(f"{one.tool} {one.who}", f"adapters of {machine.name}")
            yield Verdict(VerdictState.HEALTHY, judged, (judged,))
    for one in measured:
        if one.source not in wrong:
            judged = Judged(plural(len(one.links), "link"), "each other")
            yield Verdict(VerdictState.HEALTHY, judged, (judged,))


def _unjudged(what: str, why: str, give: str, file: str = "") -> Verdict:
    return Verdict(VerdictState.NOT_JUDGED, NotJudged(what, why, give, file))


def _of_log(level: Level, found: Explanation) -> Iterator[Verdict]:
    """The level of a training log beside a prediction, and its steps beside their own median."""
    log = level.figures
    if level.gap is None:
        yield _unjudged(f"the level of {log.speed}", level.why, level.give, log.source)
    else:
        yield _of_level(level, level.gap)
    count = log.lines - log.warm_up
    steps = f"{plural(count, 'line')} of {log.framework}"
    if count < FEWEST:
        why = f"nothing is usual in so few: {FEWEST} are needed, better 50"
        yield _unjudged(f"the course of {steps}", why, "a longer piece of the log", log.source)
    elif not any(one.where.startswith(log.source) and one.severity != "note" for one in found.findings):
        judged = Judged(steps, "their own median")
        yield Verdict(VerdictState.HEALTHY, judged, (judged,))


def _of_level(level: Level, gap: Gap) -> Verdict:
    low, high = gap.predicted.step_interval_s
    judged = (Judged(f"a step of {gap.measured_s:.3g} s", f"predicted {low:.3g} to {high:.3g} s"),)
    if low <= gap.measured_s <= high:
        return Verdict(VerdictState.HEALTHY, level, judged)
    slow = gap.measured_s > high and gap.is_wrong
    state = VerdictState.WRONG if slow else VerdictState.SUSPECT
    cause = next((one for one in gap.suspects if one.explained >= PROVEN), None)
    if cause is None:
        return Verdict(state, level, judged)
    return Verdict(state, level, judged, cause.what, min(cause.explained, 1.0), cause.probability)


def _of_settings(found: Explanation) -> Iterator[Verdict]:
    """Files that rules go through, healthy if none applies; and topologies beside their machine."""
    where = {finding.where.partition(":")[0] for finding in found.findings if finding.severity != "note"}
    for kind, files in found.read.items():
        rules = kind not in _JUDGED and readers()[kind].findings is not None
        for one in files if rules else ():
            says_enough, why, give = _NEEDS.get(kind, (bool, "", ""))
            if not says_enough(one.what) and str(one.path) not in where:
                yield _unjudged(f"{kind} {one.path.name}", why, give, str(one.path))
            elif str(one.path) not in where:
                judged = Judged(f"{kind} {one.path.name}", "rules of what costs speed")
                yield Verdict(VerdictState.HEALTHY, judged, (judged,))
    for topology, machine in found.topologies:
        name = f"topology {Path(topology.source).name}"
        if machine is None or not topology.gpus or (found.machine is None and len(topology.gpus) == 1):
            why = "no machine of the catalogue has such hosts"
            why = why if len(topology.gpus) > 1 else "it has no two GPUs with a way to each other"
            yield _unjudged(name, why, _NAME_IT, topology.source)
        elif topology.source not in where:
            judged = Judged(name, f"{machine.name} of the catalogue")
            yield Verdict(VerdictState.HEALTHY, judged, (judged,))


_NEEDS: Final[dict[str, tuple[Callable[[Any], bool], str, str]]] = {
    FileKind.NCCL_LOG: (
        lambda log: bool(log.transports),
        "it names no connection between ranks",
        "the log from its start, of all ranks, with NCCL_DEBUG=INFO",
    ),
    FileKind.FABRIC: (
        lambda fabric: len(fabric.cables) > 1,
        "it has no two cables, which could be compared",
        "the output of ibnetdiscover for the whole fabric",
    ),
    FileKind.NSYS: (
        lambda stats: blocking(stats) is not None,
        "it has no times of launches and kernels beside those of steps",
        "nsys stats --report nvtx_sum,cuda_api_sum,cuda_gpu_kern_sum",
    ),
}
"""What a file must hold for its rules to say anything: a test of it, why not, and what to give."""
_JUDGED: Final = (
    FileKind.OPERATIONS,
    FileKind.FLIGHT,
    FileKind.MEMORY,
    FileKind.NCCL_TESTS,
    FileKind.IPERF3,
    FileKind.PERFTEST,
    FileKind.TRAINING_LOG,
    FileKind.NODE_CHECK,
    FileKind.FAILURE,
)
"""Kinds with verdicts of their own."""


def _of_others(found: Explanation) -> Iterator[Verdict]:
    """Files that only describe a job, if there is nothing else to judge."""
    for kind, files in found.read.items():
        for one in files if len(found.files) == 1 and readers()[kind].findings is None else ():
            timed = kind == FileKind.MEASURED and (one.what.links or one.what.times.knobs)
            if kind not in _JUDGED and not timed:
                give = "traces, logs or benchmarks of the job that it describes"
                why = "such a file describes a job, and nothing in it is judged"
                yield _unjudged(f"{kind} {one.path.name}", why, give, str(one.path))


def _of_all(traces: JobTraces) -> str:
    """The ranks that there are traces of, and how many the job has."""
    count = len(traces.ranks) or 1
    world = traces.world_size
    if world is None or world <= count:
        return _ranks(count)
    return f"{count:,} of {_ranks(world)}"


def _ranks(count: int) -> str:
    return plural(count, "rank")


def _listed(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:6])) + (", ..." if len(ranks) > 6 else "")
