"""The page of replays: public threads whose answer is known, and what `explain` says of their excerpts.

Holds `Replay`, `replayed` (one thread, judged by the rule that its file states) and `replays_text`.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import ROOT
from syncwall.explain.answer import explain
from syncwall.explain.verdict import VerdictState
from syncwall.problems import InputError

THREADS = ROOT / "tests" / "explain" / "replays" / "threads.yaml"
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


def threads() -> list[dict[str, Any]]:
    """The frozen list."""
    found: list[dict[str, Any]] = yaml.safe_load(THREADS.read_text(encoding="utf-8"))
    return found


def replayed(thread: dict[str, Any], folder: Path) -> Replay:
    """What is said of an excerpt, and whether that is what the thread says."""
    path = folder / "pasted.txt"
    path.write_text(thread["text"], encoding="utf-8")
    try:
        found = explain([path])
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


def every_replay() -> list[Replay]:
    """All threads, in the order of their file."""
    with tempfile.TemporaryDirectory() as folder:
        return [replayed(thread, Path(folder)) for thread in threads()]


def replays_text() -> str:
    """The page: what stands above its first section, the score, and all threads, misses first."""
    found = every_replay()
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip()
    return (
        "\n".join([head, *_score(found), *(line for name in TITLES for line in _section(name, found))]) + "\n"
    )


def _score(found: Sequence[Replay]) -> Iterator[str]:
    counts = {name: sum(one.judgement == name for one in found) for name in SCORES}
    yield "\n## Score\n"
    yield "| threads | hits | half | misses |"
    yield "|---:|---:|---:|---:|"
    yield f"| {len(found)} | {counts['hit']} | {counts['half']} | {counts['miss']} |"


def _section(name: str, found: Sequence[Replay]) -> Iterator[str]:
    yield f"\n## {TITLES[name]}\n"
    yield "| thread | its answer | verdict | next |"
    yield "|---|---|---|---|"
    for one in found:
        if one.judgement == name:
            short = (
                one.thread.removeprefix("https://github.com/").replace("/issues/", "#").replace("/pull/", "#")
            )
            cells = (short, one.answer, one.verdict, one.next)
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
