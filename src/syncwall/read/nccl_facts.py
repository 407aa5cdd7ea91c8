"""What a NCCL log says, as data, and the shapes of the lines that say it.

Lines are counted from 1; nothing here is judged, see `explain.logs`.

Formats of NCCL 2.7 to 2.29; every repetition in a pattern is bounded, so that a damaged line costs
no more than its length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from syncwall.problems import Problem


@dataclass(frozen=True, slots=True)
class NcclNic:
    """A network device that NCCL offers to use on one host."""

    index: int
    """Number by which connections name it."""
    name: str
    """mlx5_0, hfi1_1, eth0; empty if the log gives only the count."""
    link: str = ""
    """IB, RoCE, Socket or OFI."""
    sharp: bool = False
    """Reductions in the switch are offered."""
    bits_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Communicator:
    """One NCCL communicator; counts are those of the log, None where it does not say."""

    name: str
    """Its commId, or its size where the version prints no commId."""
    ranks: int
    hosts: tuple[str, ...]
    """Hosts seen, sorted."""
    nodes: int | None = None
    local_ranks: int | None = None
    """Ranks on the fullest host."""
    coll_channels: int | None = None
    nvls_channels: int | None = None
    collnet_channels: int | None = None
    p2p_channels: int | None = None
    rings: int | None = None
    trees: int | None = None
    started: int = 0
    """Ranks that began initialisation."""
    complete: int = 0
    """Ranks that finished initialisation."""
    init_s: float | None = None
    """Longest initialisation over ranks."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """One entry of NCCL's own cost table."""

    collective: str
    algorithm: str
    protocol: str
    latency_us: float
    gb_per_s: float
    """Bandwidth as NCCL counts it for this algorithm; 0 if it cannot be used."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What NCCL chose for one size."""

    collective: str
    bytes: int
    algorithm: str
    protocol: str
    channels: int | None = None
    predicted_us: float | None = None


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A warning, an error or a timeout; equal texts (up to numbers) are counted once."""

    text: str
    line: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class LoggedVariable:
    """An environment variable as the log shows it, with the first line that does."""

    value: str
    line: int


@dataclass(frozen=True)
class NcclLog:
    """Everything read from one log."""

    source: str
    version: str | None = None
    """As printed: 2.27.7."""
    cuda: str | None = None
    plugin: str | None = None
    """Name of the external network plugin; None if NCCL's own transports are used."""
    network: str | None = None
    """After "Using network": IB, Socket, IBext, AWS Libfabric."""
    provider: str | None = None
    """libfabric's provider: efa, cxi."""
    hosts: tuple[str, ...] = ()
    gpus: int = 0
    """Different GPUs seen."""
    nics: tuple[NcclNic, ...] = ()
    """Of the host with the most."""
    nics_used: dict[int, int] = field(default_factory=dict)
    """Connections by number of the network device."""
    transports: dict[str, int] = field(default_factory=dict)
    """Connections by transport: P2P/CUMEM, P2P/IPC, SHM, NET/IB, NET/Socket, COLLNET, NVLS."""
    first_seen: dict[str, int] = field(default_factory=dict)
    """First line of each transport, and of "gdr-off", "nvls-off", "p2p-off"."""
    net_connections: int = 0
    gdr_connections: int = 0
    """Those of them whose data goes straight between the NIC and the GPU."""
    pxn_connections: int = 0
    """Those that go through another GPU's NIC."""
    nvls: bool | None = None
    """NVLink multicast available; None if the log does not say."""
    communicators: tuple[Communicator, ...] = ()
    """The largest first."""
    tuning: tuple[Tuning, ...] = ()
    selections: tuple[Selection, ...] = ()
    environment: dict[str, LoggedVariable] = field(default_factory=dict)
    warnings: tuple[LogMessage, ...] = ()
    timeouts: tuple[LogMessage, ...] = ()
    lines: int = 0
    """Lines of NCCL among those of the file."""
    problems: tuple[Problem, ...] = ()

    @property
    def world(self) -> Communicator | None:
        """The largest communicator."""
        return self.communicators[0] if self.communicators else None

    @property
    def gdr(self) -> bool | None:
        """All network connections use GPUDirect RDMA; None without network connections."""
        return self.gdr_connections == self.net_connections if self.net_connections else None

    @property
    def inter_node(self) -> str | None:
        """Transport of most network connections: "IB", "Socket", "OFI", or the plugin's name."""
        nets = {name: n for name, n in self.transports.items() if name.startswith("NET/")}
        name = max(nets, key=lambda key: nets[key]) if nets else self.network
        if name is None:
            return None
        name = name.removeprefix("NET/")
        return "OFI" if "libfabric" in name.lower() or name == "OFI" else name


