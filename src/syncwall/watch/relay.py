"""How agents hear of each other: through a store that the first of them keeps.

Holds `Relay` (the thread, as a store behind a cut network blocks for ever; the agent sees how long
ago it last worked) and `room_for`; `Exchange`, what one node writes and reads in a round. Every
node has a key. Up to 512 nodes, the first one reads all of them. Of more nodes, the first of each
group reads those of its group and tells the first one in one key what is to be said of them; where
that key stays the same, the first node reads those of the group itself. The others read the first
one's. `group_size`, `brief` and `merged` make reports of a large job short.
"""

import ipaddress
import resource
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from math import isqrt
from typing import Any, Final, Generic, TypeVar

from syncwall.hosts import LOOPBACK
from syncwall.problems import first_line
from syncwall.watch.events import (
    GroupReport,
    NodeReport,
    Process,
    RankState,
    from_json,
    to_json,
)
from syncwall.watch.judges import THRESHOLDS, Thresholds, patience_s
from syncwall.watch.secret import Seal

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
        report,
        ranks=kept,
        quiet=(*report.quiet, *(one.rank for one in report.ranks if one.rank not in told)),
        windows=tuple(one for one in report.windows if report.sent_s - one.end_s < _TOLD_S),
    )


def _is_quiet(one: RankState, now_s: float, limits: Thresholds) -> bool:
    silent_s = now_s - one.phase_since_s
    return one.process is Process.RUNNING and silent_s < patience_s(one, limits) / 2


def shifted(report: NodeReport, by_s: float) -> NodeReport:
    """With all times so much later."""

    def later(at_s: float | None) -> float | None:
        return None if at_s is None else at_s + by_s

    return replace(
        report,
        sent_s=report.sent_s + by_s,
        ranks=tuple(
            replace(one, phase_since_s=one.phase_since_s + by_s, changed_s=later(one.changed_s))
            for one in report.ranks
        ),
        windows=tuple(replace(one, end_s=one.end_s + by_s) for one in report.windows),
        findings=tuple(replace(one, since_s=one.since_s + by_s) for one in report.findings),
    )


def merged_report(
    number: int,
    reports: Mapping[int, NodeReport],
    silent_s: Mapping[int, float],
    limits: Thresholds = THRESHOLDS,
) -> GroupReport:
    """One report of all nodes of a group; those of which nothing is to be said are put together."""
    silent = {node: s for node, s in silent_s.items() if s > limits.node_silent_s / 2}
    told = {node for node, one in reports.items() if one.ranks or one.findings or node in silent}
    kept = [reports[node] for node in sorted(told)]
    quiet = [one for node, one in sorted(reports.items()) if node not in told]
    if quiet:
        notes = dict.fromkeys(note for one in quiet for note in one.notes)
        kept.append(
            replace(
                quiet[0],
                notes=tuple(notes),
                windows=tuple(window for one in quiet for window in one.windows),
                quiet=tuple(rank for one in quiet for rank in one.quiet),
            )
        )
    return GroupReport(number, tuple(kept), silent)


def first_number() -> int:
    """Of the reports of an agent: later than those of one that it replaces, which count slowly."""
    return round(time.time() * 1e3)


_NOTHING: Final = b"-"
"""In keys that nobody has written yet: to read one that is missing would block."""


