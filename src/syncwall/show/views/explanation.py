"""What files say: verdict, files, ledger or comparison, why, what was found, what to do next.

Holds `explanation_view`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from syncwall.explain.answer import Explanation
from syncwall.explain.benchmarks import MachineCheck
from syncwall.explain.finding import Finding
from syncwall.explain.side_by_side import SideBySide
from syncwall.explain.traces.job_traces import rank_steps
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, ledger, table
from syncwall.show.draw.rank_steps import rank_heat, rank_lanes
from syncwall.show.numbers import byte_size, duration, percent, plural, rate, signed
from syncwall.show.words.explanation import next_lines, verdict, why_lines
from syncwall.show.words.files_read import file_lines
from syncwall.show.words.measurement import flops_text

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
        what = f"{one.benchmark.kind}, {plural(one.benchmark.ranks, 'rank')}"
        rows.append((what, byte_size(size), rate(reached), rate(expected), rate(least), said))
    for gemm in found.gemms[:_FILES]:
        at_best = flops_text(gemm.flop_per_s), flops_text(gemm.expected_flop_per_s)
        said = "slow" if gemm.is_slow else "as expected"
        rows.append((f"GEMM, {plural(gemm.count, 'shape')}", "", *at_best, "", said))
    head = ("benchmark", "size", "busbw", "expected", "at least", "")
    return table(head, rows) if rows else []


def _first(rows: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """At most so many `rows`, and how many there are besides."""
    more = len(rows) - most
    return [*rows[:most], *([("...", f"and {more} more: --json lists all")] if more > 0 else [])]


def _seconds(found: Explanation) -> list[Block]:
    """Two ledgers side by side, or the one of a rank."""
    if found.gap is not None:
        names = ("against", "now") if found.against is not None else ("predicted", "measured")
        return _gap(found.gap, names)
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


def _gap(gap: SideBySide, names: tuple[str, str]) -> list[Block]:
    rows = [
        (str(one.cause), duration(one.first_s), duration(one.second_s), signed(one.gap_s),
         percent(one.gap_s / gap.gap_s) if gap.gap_s else "")
        for one in gap.gaps
    ]  # fmt: skip
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
