"""The page of replays: public threads whose answer is known, and what `explain` says of their excerpts.

Holds `Replay`, `replayed` (one thread, judged by the rule that its file states) and `replays_text`.
"""

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import yaml

import syncwall as sw
from bench import ROOT
from syncwall.explain.verdict import VerdictState
from syncwall.problems import InputError

FOLDER = ROOT / "tests" / "explain" / "replays"
PAGE = ROOT / "docs" / "explanation" / "replays.md"
SCORES = {"hit": 1.0, "half": 0.5, "miss": 0.0}
LONGEST = 200
TITLES = {"miss": "Misses", "half": "Half", "hit": "Hits"}


@dataclass(frozen=True)
class Replay:
    """One thread beside its verdict."""

    thread: str
    answer: str
    judgement: str
    """hit, half or miss."""
    verdict: str
    next: str


def kept(name: str) -> list[dict[str, Any]]:
    """One of the frozen lists: threads, fresh (chosen later, before the rules changed) or first_try."""
    found: list[dict[str, Any]] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def replayed(thread: dict[str, Any]) -> Replay:
    """What is said of an excerpt on standard input, and whether that is what the thread says."""
    pasted = io.TextIOWrapper(io.BytesIO(thread["text"].encode()))
    try:
        with patch.object(sys, "stdin", pasted):
            found = sw.explain("-")
    except InputError as error:
        said = f"not read: {error.problems[0].message}"
        return Replay(thread["thread"], thread["answer"], "miss", said, "")
    cause = found.conclusion.cause or ""
    judgement = judged(thread, found.state, cause, is_sentence=bool(found.findings))
    return Replay(
        thread["thread"], thread["answer"], judgement, str(found.verdict), next(iter(found.next), "")
    )


def judged(thread: dict[str, Any], state: VerdictState, cause: str, *, is_sentence: bool) -> str:
    """hit, half or miss: what the thread's file says of this cause."""
    if thread.get("state") == "healthy":
        return (
            "hit" if state is VerdictState.HEALTHY else "half" if state is VerdictState.NOT_JUDGED else "miss"
        )
    if state in (VerdictState.HEALTHY, VerdictState.NOT_JUDGED):
        return "miss"
    for judgement, causes in (("hit", thread["causes"]), ("half", thread["near"])):
        if any(cause == one or (is_sentence and one in cause) for one in causes):
            return judgement
    return "miss"


def replays_text() -> str:
    """The page: what stands above its first section, the scores, and all threads, misses first."""
    first = {one["thread"]: one["first"] for one in kept("first_try")}
    today = [replayed(thread) for thread in kept("threads")]
    fresh = [replayed(thread) for thread in kept("fresh")]
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip()
    sections = [*_sections(today, first), *_sections(fresh, first, "Fresh threads: ")]
    return "\n".join([head, *_score(today, fresh, first), *sections]) + "\n"


def _score(today: Sequence[Replay], fresh: Sequence[Replay], first: dict[str, str]) -> Iterator[str]:
    yield "\n## Score\n"
    yield "| threads | tried | hits | half | misses |"
    yield "|---:|---|---:|---:|---:|"
    for tried, judgements in (
        ("first, before any rule was made with them", [first[one.thread] for one in today]),
        ("today, after rules were changed because of their misses", [one.judgement for one in today]),
        ("fresh ones, first", [first[one.thread] for one in fresh]),
        ("fresh ones, today", [one.judgement for one in fresh]),
    ):
        counts = " | ".join(str(judgements.count(name)) for name in SCORES)
        yield f"| {len(judgements)} | {tried} | {counts} |"


def _sections(found: Sequence[Replay], first: dict[str, str], of: str = "") -> Iterator[str]:
    for name, title in TITLES.items():
        yield f"\n## {of}{title.lower() if of else title}\n"
        yield "| thread | its answer | first try | verdict today | next |"
        yield "|---|---|---|---|---|"
        for one in found:
            if one.judgement == name:
                short = one.thread.removeprefix("https://github.com/")
                short = short.replace("/issues/", "#").replace("/pull/", "#")
                cells = (short, one.answer, first[one.thread], one.verdict, one.next)
                name_, *others = (_cell(cell) for cell in cells)
                yield f"| [{name_}]({one.thread}) | {' | '.join(others)} |"


def _cell(text: str) -> str:
    """Text that a table of Markdown shows as it is, cut if it is long."""
    text = text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ..."
    for sign in "\\`*_<>|":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def replays() -> int:
    """Write docs/explanation/replays.md: what is said today of threads whose answer is known."""
    PAGE.write_text(replays_text(), encoding="utf-8")
    return 0
