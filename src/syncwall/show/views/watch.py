"""A watched run after its end: verdict, ledger, findings, what could not be told.

Holds `watch_view`; `compared` and `findings_table`, which live views show, too.
"""

import shlex
from collections.abc import Iterator, Mapping

from syncwall.cause import LEAST_SHARE, Cause
from syncwall.show.blocks import Block, Lines, Verdict, View, ledger, sentence, table
from syncwall.show.numbers import duration, plural, signed, span
from syncwall.watch.events import Expectation, Finding, Group, grouped
from syncwall.watch.summary import Summary


def watch_view(found: Summary, command: tuple[str, ...] = (), code: int = 0) -> View:
    """What the run was like."""
    about = f"{plural(found.ranks, 'rank')} of {found.world} watched for {span(found.watched_s)}"
    blocks: list[Block] = [Verdict(tuple(_verdict(found, code)), about)]
    if found.step_s:
        least = LEAST_SHARE * found.step_s
        blocks.append(ledger("Where the time of a step went", found.seconds, least=least))
    blocks += compared(found.seconds, found.step_s, found.expected)
    blocks += findings_table(found.findings)
    notes = [sentence(note) for note in found.notes]
    if found.lost_marks:
        notes.append(f"{plural(found.lost_marks, 'mark')} came too fast and were not read.")
    if notes:
        blocks.append(Lines("Not told", tuple(notes), is_quiet=True))
    return View(f"Watched: {shlex.join(command) or found.node}", tuple(blocks))


def _verdict(found: Summary, code: int) -> Iterator[str]:
    if not found.ranks:
        yield "No training was seen: nothing loaded torch and made an optimizer step"
    elif found.step_s is None:
        yield "No whole step was seen"
    else:
        tokens = f", {found.tokens_per_s:,.0f} tokens/s" if found.tokens_per_s else ""
        yield f"{plural(found.steps, 'step')} of {duration(found.step_s)} each{tokens}"
    if found.findings:
        kinds = dict.fromkeys(str(one.kind) for one in found.findings)
        yield f"{plural(len(found.findings), 'finding')}: {', '.join(kinds)}"
    if code:
        yield f"The command ended with code {code}"


def compared(
    seconds: Mapping[Cause, float], step_s: float | None, expected: Expectation | None
) -> list[Block]:
    """A watched step beside the predicted one, if there is one."""
    if expected is None or step_s is None:
        return []
    live, predicted = grouped(seconds), grouped(expected.seconds)
    rows = [
        (str(group), duration(live.get(group, 0.0)), duration(predicted.get(group, 0.0)),
         signed(live.get(group, 0.0) - predicted.get(group, 0.0)))
        for group in Group
        if group in live or group in predicted
    ]  # fmt: skip
    rows.append((
        "step", duration(step_s), duration(expected.step_s), signed(step_s - expected.step_s)
    ))  # fmt: skip
    return table(("", "watched", "predicted", "more"), rows, strong=frozenset({len(rows) - 1}))


def findings_table(findings: tuple[Finding, ...]) -> list[Block]:
    """What is or was wrong."""
    rows = [
        (str(one.kind), "" if one.rank is None else str(one.rank), one.node,
         "" if one.since_step is None else f"{one.since_step:,}",
         "" if one.cost_s is None else duration(one.cost_s), one.evidence)
        for one in findings
    ]  # fmt: skip
    head = ("finding", "rank", "node", "since step", "costs a step", "evidence")
    return table(head, rows, ends_in_words=1, texts=("node",), spare=("node", "since step"))
