"""What files say on one screen: verdict, why, next; and as plain data.

Holds `explanation_page`, `explanation_record` and `is_bad`. `file_lines`: one line for each file
that was read.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall.describe import Cluster
from syncwall.explain.answer import Explanation
from syncwall.explain.side_by_side import SideBySide
from syncwall.explain.slowdown import Slowdown
from syncwall.explain.traces import JobTraces
from syncwall.read.execution_trace import ExecutionTrace
from syncwall.read.fabric_graph import FabricGraph
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_graph import NcclGraph
from syncwall.read.nccl_tests_json import NcclTests
from syncwall.read.nsys_stats import NsysStats
from syncwall.read.topology import Topology
from syncwall.show.explained_words import next_lines, verdict, why_lines
from syncwall.show.headed import ledger_table, plain_table
from syncwall.show.numbers import duration, signed


def file_lines(found: Explanation) -> Iterator[tuple[str, str]]:
    """What each file is, and what it says in a few words."""
    if found.traces is not None:
        yield "traces", _traces(found.traces)
    if found.against is not None:
        yield "against", _traces(found.against)
    for slowdown in found.slowdowns:
        yield Path(slowdown.source).name, _operations(slowdown)
    for dump in found.dumps:
        who = "?" if dump.rank is None else dump.rank
        yield Path(dump.source).name, f"rank {who}: {len(dump.entries):,} collectives"
    for log in found.logs:
        yield Path(log.source).name, _log(log)
    for topology, machine in found.topologies:
        yield Path(topology.source).name, _topology(topology, machine, found.machine_guessed)
    for other in found.others:
        yield from _other(other)


def _traces(job: JobTraces) -> str:
    ranks = len(job.ranks) or 1
    of = f" of {job.world_size:,}" if job.world_size else ""
    device = f" on {job.device}" if job.device else ""
    steps = len(job.ledger.steps)
    told = "" if job.ledger.found_by == "marks" else f", found by {job.ledger.found_by}"
    return f"{ranks:,} rank{'s' * (ranks > 1)}{of}{device}; {steps} steps{told}"


def _operations(found: Slowdown) -> str:
    ranks = found.dp * found.stages
    return (
        f"{found.operations:,} operations of {ranks} workers (dp {found.dp} x pp {found.stages}) "
        f"in {found.steps} steps"
    )


def _log(log: NcclLog) -> str:
    world = log.world
    size = f"{world.ranks} ranks on {world.nodes or len(log.hosts)} nodes, " if world else ""
    channels = f", {world.coll_channels} channels" if world and world.coll_channels else ""
    ways = ", ".join(log.transports) or "no connections"
    used = f", {len(log.nics_used)} of {len(log.nics)} NICs" if log.nics else ""
    gdr = {True: ", GPUDirect", False: ", no GPUDirect", None: ""}[log.gdr]
    return f"NCCL {log.version or '?'}: {size}{ways}{channels}{used}{gdr}"


def _topology(topology: Topology, machine: Cluster | None, guessed: bool) -> str:
    gpus, nics = len(topology.gpus), len(topology.nics)
    how = "taken for" if guessed else "checked against"
    against = f"; {how} {machine.name}" if machine is not None else ""
    nodes = f", {len(topology.numa_nodes)} NUMA nodes" if topology.numa_nodes else ""
    return f"{topology.format}: {gpus} GPUs, {nics} NICs{nodes}{against}"


def _other(other: object) -> Iterator[tuple[str, str]]:
    if isinstance(other, NcclTests):
        best = max((t.busbw_gb_per_s for row in other.rows if (t := row.out_of_place)), default=0.0)
        name = other.collective or "benchmark"
        ranks = f" on {other.ranks} ranks" if other.ranks else ""
        yield (
            Path(other.source).name,
            f"{name}{ranks}, {len(other.rows)} sizes, at most {best:.1f} GB/s busbw",
        )
    elif isinstance(other, FabricGraph):
        tiers = max(other.tiers.values(), default=0)
        yield (
            Path(other.source).name,
            f"{other.format}: {len(other.switches)} switches in {tiers} tiers, "
            f"{len(other.hosts)} hosts, {len(other.cables)} cables",
        )
    elif isinstance(other, NcclGraph):
        rate = other.intra_bytes_per_s / 1e9
        yield "graph", f"{other.pattern}: {len(other.channels)} channels of {rate:.0f} GB/s"
    elif isinstance(other, NsysStats):
        yield Path(other.source).name, "nsys: " + ", ".join(other.tables)
    elif isinstance(other, ExecutionTrace):
        yield (
            Path(other.source).name,
            f"schema {other.schema}: {other.nodes:,} nodes, {len(other.collectives)} collectives",
        )


_FINDINGS = 6
_FILES = 12
_LEAST = 0.005
"""Share of a step from which a cause has a line."""


def explanation_page(found: Explanation) -> RenderableType:
    """Verdict, files, ledger, findings, why and next."""
    parts: list[RenderableType] = [Text.assemble(("Verdict   ", "bold"), verdict(found)), Text()]
    parts += [_files(found), Text()]
    if found.gap is not None:
        parts += [_gap(found, found.gap), Text()]
    elif found.traces is not None:
        parts += [_ledger(found.traces), Text()]
    parts += _labelled("Why", why_lines(found))
    parts += _findings(found)
    parts += _labelled("Next", next_lines(found))
    if found.problems:
        more = f" and {len(found.problems) - 3} more" if len(found.problems) > 3 else ""
        said = "; ".join(str(problem) for problem in found.problems[:3])
        parts.append(Text(f"Not read  {said}{more}", "dim"))
    return Group(*parts)


def explanation_record(found: Explanation) -> dict[str, Any]:
    """The explanation for `json.dumps`; seconds."""
    traces = found.traces
    ranks = traces.verdict if traces else None
    return {
        "verdict": verdict(found),
        "why": list(why_lines(found)),
        "next": list(next_lines(found)),
        "files": {kind.value: count for kind, count in found.files.items()},
        "facts": [{"file": name, "says": says} for name, says in file_lines(found)],
        "ledger_s": dict(traces.ledger.ledger) if traces else None,
        "hidden_s": traces.ledger.hidden if traces else None,
        "step_s": traces.ledger.step_s if traces else None,
        "ranks": None if ranks is None else {
            "kind": ranks.kind, "ranks": list(ranks.ranks), "hosts": list(ranks.hosts),
            "step_s": ranks.step_s, "lost_s": ranks.lost_s, "explained": ranks.explained,
        },
        "gap": None if found.gap is None else [
            {"cause": gap.cause, "first_s": gap.first_s, "second_s": gap.second_s}
            for gap in found.gap.gaps
        ],
        "slowdowns": [
            {"source": one.source, "total": one.total, "by_kind": dict(one.by_kind),
             "by_stage": dict(one.by_stage), "by_dp_rank": dict(one.by_dp_rank),
             "cause": None if one.cause is None else one.cause.what.value}
            for one in found.slowdowns
        ],
        "hangs": [asdict(hang) for hang in found.hangs],
        "findings": [asdict(finding) for finding in found.findings],
        "problems": [str(problem) for problem in found.problems],
    }  # fmt: skip


def is_bad(found: Explanation) -> bool:
    """True if something is wrong for sure, which is the negative answer of the verb."""
    ranks = found.traces.verdict if found.traces else None
    return bool(
        found.hangs
        or (ranks is not None and ranks.kind != "clean")
        or any(finding.severity == "wrong" for finding in found.findings)
        or any(one.slow for one in found.slowdowns)
    )


def _files(found: Explanation) -> Table:
    table = plain_table()
    lines = list(file_lines(found))
    for name, says in lines[:_FILES]:
        table.add_row(f"  {name}", says)
    if len(lines) > _FILES:
        table.add_row("  ...", f"and {len(lines) - _FILES} more: --json lists all")
    return table


def _ledger(traces: JobTraces) -> Table:
    who = "" if traces.rank is None else f" (rank {traces.rank})"
    title = f"where the time of a step goes{who}"
    return ledger_table(title, traces.ledger.ledger, _LEAST * traces.ledger.step_s)


def _gap(found: Explanation, gap: SideBySide) -> Table:
    names = ("against", "now") if found.against is not None else ("predicted", "measured")
    table = plain_table("  a step", *names, "difference", "of the gap")
    for one in gap.gaps:
        share = f"{one.gap_s / gap.gap_s:.0%}" if gap.gap_s else ""
        times = duration(one.first_s), duration(one.second_s), signed(one.gap_s)
        table.add_row(f"    {one.cause}", *times, share)
    whole = duration(gap.first_s), duration(gap.second_s), signed(gap.gap_s)
    table.add_row("    step", *whole, "")
    return table


def _findings(found: Explanation) -> Iterator[Text]:
    for number, finding in enumerate(found.findings[:_FINDINGS]):
        head = "Found     " if number == 0 else "          "
        cost = f" ({finding.slowdown:.2f} times slower)" if finding.slowdown else ""
        yield Text.assemble((head, "bold"), (f"{finding.severity:<8}", "yellow"),
                            f"{finding.what}{cost}")  # fmt: skip
        yield Text(
            f"                  {finding.why}; {finding.next}  [{Path(finding.where).name}]", "dim"
        )
    if len(found.findings) > _FINDINGS:
        yield Text(f"          and {len(found.findings) - _FINDINGS} more: --json lists all", "dim")


def _labelled(label: str, lines: Iterator[str]) -> list[RenderableType]:
    return [
        Text.assemble((f"{label if number == 0 else '':<10}", "bold"), line)
        for number, line in enumerate(lines)
    ]
