"""What files are and say, a line for each that was read.

Holds `file_lines`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncwall.describe import Cluster
from syncwall.explain.answer import Explanation
from syncwall.explain.traces.job_traces import JobTraces
from syncwall.public import published
from syncwall.read.topology import HostTopology
from syncwall.show.numbers import plural

_OTHERS: Final = 5
"""Machines that are named, the first included."""


@published()
@dataclass(frozen=True, slots=True)
class Fact:
    """What one file, or the traces together, say."""

    file: str
    says: str


def facts(found: Explanation) -> list[Fact]:
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
    told = "" if job.ledger.found_by == "marks" else f", found by {job.ledger.found_by}"
    return f"{ranks}{of}{device}; {plural(len(job.ledger.steps), 'step')}{told}"


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
