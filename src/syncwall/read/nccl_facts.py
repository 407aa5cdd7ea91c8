"""What a NCCL log says, as data.

Holds `NcclLog` and its parts: `NcclNic`, `Communicator`, `Tuning`, `Selection`, `Message`. Lines
are counted from 1; nothing here is judged, see `explain.logs.nccl_findings`.
"""

from dataclasses import dataclass, field

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
class Message:
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
    warnings: tuple[Message, ...] = ()
    timeouts: tuple[Message, ...] = ()
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
