"""What an agent sees as JSON lines: findings, its own and those it is told, windows, ranks.

Holds the listeners `EventLines`, which appends to a file, and `SaidLines`; `said` and `read_lines`.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from syncwall.watch.events import FORMAT, Finding, FindingKey, Window, to_json
from syncwall.watch.live import Live, Summary


class EventLines:
    """Appends a line for each thing that is new; a line is written at once and whole."""

    def __init__(self, path: str) -> None:
        """A file, or "-" for standard output."""
        name: str | int = sys.stdout.fileno() if path == "-" else path
        self._file = open(name, "a", encoding="utf-8", buffering=1, closefd=path != "-")  # noqa: SIM115 - a descriptor, open to the end
        self._windows: dict[int, int] = {}
        self._ranks: dict[int, tuple[int, str]] = {}
        self._told: set[FindingKey] = set()

    def round(self, live: Live) -> None:
        """Write what is new since the round before."""
        for finding in live.new:
            self._write("finding", live.now_s, finding)
        for finding in live.told:
            if finding.key not in self._told:
                self._write("told", live.now_s, finding)
        self._told = {finding.key for finding in live.told}
        for report in live.reports:
            for state in report.ranks:
                before = self._ranks.get(state.rank)
                if before == (state.pid, state.process):
                    continue
                if before is not None and before[0] != state.pid:
                    self._windows.pop(state.rank, None)  # started anew, its steps begin at 0
                self._ranks[state.rank] = state.pid, state.process
                self._write("rank", live.now_s, state)
            for window in report.windows:
                if self._is_new(window):
                    self._write("window", live.now_s, window)

    def end(self, summary: Summary) -> None:
        """The last line."""
        self._write("summary", 0.0, summary)

    def _is_new(self, window: Window) -> bool:
        if window.first <= self._windows.get(window.rank, -1):
            return False
        self._windows[window.rank] = window.first
        return True

    def _write(self, event: str, now_s: float, value: Any) -> None:
        head = json.dumps({"event": event, "format": FORMAT, "time_s": now_s})
        body = to_json(value).decode()
        self._file.write(f"{head[:-1]}, {body[1:]}\n")

    def __enter__(self) -> "EventLines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._file.close()


class SaidLines:
    """Says new findings on standard error, where the output of the training goes."""

    def round(self, live: Live) -> None:
        """A line for each."""
        for one in live.new:
            when = time.strftime("%H:%M:%S", time.localtime(live.now_s))
            print(f"syncwall watch: {when} {said(one)}", file=sys.stderr, flush=True)


def said(finding: Finding) -> str:
    """A finding as one line."""
    rank = "" if finding.rank is None else f" {finding.rank}"
    node = f" on {finding.node}" if finding.node else ""
    return f"{finding.kind}{rank}{node}: {finding.evidence}"


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Events of a file, the last one left out if it is not whole."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
