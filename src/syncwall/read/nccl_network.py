"""Gathers the network devices and the connections of a NCCL log.

Holds `NetworkReader`: which NICs each host offers, and what each connection goes through.
"""

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from syncwall.read import nccl_lines as shape
from syncwall.read.nccl_facts import Nic

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
        self._lists: dict[str, tuple[Nic, ...]] = {}
        self._speeds: dict[str, float] = {}
        self._counted = 0

    @property
    def nics(self) -> tuple[Nic, ...]:
        """Of the host with the most; numbers alone where the log names none."""
        best = max(self._lists.values(), key=len, default=())
        if not best and self._counted:
            return tuple(Nic(index, "", "OFI") for index in range(self._counted))
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
            self._list(line.host, [Nic(int(i), n, link, bool(s)) for i, n, _, link, s in items])
        elif found := shape.SOCKET_LIST.match(text):
            items = shape.SOCKET_ITEM.findall(found[1])
            self._list(line.host, [Nic(int(i), name, "Socket") for i, name in items])
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

    def _list(self, host: str, nics: list[Nic]) -> None:
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
