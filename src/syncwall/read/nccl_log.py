"""`NCCL_DEBUG=INFO` logs: what NCCL found, what it uses, what it was told.

Holds `read_nccl_log`. Any text may stand around NCCL's lines, ranks may be interleaved; memory is
bounded by the number of ranks and of different messages, not by the file. `CommunicatorReader`:
gathers what the ranks of a communicator say, each in its own thread, into one `Communicator`. A
thread prints channels, rings and trees between the start and the end of an initialisation without
naming the communicator, so they are kept by thread until it is named.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from syncwall.problems import InputError
from syncwall.read import nccl_lines as shape
from syncwall.read.limited import LogLines, without_launcher
from syncwall.read.nccl_facts import Communicator, LoggedVariable, Message, NcclLog
from syncwall.read.nccl_network import NetworkReader, TuningReader

_RANKS = 200_000
_COMMUNICATORS = 10_000
_THREADS = 50_000


@dataclass(slots=True)
class _Building:
    """A communicator, or what a thread said before it named one."""

    ranks: int = 0
    by_host: dict[str, set[int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    """Largest of each: coll, nvls, collnet, p2p, rings, trees, nodes, local."""
    complete: set[int] = field(default_factory=set)
    init_s: float | None = None

    def largest(self, key: str, value: int) -> None:
        """Keep the largest count of `key`."""
        self.counts[key] = max(self.counts.get(key, 0), value)


class CommunicatorReader:
    """Takes in messages; `communicators` and `gpus` are ready at any time."""

    def __init__(self) -> None:
        self._known: dict[str, _Building] = {}
        self._threads: dict[str, _Building] = {}
        self._names: dict[str, str] = {}
        self._seen = 0
        self._gpus: set[tuple[str, str]] = set()

    @property
    def gpus(self) -> int:
        """Different GPUs (host and bus) seen."""
        return len(self._gpus)

    @property
    def communicators(self) -> tuple[Communicator, ...]:
        """The largest first."""
        for thread, building in self._threads.items():
            self._merge(self._names.get(thread), building)
        self._threads.clear()
        found = [_finished(name, building) for name, building in self._known.items()]
        return tuple(sorted(found, key=lambda c: (-c.ranks, -len(c.hosts), c.name)))

    def read(self, line: shape.Line) -> bool:
        """Take in one message; False if it says nothing of a communicator."""
        text = line.text
        if " - Init " in text and (found := shape.INIT.search(text)):
            self._init(line, found.groups())
        elif " nNodes " in text and (found := shape.COMM.search(text)):
            pending = self._pending(line.thread)
            pending.largest("nodes", int(found[4]))
            pending.largest("local", int(found[5]))
        elif " channels" in text and (pairs := shape.CHANNELS.findall(text)):
            for count, kind in pairs:
                self._pending(line.thread).largest(kind, int(count))
        elif text.startswith("Channel ") and (found := shape.RING.match(text)):
            self._pending(line.thread).largest("rings", int(found[2]))
        elif text.startswith("Trees "):
            self._pending(line.thread).largest("trees", len(shape.TREE_ITEM.findall(text)))
        elif text.startswith("Init timings") and (found := shape.TIMINGS.search(text)):
            self._timing(line.thread, float(found[2]))
        else:
            return False
        return True

    def _init(self, line: shape.Line, parts: tuple[str | None, ...]) -> None:
        _, rank, ranks, device, bus, identity, phase = parts
        name = identity or f"{ranks} ranks"
        building = self._communicator(name)
        if building is None or self._seen > _RANKS:
            return
        building.ranks = int(ranks or 0)
        members = building.by_host.setdefault(line.host, set())
        self._seen += int(rank or 0) not in members
        members.add(int(rank or 0))
        self._gpus.add((line.host, bus or device or ""))
        self._names[line.thread] = name
        if phase == "COMPLETE":
            building.complete.add(int(rank or 0))
            self._merge(name, self._threads.pop(line.thread, _Building()))

    def _communicator(self, name: str) -> _Building | None:
        if name not in self._known and len(self._known) >= _COMMUNICATORS:
            return None
        return self._known.setdefault(name, _Building())

    def _pending(self, thread: str) -> _Building:
        if thread not in self._threads and len(self._threads) >= _THREADS:
            return _Building()
        return self._threads.setdefault(thread, _Building())

    def _timing(self, thread: str, seconds: float) -> None:
        building = self._known.get(self._names.get(thread, ""))
        if building is not None:
            building.init_s = max(building.init_s or 0.0, seconds)

    def _merge(self, name: str | None, pending: _Building) -> None:
        building = self._known.get(name or "")
        if building is not None:
            for key, value in pending.counts.items():
                building.largest(key, value)


def _finished(name: str, building: _Building) -> Communicator:
    counts, by_host = building.counts, building.by_host
    return Communicator(
        name=name,
        ranks=building.ranks,
        hosts=tuple(sorted(by_host)),
        nodes=counts.get("nodes") or len(by_host) or None,
        local_ranks=counts.get("local") or max(map(len, by_host.values()), default=0) or None,
        coll_channels=counts.get("coll"),
        nvls_channels=counts.get("nvls"),
        collnet_channels=counts.get("collnet"),
        p2p_channels=counts.get("p2p"),
        rings=counts.get("rings"),
        trees=counts.get("trees"),
        started=sum(map(len, by_host.values())),
        complete=len(building.complete),
        init_s=building.init_s,
    )


_MESSAGES = 500
_SETTINGS = 2_000
_HOSTS = 50_000
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


def read_nccl_log(path: Path | str) -> NcclLog:
    """Everything that the NCCL lines of a log say; plain or packed with gzip or zip.

    Raises `InputError` if the file has no line of NCCL.
    """
    lines = LogLines(path)
    reader = _LogReader(lines.source)
    for number, text in lines:
        reader.read(number, text)
    if not reader.count:
        raise InputError.of(
            "has no line of NCCL; run with NCCL_DEBUG=INFO and name the file with its output",
            file=lines.source,
        )
    return reader.result(lines)


class _Messages:
    """Texts that are equal up to their numbers, counted."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int]] = {}
        self._count: dict[str, int] = {}

    def add(self, text: str, number: int) -> None:
        key = _NUMBER.sub("#", text[:400])
        if key in self._first or len(self._first) < _MESSAGES:
            self._first.setdefault(key, (text[:400].strip(), number))
            self._count[key] = self._count.get(key, 0) + 1

    def result(self) -> tuple[Message, ...]:
        return tuple(Message(*self._first[key], count) for key, count in self._count.items())