class Exchange:
    """One node among all."""

    def __init__(
        self, node_rank: int, nodes: int, limits: Thresholds = THRESHOLDS, secret: bytes = b""
    ) -> None:
        self._node_rank, self._nodes, self._limits = node_rank, nodes, limits
        self._size = group_size(nodes)
        self._groups = range(1, -(-nodes // self._size))
        """Those with a leader: the first node itself reads the nodes of its group."""
        self._own: NodeReport | None = None
        self._number = first_number()
        self._of_nodes = _Keys(NodeReport, "node", Seal(secret))
        self._of_groups = _Keys(GroupReport, "group", Seal(secret))
        self.heard: dict[int, tuple[NodeReport, float]] = {}
        """Latest report of each node that was heard of, and when it changed (`time.monotonic`)."""

    @property
    def is_large(self) -> bool:
        """True if the nodes are in groups."""
        return bool(self._groups)

    @property
    def refused(self) -> str:
        """What was not believed; empty if everything was."""
        return self._of_nodes.refused or self._of_groups.refused

    def tell(self, report: NodeReport) -> None:
        """Put a report where the next round finds it."""
        self._own = brief(report, self._limits) if self.is_large else report

    def open(self, store: Any) -> None:
        """The first node makes all keys."""
        self._of_nodes.make(store, range(self._nodes))
        self._of_groups.make(store, self._groups)

    def round(self, store: Any) -> None:
        """Write and read once."""
        if self._own is not None:
            self._of_nodes.write(store, self._node_rank, self._own)
        group, place = divmod(self._node_rank, self._size)
        if self._node_rank == 0:
            self._judge_reads(store)
        elif place == 0:
            self._lead(store, group)
        else:
            self.heard = self._of_nodes.read(store, (0,))

    def _members(self, group: int) -> range:
        return range(group * self._size, min((group + 1) * self._size, self._nodes))

    def _judge_reads(self, store: Any) -> None:
        """Groups by their leaders, and the nodes of those whose leader says nothing."""
        late_s = time.monotonic() - self._limits.node_silent_s / 2
        groups = self._of_groups.read(store, self._groups)
        fresh = {group: one for group, one in groups.items() if one[1] >= late_s}
        alone = [group for group in (0, *self._groups) if group not in fresh]
        heard = self._of_nodes.read(store, (n for group in alone for n in self._members(group)))
        for group in groups.keys() - fresh:
            leader = group * self._size
            if leader in heard:  # both of its keys stay the same
                heard[leader] = heard[leader][0], groups[group][1]
        for told, changed_s in fresh.values():
            for one in told.nodes:
                heard[one.node_rank] = one, changed_s - told.silent_s.get(one.node_rank, 0.0)
        self.heard = heard

    def _lead(self, store: Any, group: int) -> None:
        """Tell the first node of this group, and hear of the first node."""
        found = self._of_nodes.read(store, (0, *self._members(group)))
        now_s = time.monotonic()
        self.heard = {0: found.pop(0)} if 0 in found else {}
        reports = {node: one for node, (one, _) in found.items()}
        silent_s = {node: now_s - changed_s for node, (_, changed_s) in found.items()}
        self._number += 1
        told = merged_report(self._number, reports, silent_s, self._limits)
        self._of_groups.write(store, group, told)


Report = TypeVar("Report", NodeReport, GroupReport)


class _Keys(Generic[Report]):
    """Keys of one kind, as they were read last."""

    def __init__(self, kind: type[Report], name: str, seal: Seal) -> None:
        self._kind: type[Report] = kind
        self._name, self._seal = name, seal
        self._texts: dict[int, bytes] = {}
        self._found: dict[int, tuple[Report, float]] = {}
        self.refused = ""

    def _key(self, number: int) -> str:
        return f"syncwall/{self._name}/{number}"

    def make(self, store: Any, numbers: Iterable[int]) -> None:
        """Keys that hold nothing yet."""
        for number in numbers:
            store.compare_set(self._key(number), "", _NOTHING.decode())

    def write(self, store: Any, number: int, value: Report) -> None:
        """Write one of them."""
        key = self._key(number)
        store.set(key, self._seal.sealed(key, to_json(value)))

    def read(self, store: Any, numbers: Iterable[int]) -> dict[int, tuple[Report, float]]:
        """Those of them that somebody has written, each with the time of its last change."""
        asked = list(numbers)
        texts = store.multi_get([self._key(one) for one in asked]) if asked else []
        for number, text in zip(asked, texts, strict=True):
            if text in (self._texts.get(number), _NOTHING):
                continue
            self._texts[number] = text
            opened = self._seal.opened(self._key(number), text)
            if opened is None:
                self.refused = f"a report of {self._name} {number} without the secret of this job was refused"
                continue
            found, before = from_json(self._kind, opened), self._found.get(number)
            if before is None or found.number > before[0].number:  # else it is told a second time
                self._found[number] = found, time.monotonic()
        return {number: self._found[number] for number in asked if number in self._found}


_TIMEOUT_S: Final = 5.0
_JOIN_S: Final = 300.0
"""For the first node to come up."""
_FILES: Final = 256
"""That an agent may open beside the connections of the others."""
_BACKLOG: Final = 1024
_LARGE_EVERY_S: Final = 1.0
"""Between two rounds of a job whose nodes are in groups."""


class Relay:
    """What this node tells, and what it hears."""

    def __init__(
        self,
        host: str,
        port: int,
        node_rank: int,
        nodes: int,
        limits: Thresholds = THRESHOLDS,
        secret: bytes = b"",
    ) -> None:
        self._address, self._keeps, self._nodes = (host, port), node_rank == 0, nodes
        self._exchange = Exchange(node_rank, nodes, limits, secret)
        self._every_s = _LARGE_EVERY_S if self._exchange.is_large else limits.poll_s
        self.missing = ""
        """Why there is no relay, or not for all; empty if there is one."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="syncwall-relay", daemon=True)
        self._thread.start()

    def tell(self, report: NodeReport) -> None:
        """Put a report where the others find it, soon."""
        self._exchange.tell(report)

    def heard(self) -> dict[int, tuple[NodeReport, float]]:
        """The latest report of each node that was heard of, and how long it has been silent."""
        now_s = time.monotonic()
        return {node: (one, now_s - changed_s) for node, (one, changed_s) in self._exchange.heard.items()}

    def stop(self) -> None:
        """Stop; a thread that hangs is left behind."""
        self._end.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            store = self._joined()
        except Exception as error:  # noqa: BLE001 - whatever a store may raise: nodes judge alone
            self.missing = _no_relay(error)
            return
        crowded, wait_s = self.missing, self._every_s
        while not self._end.wait(wait_s):
            try:
                self._exchange.round(store)
                self.missing, wait_s = self._exchange.refused or crowded, self._every_s
            except Exception as error:  # noqa: BLE001 - the store may answer again
                self.missing, wait_s = _no_relay(error), _TIMEOUT_S

    def _joined(self) -> Any:
        from torch.distributed import TCPStore

        host, port = self._address
        if self._keeps:
            self.missing = room_for(self._nodes)
        store = TCPStore(
            host,
            port,
            is_master=self._keeps,
            wait_for_workers=False,
            timeout=timedelta(seconds=_JOIN_S),
            master_listen_fd=listening(host, port).detach() if self._keeps else None,
        )
        if self._keeps:
            self._exchange.open(store)
        store.set_timeout(timedelta(seconds=_TIMEOUT_S))
        return store


def listening(host: str, port: int) -> socket.socket:
    """A socket at the address of the job; at all where that is not one of this machine's own, or
    where others may know the name by another one, as that of a host which calls itself 127.0.1.1.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families = {family: address for family, _, _, _, address in found}
    is_plain = len(found) == len(families) and (host in LOOPBACK or not _is_loopback(found[0][4][0]))
    for family, address in families.items() if is_plain else ():
        with suppress(OSError):
            return _bound(family, address)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return _bound(socket.AF_INET, ("", port))


def _bound(family: socket.AddressFamily, address: Any) -> socket.socket:
    return socket.create_server(address[:2], family=family, backlog=_BACKLOG)


def _is_loopback(address: object) -> bool:
    return ipaddress.ip_address(str(address).partition("%")[0]).is_loopback


def _no_relay(error: Exception) -> str:
    return f"no relay between nodes: {type(error).__name__}: {first_line(error)}"


def room_for(nodes: int) -> str:
    """Let this process have a connection for each node; why not all of them, if so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nodes + _FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most == wanted:
        return ""
    return f"the relay has room for {most - _FILES} of {nodes} nodes: raise ulimit -Hn to {wanted}"
