"""What files say on one screen: verdict, why, next; and as plain data.

Holds `explanation_page`, `explanation_record` and `is_bad`.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall.explain.answer import Explanation
from syncwall.explain.side_by_side import SideBySide
from syncwall.explain.traces import JobTraces
from syncwall.show.explained_files import file_lines
from syncwall.show.explained_words import next_lines, verdict, why_lines
from syncwall.show.ledger_table import ledger_table
from syncwall.show.measurement import duration

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
        "ledger_s": dict(traces.ledger.ledger.items()) if traces else None,
        "hidden_s": dict(traces.ledger.hidden.items()) if traces else None,
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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("  a step")
    for head in (*names, "difference", "of the gap"):
        table.add_column(head, justify="right")
    for one in gap.gaps:
        share = f"{one.gap_s / gap.gap_s:.0%}" if gap.gap_s else ""
        sign = "+" if one.gap_s >= 0 else "−"
        table.add_row(
            f"    {one.cause}", duration(one.first_s), duration(one.second_s),
            f"{sign}{duration(abs(one.gap_s))}", share,
        )  # fmt: skip
    sign = "+" if gap.gap_s >= 0 else "−"
    table.add_row(
        "    step",
        duration(gap.first_s),
        duration(gap.second_s),
        f"{sign}{duration(abs(gap.gap_s))}",
        "",
    )
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
