"""Reports of a large job made short: groups of nodes, one key a group.

Holds `group_size`, `brief`, which leaves out of a node's report what nobody will miss, and
`merged`, which makes one report of those of a group.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import isqrt
from typing import Final

from syncwall.watch.events import GroupReport, NodeReport, Process, RankState
from syncwall.watch.judge_processes import patience_s
from syncwall.watch.thresholds import THRESHOLDS, Thresholds

MOST_NODES: Final = 512
"""That tell the first one everything, each in a key of its own."""
_TOLD_S: Final = 5.0
"""For which a window of steps is told: three reports of a second are between it and its reader."""


def group_size(nodes: int) -> int:
    """Nodes of a group: the root of their number, so that nobody reads many; all of a few."""
    return nodes if nodes <= MOST_NODES else isqrt(nodes - 1) + 1


def brief(report: NodeReport, limits: Thresholds = THRESHOLDS) -> NodeReport:
    """Without ranks that are far from a hang, and without windows that were told before."""
    kept = tuple(one for one in report.ranks if not _is_quiet(one, report.sent_s, limits))
    told = {one.rank for one in kept}
    return replace(
        report, ranks=kept,
        quiet=(*report.quiet, *(one.rank for one in report.ranks if one.rank not in told)),
        windows=tuple(one for one in report.windows if report.sent_s - one.end_s < _TOLD_S),
    )  # fmt: skip


def _is_quiet(one: RankState, now_s: float, limits: Thresholds) -> bool:
    silent_s = now_s - one.phase_since_s
    return one.process is Process.RUNNING and silent_s < patience_s(one, limits) / 2


def merged(
    number: int, reports: Mapping[int, NodeReport], silent_s: Mapping[int, float],
    limits: Thresholds = THRESHOLDS,
) -> GroupReport:  # fmt: skip
    """One report of all nodes of a group; those of which nothing is to be said are put together."""
    silent = {node: s for node, s in silent_s.items() if s > limits.node_silent_s / 2}
    told = {node for node, one in reports.items() if one.ranks or one.findings or node in silent}
    kept = [reports[node] for node in sorted(told)]
    quiet = [one for node, one in sorted(reports.items()) if node not in told]
    if quiet:
        notes = dict.fromkeys(note for one in quiet for note in one.notes)
        kept.append(replace(
            quiet[0], notes=tuple(notes),
            windows=tuple(window for one in quiet for window in one.windows),
            quiet=tuple(rank for one in quiet for rank in one.quiet),
        ))  # fmt: skip
    return GroupReport(number, tuple(kept), silent)
