"""What files are and say, a line for each that was read.

Holds `file_lines`.
"""

from collections.abc import Iterator
from pathlib import Path

from syncwall.describe import Cluster
from syncwall.explain.answer import Explanation
from syncwall.explain.traces.job_traces import JobTraces
from syncwall.read.topology import HostTopology
from syncwall.show.numbers import plural


def file_lines(found: Explanation) -> Iterator[tuple[str, str]]:
    """What each file is, and what it says in a few words."""
    if found.traces is not None:
        yield "traces", _traces(found.traces)
    if found.against is not None:
        yield "against", _traces(found.against)
    for files in found.read.values():
        yield from ((one.path.name, one.says) for one in files)
    for topology, machine in found.topologies:
        yield Path(topology.source).name, _topology(topology, machine, found.machine_guessed)


def _traces(job: JobTraces) -> str:
    ranks = plural(len(job.ranks) or 1, "rank")
    of = f" of {job.world_size:,}" if job.world_size else ""
    device = f" on {job.device}" if job.device else ""
    told = "" if job.ledger.found_by == "marks" else f", found by {job.ledger.found_by}"
    return f"{ranks}{of}{device}; {plural(len(job.ledger.steps), 'step')}{told}"


def _topology(topology: HostTopology, machine: Cluster | None, guessed: bool) -> str:
    counts = {"GPU": topology.gpus, "NIC": topology.nics, "NUMA node": topology.numa_nodes}
    found = ", ".join(plural(len(all_), one) for one, all_ in counts.items() if all_)
    how = "taken for" if guessed else "checked against"
    against = f"; {how} {machine.name}" if machine is not None else ""
    return f"{topology.format}: {found}{against}"
