"""`NCCL_DEBUG=INFO` logs: what NCCL found, what it uses, what it was told.

Two layouts are known: one header line that names algorithm/protocol pairs (2.8 to 2.26), and one
line each for algorithms and for protocols (2.27 and later).

Any text may stand around NCCL's lines, ranks may be interleaved; memory is bounded by the number of
ranks and of different messages, not by the file. A thread prints channels, rings and trees between
the start and the end of an initialisation without naming the communicator, so they are kept by
thread until it is named.
"""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from syncwall.problems import EmptyInput
from syncwall.read import nccl_facts as shape
from syncwall.read.limited import LogLines, without_launcher
from syncwall.read.nccl_facts import (
    Communicator,
    LoggedVariable,
    LogMessage,
    NcclLog,
    NcclNic,
    Selection,
    Tuning,
)

_NAMES = 200


class NetworkReader:
    """Takes in messages; the counters are ready at any time."""

    def __init__(self) -> None:
        self.network: str | None = None
        self.plugin: str | None = None
        self.provider: str | None = None
        self.transports: Counter[str] = Counter()
        self.nics_used: Counter[int] = Counter()
        self.first_seen: dict[str, int] = {}
        self.net = self.gdr = self.pxn = 0
        self.nvls: bool | None = None
        self._lists: dict[str, tuple[NcclNic, ...]] = {}
        self._speeds: dict[str, float] = {}
        self._counted = 0

    @property
    def nics(self) -> tuple[NcclNic, ...]:
        """Of the host with the most; numbers alone where the log names none."""
        best = max(self._lists.values(), key=len, default=())
        if not best and self._counted:
            return tuple(NcclNic(index, "", "OFI") for index in range(self._counted))
        return tuple(replace(nic, bits_per_s=self._speeds.get(nic.name)) for nic in best)

    def read(self, line: shape.Line) -> bool:
        """Take in one message; False if it says nothing of the network."""
        text = line.text
        if " via " in text and (found := shape.VIA.match(text)):
            self._connection(found[5], line.number)
        elif text.startswith("Using network") and (found := shape.NETWORK.match(text)):
            self.network = self.network or found[1]
        elif text.startswith("NET/"):
            self._device(line)
        elif text.startswith("NVLS multicast") and (found := shape.NVLS.match(text)):
            self.nvls = found[1] is None and self.nvls is not False
            self._first("nvls-off" if found[1] else "nvls-on", line.number)
        elif found := shape.PLUGIN.match(text):
            self.plugin = self.plugin or found[1].rpartition("/")[2]
        elif shape.P2P_OFF.search(text):
            self._first("p2p-off", line.number)
        elif shape.GDR_OFF.search(text):
            self._first("gdr-off", line.number)
        else:
            return False
        return True

    def _connection(self, path: str, number: int) -> None:
        name, device, pxn, gdr = _path(path)
        if name in self.transports or len(self.transports) < _NAMES:
            self.transports[name] += 1
            self._first(name, number)
        if device is None:
            return
        self.net += 1
        self.nics_used[device] += 1
        self.pxn += pxn
        self.gdr += gdr
        if not gdr:
            self._first("gdr-off", number)

    def _device(self, line: shape.Line) -> None:
        text = line.text
        if found := shape.IB_LIST.match(text):
            items = shape.IB_ITEM.findall(found[1])
            self._list(line.host, [NcclNic(int(i), n, link, bool(s)) for i, n, _, link, s in items])
        elif found := shape.SOCKET_LIST.match(text):
            items = shape.SOCKET_ITEM.findall(found[1])
            self._list(line.host, [NcclNic(int(i), name, "Socket") for i, name in items])
            self._first("socket-list", line.number)
        elif found := shape.VIRTUAL_NIC.match(text):
            if len(self._speeds) < _NAMES:
                self._speeds[found[2]] = float(found[3]) * 1e6
        elif found := shape.OFI_NICS.match(text):
            self.provider, self._counted = found[1], max(self._counted, min(int(found[2]), 256))
        elif found := shape.OFI_PLUGIN.match(text):
            self.plugin = self.plugin or found[1]
        elif found := shape.PLUGIN.match(text):
            self.plugin = self.plugin or found[1].rpartition("/")[2]

    def _list(self, host: str, nics: list[NcclNic]) -> None:
        if len(nics) > len(self._lists.get(host, ())) and len(self._lists) < _HOSTS:
            self._lists[host] = tuple(nics[:256])

    def _first(self, key: str, number: int) -> None:
        self.first_seen.setdefault(key, number)


@lru_cache(4096)
def _path(path: str) -> tuple[str, int | None, bool, bool]:
    """Transport, network device, PXN, GDR: NET/IB/3(0)/GDRDMA is (NET/IB, 3, True, True).

    Inside a node P2P/CUMEM/read is P2P/CUMEM and SHM/direct/direct is SHM, without a device.
    """
    if net := shape.NET_PATH.match(path):
        return f"NET/{net[1]}", int(net[2]), net[3] is not None, "GDRDMA" in net[4]
    parts = path.strip().split("/")
    return "/".join(parts[:2]) if parts[0] == "P2P" else parts[0], None, False, False