class _LogReader:
    """State of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0
        self.version: str | None = None
        self.cuda: str | None = None
        self.hosts: set[str] = set()
        self.environment: dict[str, LoggedVariable] = {}
        self.network = NetworkReader()
        self.communicators = CommunicatorReader()
        self.tuning = TuningReader()
        self.warnings = _Messages()
        self.timeouts = _Messages()

    def read(self, number: int, text: str) -> None:
        found = False
        for line in shape.nccl_lines(number, text):
            found = True
            self._nccl(line)
        if not found:
            self._other(number, text)

    def _nccl(self, line: shape.Line) -> None:
        self.count += 1
        if len(self.hosts) < _HOSTS:
            self.hosts.add(line.host)
        if line.level in ("WARN", "ERROR"):
            self.warnings.add(line.text, line.number)
        elif not (
            self.network.read(line)
            or self.communicators.read(line)
            or self.tuning.read(line.thread, line.text)
        ):
            self._rest(line.number, line.text)

    def _rest(self, number: int, text: str) -> None:
        if " set by environment " in text and (found := shape.BY_ENVIRONMENT.search(text)):
            self._setting(found[1], found[2].strip().removesuffix("."), number)
        elif found := shape.VERSION.search(text):
            self.version, self.cuda = self.version or found[1], self.cuda or found[2]

    def _other(self, number: int, text: str) -> None:
        """A line that NCCL did not begin: the version, the shell's environment, the watchdog."""
        if "NCCL version" in text and (found := shape.VERSION.search(text)):
            self.count += 1
            self.version, self.cuda = self.version or found[1], self.cuda or found[2]
        elif "=" in text and (found := shape.SHELL.match(without_launcher(text))):
            self._setting(found[1], found[2].strip("'\""), number)
        elif "OMP_NUM_THREADS" in text and (found := shape.OMP_DEFAULT.search(text)):
            self._setting("OMP_NUM_THREADS", found[1], number)
        elif "ime" in text and (found := shape.WATCHDOG.search(text)):
            self.timeouts.add(found[0], number)

    def _setting(self, name: str, value: str, number: int) -> None:
        if len(self.environment) < _SETTINGS:
            self.environment.setdefault(name, LoggedVariable(value, number))

    def result(self, lines: LogLines) -> NcclLog:
        net = self.network
        return NcclLog(
            source=self.source, version=self.version, cuda=self.cuda, plugin=net.plugin,
            network=net.network, provider=net.provider, hosts=tuple(sorted(self.hosts)),
            gpus=self.communicators.gpus, nics=net.nics, transports=dict(net.transports),
            nics_used=dict(sorted(net.nics_used.items())), first_seen=net.first_seen,
            net_connections=net.net,
            gdr_connections=net.gdr, pxn_connections=net.pxn, nvls=net.nvls,
            communicators=self.communicators.communicators, tuning=self.tuning.entries,
            selections=self.tuning.selections, environment=self.environment,
            warnings=self.warnings.result(), timeouts=self.timeouts.result(), lines=self.count,
            problems=lines.problems,
        )  # fmt: skip
