"""A watched run, at one moment or after its end: verdict, ledger, findings, where every rank
stands.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final

from syncwall.cause import LEAST_SHARE, Cause
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, ledger, sentence, table
from syncwall.show.draw.curves import spark_line, step_chart
from syncwall.show.numbers import duration, percent, plural, signed, span
from syncwall.watch.baseline import Comparison
from syncwall.watch.events import Expectation, Finding, Group, RankState, grouped
from syncwall.watch.job_state import JobStatus
from syncwall.watch.summary import Snapshot, Summary
from syncwall.watch.verdict import Bound, RunVerdict, verdict_at_end, verdict_now


def watch_view(
    found: Summary,
    command: tuple[str, ...] = (),
    code: int = 0,
    compared: Comparison | None = None,
) -> View:
    """What the run was like, and what it was like beside an earlier one."""
    about = f"{plural(found.ranks, 'rank')} of {found.world} watched for {span(found.watched_s)}"
    blocks: list[Block] = [Verdict(tuple(_end_verdict(found, code)), about)]
    if compared is not None:
        said = f"{compared.outcome}: {compared.reason} ({compared.baseline})"
        blocks.append(Lines("Baseline", (sentence(said),)))
    if found.step_s:
        least = LEAST_SHARE * found.step_s
        blocks.append(ledger("Where the time of a step went", found.seconds, least=least))
    blocks += watched_and_predicted(found.seconds, found.step_s, found.expected)
    blocks += _next(verdict_at_end(found))
    blocks += findings_table(found.findings)
    notes = [sentence(note) for note in found.notes]
    if found.lost_marks:
        notes.append(f"{plural(found.lost_marks, 'mark')} came too fast and were not read.")
    if notes:
        blocks.append(Lines("Not told", tuple(notes), is_quiet=True))
    return View(f"Watched: {shlex.join(command) or found.node}", tuple(blocks))


def _end_verdict(found: Summary, code: int) -> Iterator[str]:
    if not found.ranks:
        yield "No training was seen: nothing loaded torch and made an optimizer step"
    elif found.step_s is None:
        yield "No whole step was seen"
    else:
        tokens = f", {found.tokens_per_s:,.0f} tokens/s" if found.tokens_per_s else ""
        yield f"{plural(found.steps, 'step')} of {duration(found.step_s)} each{tokens}"
        if (bound := verdict_at_end(found)) is not None:
            yield str(bound).capitalize()
        if beside := _beside(found):
            yield f"Beside the steps: {beside}"
    if found.findings:
        kinds = dict.fromkeys(str(one.kind) for one in found.findings)
        yield f"{plural(len(found.findings), 'finding')}: {', '.join(kinds)}"
    if code:
        yield f"The command ended with code {code}"


def _beside(found: Summary) -> str:
    """Seconds of a rank that are no part of its steps: "evaluation 5 s, 1 pause of 12 s"."""
    apart = (Cause.CHECKPOINT, Cause.EVALUATION)
    said = [f"{cause} {duration(found.beside_s[cause])}" for cause in apart if found.beside_s.get(cause)]
    paused_s = sum(spent_s for cause, spent_s in found.beside_s.items() if cause not in apart)
    if found.pauses:
        said.append(f"{plural(found.pauses, 'pause')} of {duration(paused_s)} together")
    return ", ".join(said)


def _next(bound: RunVerdict | None) -> list[Block]:
    return [] if bound is None else [Lines("Next", (sentence(bound.next),))]


def watched_and_predicted(
    seconds: Mapping[Cause, float], step_s: float | None, expected: Expectation | None
) -> list[Block]:
    """A watched step beside the predicted one, if there is one."""
    if expected is None or step_s is None:
        return []
    live, predicted = grouped(seconds), grouped(expected.seconds)
    rows = [
        (
            str(group),
            duration(live.get(group, 0.0)),
            duration(predicted.get(group, 0.0)),
            signed(live.get(group, 0.0) - predicted.get(group, 0.0)),
        )
        for group in Group
        if group in live or group in predicted
    ]
    rows.append(("step", duration(step_s), duration(expected.step_s), signed(step_s - expected.step_s)))
    return table(("", "watched", "predicted", "more"), rows, strong=frozenset({len(rows) - 1}))


def findings_table(findings: tuple[Finding, ...]) -> list[Block]:
    """What is or was wrong."""
    rows = [
        (
            str(one.kind),
            "" if one.rank is None else str(one.rank),
            one.node,
            "" if one.since_step is None else f"{one.since_step:,}",
            "" if one.cost_s is None else duration(one.cost_s),
            one.evidence,
        )
        for one in findings
    ]
    head = ("finding", "rank", "node", "since step", "costs a step", "evidence")
    return table(head, rows, ends_in_words=1, texts=("node",), spare=("node", "since step"))


_MOST_RANKS: Final = 32
"""Of a node or of several; what is wrong with others stands among the findings."""


def live_view(found: Snapshot, status: JobStatus) -> View:
    """What is going on, as far as `status` says that this is known."""
    ranks = f"{plural(len(found.ranks), 'rank')} of {found.world} on {found.node}"
    verdict = Verdict(tuple(_live_verdict(found, status)), f"{status.state}, {ranks}")
    blocks: list[Block] = [verdict, *_figures(found, status)]
    if found.step_s:
        least = LEAST_SHARE * found.step_s
        blocks.append(ledger("Where the time of a step goes", found.seconds, least=least))
    blocks += watched_and_predicted(found.seconds, found.step_s, found.expected)
    blocks += _next(verdict_now(found))
    blocks += findings_table(found.findings)
    blocks += _ranks(found, status)
    blocks += _curves(found)
    if found.past:
        past = [f"{one.kind}: {one.evidence}" for one in found.past[-5:]]
        blocks.append(Lines("Past", tuple(map(sentence, past)), is_quiet=True))
    if found.notes:
        blocks.append(Lines("Not told", tuple(map(sentence, found.notes)), is_quiet=True))
    return View(f"Live: {found.name or found.node}", tuple(blocks))


def _live_verdict(found: Snapshot, status: JobStatus) -> Iterator[str]:
    if status.reason:
        yield sentence(status.reason)[:-1]
    elif found.step_s is None:
        yield "The first steps have not been made yet"
    else:
        bound = verdict_now(found)
        if bound is None:
            yield f"Not judged yet: {plural(len(found.steps), 'step')} so far"
            return
        if bound.bound is Bound.COMPUTE:
            yield "Nothing is wrong"
        yield str(bound).capitalize()


def _figures(found: Snapshot, status: JobStatus) -> list[Block]:
    """Numbers that stand out, in one line."""
    parts = []
    if found.step_s:
        step = max((one.step for one in found.ranks), default=0)
        parts.append(f"step {step:,}, {duration(found.step_s)} each")
    if found.tokens_per_s:
        parts.append(f"{found.tokens_per_s:,.0f} tokens/s")
    if found.mfu is not None:
        parts.append(f"MFU {percent(found.mfu, 1)}")
    loss = next((one for one in reversed(found.losses) if one is not None), None)
    if loss is not None:
        parts.append(f"loss {loss:.4g}")
    if found.goodput is not None:
        parts.append(f"goodput {percent(found.goodput, 1)}")
    lines = [" · ".join(parts)] if parts else []
    if status.is_current and found.finish_s is not None and isfinite(found.finish_s[1]):
        low, half, high = found.finish_s
        until = "never" if not isfinite(high) else span(high)
        lines.append(f"done in {span(half)} (P10 {span(low)}, P90 {until})")
    return [Lines("Now" if status.is_current else "Last seen", tuple(lines))] if lines else []


def _ranks(found: Snapshot, status: JobStatus) -> list[Block]:
    shown = sorted(found.ranks, key=_worst_first)[:_MOST_RANKS]
    rows = [
        (
            str(one.rank),
            one.node,
            str(one.process) if status.is_current or one.process.is_over else "unknown",
            one.phase,
            f"{one.step:,}",
            "" if one.step_s is None else duration(one.step_s),
            "" if one.process.is_over else duration(_silence_s(one, found, status)),
        )
        for one in sorted(shown, key=lambda one: one.rank)
    ]
    head = ("rank", "node", "process", "phase", "step", "step time", "last mark ago")
    return table(head, rows, words=4, spare=("last mark ago", "node"))


def _silence_s(one: RankState, found: Snapshot, status: JobStatus) -> float:
    return max(found.now_s - one.phase_since_s, 0.0) + (status.age_s or 0.0)


def _worst_first(one: RankState) -> tuple[bool, float, int]:
    return one.process == "running", one.phase_since_s, one.rank


def _curves(found: Snapshot) -> list[Block]:
    times = list(zip(found.steps, found.steps_s, strict=True))
    losses = [(n, v) for n, v in zip(found.steps, found.losses, strict=True) if _is_number(v)]
    made: list[Block] = []
    if len(times) > 1:
        made.append(_curve(times, "step time", duration))
    if len(losses) > 1:
        made.append(_curve([(n, float(v or 0.0)) for n, v in losses], "loss", "{:.4g}".format))
    return made


def _is_number(value: float | None) -> bool:
    return value is not None and isfinite(value)


def _curve(points: Sequence[tuple[int, float]], name: str, text: Callable[[float], str]) -> Figure:
    drawn = partial(step_chart, points, name, text)
    low, high = min(value for _, value in points), max(value for _, value in points)
    told = f"{name} of the latest {len(points)} steps of the lowest rank"

    def lines(width: int) -> list[str]:
        bar = spark_line([value for _, value in points], max(width - 40, 20))
        return [f"{name:10}{bar}  {text(low)} to {text(high)}"]

    return Figure(drawn, told, lines)
