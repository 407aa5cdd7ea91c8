"""The agent of a node: a process of its own that reads rings, watches processes, relays and judges.

Holds `Agent`; `python -m syncwall.watch.agent FOLDER` runs one. It outlives its ranks, needs
nothing of them but their rings, and nobody waits for it: a training does not notice whether it
lives.
"""

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from syncwall.problems import first_line
from syncwall.watch.cores import HostWatch
from syncwall.watch.devices import Devices, judged_devices
from syncwall.watch.events import Finding, NodeReport, RankState, StepRecord, to_json
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS, Thresholds
from syncwall.watch.place import COMMAND_LOCK, Lock
from syncwall.watch.ranks import ProcessWatch, WatchedRank
from syncwall.watch.relay import Relay, first_number, shifted
from syncwall.watch.rings import clock_s
from syncwall.watch.secret import SECRET, secret_of
from syncwall.watch.signals import FORWARDED
from syncwall.watch.stalls import Stalls
from syncwall.watch.summary import Listener, Live, Summary, summary_of

_LEAVES_AFTER_S: Final = 10.0
"""Without a living rank: torchrun starts ranks anew within seconds."""
_CLOCKS_DIFFER_S: Final = 2.0
"""More than a report is under way; the order of deaths wants times as they are."""
_TOLD: Final = 4
"""Latest windows of each rank in a report."""


