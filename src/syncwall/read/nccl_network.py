"""Gathers the network devices and the connections of a NCCL log.

Holds `NetworkReader`: which NICs each host offers, and what each connection goes through.
`TuningReader`: NCCL's own cost table and choices, as `NCCL_DEBUG_SUBSYS=TUNING` prints them. Two
layouts are known: one header line that names algorithm/protocol pairs (2.8 to 2.26), and one line
each for algorithms and for protocols (2.27 and later).
"""

import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache

from syncwall.read import nccl_lines as shape
from syncwall.read.nccl_facts import NcclNic, Selection, Tuning

_HOSTS = 50_000
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
_THREADS = 256
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
        if len(self._headers) < _THREADS or thread in self._headers:
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
            name, int(size), _named(algorithm, _ALGORITHMS), _named(protocol, _PROTOCOLS),
            int(high) - int(low) + 1 if high else None, float(time_us) if time_us else None,
        )  # fmt: skip
        if len(self._selections) < _LIMIT:
            self._selections[chosen] = None
        return True


def _named(word: str, names: tuple[str, ...]) -> str:
    """The name of a number that an older version prints."""
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else word.upper()