_LIMIT = 20_000
_NETWORK_THREADS = 256
_PAIR = re.compile(r"\s*(-?\d{1,12}(?:\.\d{1,6})?)\s*/\s*(-?\d{1,12}(?:\.\d{1,6})?)\s*$")
_HEADER = re.compile(r"\s*([A-Za-z]\w{2,16})\s*/\s*(LL128|LL|Simple)\s*$")
_SELECTION = re.compile(
    r"(\w{4,24}): (\d{1,18}) Bytes -> Algo (\w{1,16}) proto (\w{1,8})"
    r"(?: time (\d{1,12}(?:\.\d{1,9})?))?(?: channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\})?"
)
_COLUMNS = ("LL", "LL128", "Simple")
_COLLECTIVES = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
# Order of NCCL_ALGO_* and NCCL_PROTO_* in NCCL's nccl_common.h; older versions print the number.
_ALGORITHMS = ("TREE", "RING", "COLLNETDIRECT", "COLLNETCHAIN", "NVLS", "NVLSTREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


class TuningReader:
    """Collects table entries and selections; equal ones once."""

    def __init__(self) -> None:
        self._headers: dict[str, list[tuple[str, str]]] = {}
        self._entries: dict[tuple[str, str, str], Tuning] = {}
        self._selections: dict[Selection, None] = {}

    @property
    def entries(self) -> tuple[Tuning, ...]:
        """The table; where ranks differ, the first."""
        return tuple(self._entries.values())

    @property
    def selections(self) -> tuple[Selection, ...]:
        """In the order of the log."""
        return tuple(self._selections)

    def read(self, thread: str, text: str) -> bool:
        """Take in one message; False if it is none of ours."""
        if " Bytes -> Algo " in text:
            return self._selection(text)
        if "|" not in text:
            return False
        first, *cells = (part.strip() for part in text[:4096].split("|"))
        cells = [cell for cell in cells if cell]
        if first == "Algorithm":
            self._set_header(thread, [(name, p) for name in cells for p in _COLUMNS])
        elif first.startswith("Latency/"):
            found = [_HEADER.match(cell) for cell in cells]
            self._set_header(thread, [(f[1], f[2]) for f in found if f])
        elif first in _COLLECTIVES:
            self._row(thread, first, cells)
        else:
            return first in ("Protocol", "Max NThreads")
        return True

    def _set_header(self, thread: str, pairs: list[tuple[str, str]]) -> None:
        if len(self._headers) < _NETWORK_THREADS or thread in self._headers:
            self._headers[thread] = pairs[:64]

    def _row(self, thread: str, collective: str, cells: list[str]) -> None:
        for (algorithm, protocol), cell in zip(self._headers.get(thread, ()), cells, strict=False):
            found = _PAIR.match(cell)
            key = (collective, algorithm, protocol)
            if found and key not in self._entries and len(self._entries) < _LIMIT:
                self._entries[key] = Tuning(*key, float(found[1]), float(found[2]))

    def _selection(self, text: str) -> bool:
        found = _SELECTION.search(text)
        if found is None:
            return False
        name, size, algorithm, protocol, time_us, low, high = found.groups()
        chosen = Selection(
            name,
            int(size),
            _named(algorithm, _ALGORITHMS),
            _named(protocol, _PROTOCOLS),
            int(high) - int(low) + 1 if high else None,
            float(time_us) if time_us else None,
        )
        if len(self._selections) < _LIMIT:
            self._selections[chosen] = None
        return True


def _named(word: str, names: tuple[str, ...]) -> str:
    """The name of a number that an older version prints."""
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else word.upper()


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
        raise EmptyInput.of(
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

    def result(self) -> tuple[LogMessage, ...]:
        return tuple(LogMessage(*self._first[key], count) for key, count in self._count.items())


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
            source=self.source,
            version=self.version,
            cuda=self.cuda,
            plugin=net.plugin,
            network=net.network,
            provider=net.provider,
            hosts=tuple(sorted(self.hosts)),
            gpus=self.communicators.gpus,
            nics=net.nics,
            transports=dict(net.transports),
            nics_used=dict(sorted(net.nics_used.items())),
            first_seen=net.first_seen,
            net_connections=net.net,
            gdr_connections=net.gdr,
            pxn_connections=net.pxn,
            nvls=net.nvls,
            communicators=self.communicators.communicators,
            tuning=self.tuning.entries,
            selections=self.tuning.selections,
            environment=self.environment,
            warnings=self.warnings.result(),
            timeouts=self.timeouts.result(),
            lines=self.count,
            problems=lines.problems,
        )