class Agent:
    """Follows all ranks of one node."""

    def __init__(
        self, home: Path, listeners: Sequence[Listener] = (), limits: Thresholds = THRESHOLDS
    ) -> None:
        self._home, self._listeners, self._limits = home, listeners, limits
        self._processes = ProcessWatch()
        self._devices = Devices()
        self._host = HostWatch()
        self._stalls = Stalls(limits)
        self.ranks: dict[Path, WatchedRank] = {}
        self.ended: list[WatchedRank] = []
        """Processes of ranks that were started anew."""
        self._seen: set[str] = set()
        """Names of all rings so far, also of those that were refused or are over."""
        self._states: dict[Path, RankState] = {}
        self.findings = Findings(home, limits)
        self._findings: tuple[Finding, ...] = ()
        self._relay: Relay | None = None
        self._no_relay = ""
        """Why."""
        self._ahead_s: dict[int, float] = {}
        """Of clocks of other nodes that differ."""
        self._number = first_number()
        self.shall_end = False
        """It was asked to leave, and does once no rank lives."""
        self.is_alone = False
        """Whoever started it is gone, and will not clean up."""
        self._started_s = clock_s()
        self._looked_s = 0.0

    def run(self, *, until_told: bool = False) -> Summary:
        """Follow the job until its ranks have ended, or with `until_told` until stdin says so.

        Once whoever could say so is gone, ranks that go on are followed to their end.
        """
        idle_since_s = time.monotonic()
        next_s = time.monotonic()
        while True:
            self._try_round()
            if self._processes.alive:
                idle_since_s = time.monotonic()
            elif self.shall_end:
                break
            if until_told and (said := _said(sys.stdin.fileno())) is not None:
                if said:
                    break
                self.is_alone, until_told = True, False
            if not until_told and time.monotonic() - idle_since_s > _LEAVES_AFTER_S:
                break
            next_s = max(next_s + self._limits.poll_s, time.monotonic())
            self._processes.wait(next_s - time.monotonic())
        return self.end()

    def _try_round(self) -> None:
        try:
            self.round()
        except Exception as error:  # noqa: BLE001 - the next one may go well
            self._note(f"not all was judged: {type(error).__name__}: {first_line(error)}")

    def round(self) -> Live:
        """One look at everything."""
        now_s = clock_s()
        self._look_for_ranks()
        steps = [step for path in list(self.ranks) for step in self._read(path, now_s)]
        devices = self._devices.states({one.pid: (one.rank, one.node) for one in self.ranks.values()})
        stalls = self._stalls.take(steps, tuple(self._states.values()), now_s)
        of_node = (*judged_devices(devices, now_s, self._limits), *stalls)
        reports, silent_s = self._heard(self._report(now_s, of_node))
        of_all = (f for one in reports[1:] if one.node_rank for f in one.findings)
        self._findings, new = self.findings.round(reports, silent_s, now_s, steps, (*of_node, *of_all))
        told = self._told(reports[1:], silent_s)
        live = Live(now_s, reports, tuple(steps), self._findings, new, self.findings.expected, told, devices)
        for listener in self._listeners:
            with suppress(Exception):  # whatever a listener does, the ranks are watched
                listener.round(live)
        return live

    def _read(self, path: Path, now_s: float) -> list[StepRecord]:
        """Steps that a rank has finished; one that cannot be read any more is left alone."""
        one, before = self.ranks[path], self._states.get(path)
        try:
            steps = one.read(self._host.stolen_s)
            if before is None or not before.process.is_over:
                self._states[path] = one.state(self._processes, before, now_s)
        except Exception as error:  # noqa: BLE001 - whatever its ring holds, others are watched
            self._note(f"rank {one.rank} is not watched any more: {first_line(error)}")
            self._states.pop(path, None)
            self.ended.append(self.ranks.pop(path))
            return []
        return steps

    def end(self) -> Summary:
        """The summary, after a last look; rings that nobody writes any more are removed."""
        self._try_round()
        for text in self._missing():
            self._note(text)
        found = summary_of([*self.ended, *self.ranks.values()], self.findings, clock_s() - self._started_s)
        self._devices.stop()
        if self._relay is not None:
            self._relay.stop()
        for path, one in self.ranks.items():
            if path in self._states and self._states[path].process.is_over:
                one.close()
        return found

    def _look_for_ranks(self) -> None:
        if time.monotonic() - self._looked_s < self._limits.poll_s / 2:
            return
        self._looked_s = time.monotonic()
        names = {name for name in _names(self._home) if name.endswith(".json")} - self._seen
        self._seen |= names
        for path in sorted((self._home / name for name in names), key=_age):
            if path.name.startswith("rank-"):
                self._follow(path.with_suffix(".ring"))
        self._meet()

    def _follow(self, path: Path) -> None:
        try:
            found = WatchedRank(path, self._limits)
        except Exception as error:  # noqa: BLE001 - whatever it holds, others are watched
            self._note(f"{path.name} cannot be read: {first_line(error)}")
            return
        for old in [p for p, one in self.ranks.items() if one.rank == found.rank]:
            self._states.pop(old, None)  # the rank was started anew
            self.findings.started_anew(found.rank)
            self.ended.append(self.ranks.pop(old))
        self.ranks[path] = found
        self._processes.add(found.pid)

    def _meet(self) -> None:
        """Begin to relay, once the ranks of the job have a secret."""
        facts = next((one.facts for one in self.ranks.values()), None)
        if self._relay is not None or facts is None or facts.nodes <= 1:
            return
        nodes, secret = facts.nodes, secret_of(self._home)
        self._no_relay = ""
        if not facts.store_host:
            self._no_relay = (
                f"no relay between {nodes} nodes: MASTER_ADDR is not set on this "
                "one; it judges its own ranks alone"
            )
        elif not secret:
            self._no_relay = (
                f"no relay between {nodes} nodes yet: the ranks have no process group, "
                f"and {SECRET} is not set"
            )
        else:
            address = facts.store_host, facts.store_port, facts.node_rank, nodes
            self._relay = Relay(*address, self._limits, secret)

    def _missing(self) -> list[str]:
        """Why there is no relay and no NVML, as of now."""
        relay = self._relay.missing if self._relay else self._no_relay
        return [one for one in (relay, self._devices.missing) if one]

    def _note(self, text: str) -> None:
        if text not in self.findings.notes:
            self.findings.notes.append(text)

    def _report(self, now_s: float, of_node: tuple[Finding, ...]) -> NodeReport:
        first = next(iter(self.ranks.values()), None)
        self._number += 1
        notes = dict.fromkeys(note for one in self.ranks.values() for note in one.notes)
        notes |= dict.fromkeys(self._missing())
        node_rank = first.facts.node_rank if first else 0
        return NodeReport(
            node=first.node if first else "",
            node_rank=node_rank,
            number=self._number,
            sent_s=now_s,
            ranks=tuple(self._states.values()),
            windows=tuple(w for one in self.ranks.values() for w in list(one.windows)[-_TOLD:]),
            world=first.facts.world if first else 1,
            nodes=first.facts.nodes if first else 1,
            notes=(*notes, *self.findings.notes),
            findings=self._findings if node_rank == 0 else of_node,
            host=self._host.load(now_s, [one.pid for one in self.ranks.values()]) if first else None,
        )

    def _heard(self, own: NodeReport) -> tuple[tuple[NodeReport, ...], dict[str, float]]:
        """This node's report and those of others, and how long each node has been silent."""
        if self._relay is None:
            return (own,), {own.node: 0.0}
        self._relay.tell(own)
        heard = self._relay.heard()
        heard.pop(own.node_rank, None)
        silent_s = {report.node: silent_s for report, silent_s in heard.values()}
        others = (self._by_own_clock(*heard[rank], own.sent_s) for rank in sorted(heard))
        return (own, *others), silent_s | {own.node: 0.0}

    def _by_own_clock(self, report: NodeReport, silent_s: float, now_s: float) -> NodeReport:
        """A report of a node whose clock is elsewhere, with times as here."""
        ahead_s = report.sent_s + silent_s - now_s
        known_s = self._ahead_s.get(report.node_rank, 0.0)
        if abs(ahead_s - known_s) > _CLOCKS_DIFFER_S:
            known_s = self._ahead_s[report.node_rank] = ahead_s
        return shifted(report, -known_s) if known_s else report

    def _told(self, others: Sequence[NodeReport], silent_s: Mapping[str, float]) -> tuple[Finding, ...]:
        """What the first node has found and this one has not, while it can be heard."""
        known = {one.key for one in self._findings}
        return tuple(
            found
            for one in others
            if silent_s[one.node] <= self._limits.node_silent_s
            for found in one.findings
            if found.key not in known
        )