NCCL_HEAD: Final = re.compile(
    r"(?<![\w.-])([\w.-]{1,255}):(\d{1,10}):(\d{1,10}) \[-?\d{1,4}\] (?:[\w./-]{1,128}:\d{1,6} )?"
    r"NCCL (INFO|WARN|TRACE|ERROR)\s?"
)
"""Host, process, thread and level: what a line of a log begins with. Lines that were copied without
it are no log, and say what failed at best."""
VERSION = re.compile(
    r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)\S{0,32}?(?:\+cuda([\d.]{1,12}))?(?:\s|$)"
)
BY_ENVIRONMENT = re.compile(r"(NCCL_\w{1,64}) set by environment to (.{0,256})")
SHELL = re.compile(
    r"(?:\+ )?(?:export |declare -x )?"
    r"((?:NCCL|CUDA|TORCH|PYTORCH|OMP|UCX|FI|SHARP)_[A-Z0-9_]{1,64})=([^\s;]{0,256})\s*$"
)
OMP_DEFAULT = re.compile(r"Setting OMP_NUM_THREADS environment variable for each process to be (\d{1,5})")
NETWORK = re.compile(r"Using network (.{1,64}?)\s*$")
PLUGIN = re.compile(
    r"(?:Plugin Path : |Successfully loaded external plugin |NET/Plugin: Using |"
    r"NET/Plugin : Plugin load returned 0 : )(\S{1,256})"
)
OFI_PLUGIN = re.compile(r"NET/OFI Initializing (aws-ofi-nccl\S{0,64}(?: \S{1,64})?)")
OFI_NICS = re.compile(
    r"NET/OFI Selected [Pp]rovider is (\S{1,32}?),?(?: fabric is \S{1,32})?"
    r" \(found (\d{1,4}) nics\)"
)
IB_LIST = re.compile(r"NET/IB(?:ext\w{0,8})? ?: Using (.{0,8192})")
IB_ITEM = re.compile(r"\[(\d{1,4})\]([\w.-]{1,64})(?::(\d{1,3}))?/(IB|RoCE)(/SHARP)?")
SOCKET_LIST = re.compile(r"NET/Socket ?: Using (.{0,8192})")
SOCKET_ITEM = re.compile(r"\[(\d{1,4})\]([\w.@-]{1,64}):")
VIRTUAL_NIC = re.compile(r"NET/IB : Made virtual device \[(\d{1,4})\] name=(\S{1,256}) speed=(\d{1,9})")
VIA = re.compile(
    r"Channel (\d{1,4})(?:/\d{1,4})? : (\d{1,7})\[\w{1,16}\] -> (\d{1,7})\[\w{1,16}\] "
    r"(?:\[(send|receive)\] )?via (.{1,128})"
)
NET_PATH = re.compile(r"NET/(.{1,64}?)/(\d{1,4})(\(\d{1,7}\))?((?:/\w{1,16}){0,3})\s*$")
RING = re.compile(r"Channel (\d{1,4})/(\d{1,4}) :\s+\d{1,7}(?:\s|$)")
TREES = re.compile(r"Trees (?:\[\d{1,4}\] )")
TREE_ITEM = re.compile(r"\[(\d{1,4})\] ")
CHANNELS = re.compile(r"(\d{1,4}) (coll|nvls|collnet|p2p) channels(?! per)")
INIT = re.compile(
    r"comm (0x[0-9a-f]{1,16}) rank (\d{1,7}) n[rR]anks (\d{1,7}) cudaDev (-?\d{1,4})"
    r"(?: nvmlDev -?\d{1,4})?(?: busId ([0-9a-fA-F]{1,16}))?(?: commId (0x[0-9a-f]{1,16}))?"
    r".{0,64}?- Init (START|COMPLETE)"
)
COMM = re.compile(
    r"comm (0x[0-9a-f]{1,16}) rank (\d{1,7}) nRanks (\d{1,7}) nNodes (\d{1,6}) localRanks (\d{1,5})"
)
TIMINGS = re.compile(r"Init timings.{0,64}? rank \d{1,7} nranks (\d{1,7}) total (\d{1,6}(?:\.\d{1,6})?)")
NVLS = re.compile(r"NVLS multicast support is (not )?available")
P2P_OFF = re.compile(r"P2P is disabled between|Could not enable P2P between|P2P access is not available")
GDR_OFF = re.compile(r"GPU Direct RDMA Disabled for")
WATCHDOG = re.compile(
    r"Watchdog caught collective operation timeout.{0,400}|\bNCCL.{0,40}[Tt]imed? ?out.{0,200}"
)


class Line(NamedTuple):
    """A message of one thread."""

    number: int
    host: str
    thread: str
    """host:pid:tid."""
    level: str
    """INFO, WARN, TRACE or ERROR."""
    text: str


def nccl_lines(number: int, raw: str) -> Iterator[Line]:
    """The NCCL messages in one line of a file; two, where two processes wrote at once."""
    at = raw.find("NCCL ")
    if at < 0:
        return
    # Nearly always one message, whose head begins at the last space before " [gpu]".
    start = raw.rfind(" ", 0, max(raw.rfind(" [", 0, at), 0)) + 1
    head = NCCL_HEAD.match(raw, start)
    heads = [head] if head and "NCCL " not in raw[head.end() :] else list(NCCL_HEAD.finditer(raw))
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(raw)
        host, pid, tid, level = head.groups()
        yield Line(number, host, f"{host}:{pid}:{tid}", level, raw[head.end() : end])
