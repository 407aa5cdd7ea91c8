"""All benchmarks among a user's files, judged on one machine.

Holds `MachineCheck`, `check_machine` and `tables_of`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncwall.describe import Cluster
from syncwall.explain.benchmarks.collective import (
    UNPRICED,
    CollectiveBenchmark,
    of_measured,
    of_nccl_tests,
)
from syncwall.explain.benchmarks.findings import (
    collective_findings,
    gemm_findings,
    judge_collectives,
    told_by_log,
)
from syncwall.explain.benchmarks.judged import Judgement
from syncwall.explain.benchmarks.kernels import GemmJudgement, judged_gemms
from syncwall.explain.benchmarks.links import link_findings, suspect_findings
from syncwall.explain.finding import Finding
from syncwall.explain.machines import Recognised, Sighting, recognised
from syncwall.read.detect import FileKind


@dataclass(frozen=True)
class MachineCheck:
    """What benchmarks reached, beside what the machine should give."""

    collectives: tuple[Judgement, ...] = ()
    gemms: tuple[GemmJudgement, ...] = ()
    recognised: Recognised | None = None
    """What the machine was taken for; None if it was named, or nothing fits."""
    findings: tuple[Finding, ...] = ()


Files = Mapping[str, Sequence[Any]]


def check_machine(read: Files, machine: Cluster | None, seen: Sequence[Sighting]) -> MachineCheck:
    """Every benchmark of `read` on `machine`, or on what the files were seen to be from."""
    tables = tables_of(read)
    guess = None if machine is not None or not tables else _guess(tables, seen)
    machines = (machine,) if machine is not None else guess.machines if guess else ()
    collectives = judge_collectives(tables, machines)
    logs = [one.what for one in read.get(FileKind.NCCL_LOG, ())]
    if len(logs) == 1:
        collectives = tuple(told_by_log(said, logs[0]) for said in collectives)
    gemms = tuple(_gemms(read, machines))
    found = [*_findings(read, machines, collectives, gemms)]
    if tables and not machines:
        found.append(_unknown(tables[0]))
    return MachineCheck(collectives, gemms, guess, tuple(found))


def _findings(
    read: Files,
    machines: Sequence[Cluster],
    collectives: Sequence[Judgement],
    gemms: Sequence[GemmJudgement],
) -> Iterator[Finding]:
    for said in collectives:
        yield from collective_findings(said, machines)
    for gemm in gemms:
        yield from gemm_findings(gemm)
    rates = [
        one.what for kind in (FileKind.IPERF3, FileKind.PERFTEST) for one in read.get(kind, ())
    ]
    yield from link_findings(rates, machines[0] if len(machines) == 1 else None)
    for one in read.get(FileKind.MEASURED, ()):
        yield from suspect_findings(one.what)
    yield from _untold(read)


def tables_of(read: Files) -> list[CollectiveBenchmark]:
    """Every benchmark of a collective that says what it is."""
    return list(_tables(read))


def _tables(read: Files) -> Iterator[CollectiveBenchmark]:
    for one in read.get(FileKind.NCCL_TESTS, ()):
        if (table := of_nccl_tests(one.what)) is not None:
            yield table
    for one in read.get(FileKind.MEASURED, ()):
        yield from of_measured(one.what.times)


def _untold(read: Files) -> Iterator[Finding]:
    """Outputs of nccl-tests that do not say what was measured."""
    for one in read.get(FileKind.NCCL_TESTS, ()):
        if of_nccl_tests(one.what) is None and one.what.collective not in UNPRICED:
            yield Finding(
                "note",
                "the output does not say which collective it is, or of how many ranks",
                "it was not judged",
                "give the whole output of nccl-tests, header included, and call the file after the "
                "collective: all_gather.txt",
                one.what.source,
            )


def _gemms(read: Files, machines: Sequence[Cluster]) -> Iterator[GemmJudgement]:
    if len({machine.device.name for machine in machines}) != 1:
        return
    for one in read.get(FileKind.MEASURED, ()):
        said = judged_gemms(one.what.times.gemm, machines[0].device, one.what.source)
        if said is not None:
            yield said


def _guess(tables: Sequence[CollectiveBenchmark], seen: Sequence[Sighting]) -> Recognised | None:
    """Machines with room for the largest table."""
    nodes = max(table.nodes or 1 for table in tables)
    each = max(-(-table.ranks // (table.nodes or 1)) for table in tables)
    return recognised(seen, each, nodes)


def _unknown(table: CollectiveBenchmark) -> Finding:
    return Finding(
        "note",
        f"{table.kind} of {table.ranks} ranks was not judged: no machine is known",
        "the file names no GPU of the catalogue, or no machine of the catalogue has so many",
        "name it: --cluster dgx-h100 (syncwall show clusters lists them)",
        table.source,
    )