def _names(home: Path) -> list[str]:
    """What a folder holds; nothing if somebody has removed it."""
    try:
        return os.listdir(home)  # noqa: PTH208 - paths are slow to make, four times a second
    except OSError:
        return []


def _age(path: Path) -> float:
    """When a file was written; a rank that was started anew has several."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _said(file: int) -> bytes | None:
    """What was written to a pipe, empty if its other end is gone; None for nothing yet."""
    poll = select.poll()
    poll.register(file, select.POLLIN | select.POLLHUP)
    return os.read(file, 1) if poll.poll(0) else None


def _outlive_signals(agent: Agent) -> None:
    """Signals to all processes of a job are for the training; only SIGTERM is heeded, at its end."""
    signal.signal(signal.SIGTERM, lambda *_: setattr(agent, "shall_end", True))
    for number in FORWARDED:
        if number not in (signal.SIGTERM, signal.SIGCONT):
            signal.signal(number, lambda *_: None)  # children that become other programs get defaults
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)


def main(words: Iterable[str]) -> int:
    """Run the agent of a folder, unless it has one."""
    from syncwall.watch.exporters import EventLines, Exporters, SaidLines
    from syncwall.watch.place import remove_leftovers

    folder, *flags = words
    home = Path(folder)
    events = next((one.partition("=")[2] for one in flags if one.startswith("--events=")), "")
    with Lock(home) as lock:
        if not lock.taken():
            return 0
        with EventLines(events or str(home / "events.jsonl")) as lines:
            exporters = Exporters(home, os.environ)
            agent = Agent(home, [lines, SaidLines(), exporters])
            _outlive_signals(agent)
            remove_leftovers()
            summary = agent.run(until_told="--until-told" in flags)
            lines.end(summary)
            (home / "summary.json").write_bytes(to_json(summary))  # before what may take a while
            exporters.close()
        if agent.is_alone and (home / COMMAND_LOCK).exists():
            shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
