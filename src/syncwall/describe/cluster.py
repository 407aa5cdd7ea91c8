"""Machines: GPUs in nodes, nodes on a fabric, and the domain in which GPUs talk at full speed.

Holds `Nics`, `Node`, `ScaleUp` and `Cluster`. Sizes are those of the machine as built; how much of
it a run uses is `Cluster.nodes` and `Cluster.gpus_per_node`. `Tier` and `Fabric`: the network
between nodes, as tiers of switches. A tier says how far it reaches and how much of a NIC's rate is
left when all nodes send through it at once.
"""

from math import prod
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from syncwall.describe.base import (
    BytesPerSecond,
    CatalogueEntry,
    Description,
    InANode,
    Positive,
    Ratio,
)
from syncwall.describe.device import Device
from syncwall.describe.names import DeviceRef


def _ratio(value: Any) -> Any:
    """Read "1:7" and "7:1" as 7: the sides are the rates down to the nodes and up."""
    if isinstance(value, str) and value.count(":") == 1:
        down, up = (float(side) for side in value.split(":"))
        if min(down, up) <= 0:
            raise ValueError("both sides must be above zero")
        return max(down, up) / min(down, up)
    return value


class Tier(Description):
    """One level of switches."""

    name: str
    """For example leaf, spine, core."""
    nodes: Positive | None = None
    """Nodes that reach each other without leaving this tier; None if that is all of them."""
    oversubscription: Annotated[float, BeforeValidator(_ratio), Field(ge=1, le=1e6)] = 1.0
    """Nodes' NIC rate over the rate left for each through this tier; 1 is non-blocking."""


class Fabric(Description):
    """A network of tiers, the nearest to the nodes first."""

    rails: Positive = 1
    """Separate leaf planes: NIC i of every node hangs on rail i; 1 if a node has one leaf."""
    in_network_reduction: bool = False
    """True if the switches can add numbers on the way (InfiniBand SHARP) and NCCL may use it."""
    tiers: tuple[Tier, ...] = Field(default_factory=lambda: (Tier(name="switch"),))

    @model_validator(mode="after")
    def _tiers_grow(self) -> Self:
        reach = [tier.nodes for tier in self.tiers]
        if not reach:
            raise ValueError("a fabric needs at least one tier")
        if any(nodes is None for nodes in reach[:-1]):
            raise ValueError("only the last tier may leave out `nodes`")
        known = [nodes for nodes in reach if nodes is not None]
        if sorted(set(known)) != known:
            raise ValueError("each tier must reach more nodes than the one below it")
        return self

    def reach(self) -> float:
        """Nodes that the whole fabric connects; infinity if its last tier is open."""
        last = self.tiers[-1].nodes
        return float("inf") if last is None else float(last)


_NO_RDMA: Final = "ethernet"
"""How names of links begin over which nothing but TCP is meant."""


class Nics(Description):
    """The network adapters of one node that carry training traffic."""

    count: InANode
    """Adapters in one node."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    """One adapter, one way."""
    link: str | None = None
    """Name of the link in the catalogue."""
    serves: tuple[tuple[int, ...], ...] | None = None
    """For each adapter the GPUs that use it; None deals them out evenly, neighbours together."""
    pcie: str | None = None
    """Link of an adapter in the catalogue, which counts without `gpu_direct`; as that of a GPU if
    not given."""
    pcie_shared: bool = False
    """True if an adapter's PCIe path also carries traffic between GPU and host."""
    reached: Ratio | None = None
    """Share of the line rate that collectives reached on this machine; None if unmeasured."""
    transport: Literal["rdma", "tcp", "gloo"] = "tcp"
    """How collectives use them: NCCL over RDMA, NCCL over TCP sockets, or Gloo on the CPUs. If not
    given RDMA for links that do it (InfiniBand, RoCE, EFA, ...), TCP for Ethernet and for no link.
    """
    gpu_direct: bool = False
    """True if adapters read GPU memory themselves (GPUDirect RDMA); else every byte passes host
    memory, over `pcie`. If not given true with RDMA; over TCP it passes host memory anyway."""

    @model_validator(mode="after")
    def _as_the_link_does(self) -> Self:
        if "transport" not in self.model_fields_set:
            rdma = self.link is not None and not self.link.startswith(_NO_RDMA)
            object.__setattr__(self, "transport", "rdma" if rdma else "tcp")
        if "gpu_direct" not in self.model_fields_set:
            object.__setattr__(self, "gpu_direct", self.transport == "rdma")
        return self


class Node(Description):
    """One server."""

    device: DeviceRef
    """The accelerator, by catalogue name or described in place."""
    gpus: InANode
    """Accelerators in the node, as built."""
    nics: Nics | None = None
    """None for a machine without a training network."""

    @model_validator(mode="after")
    def _nics_serve_gpus_that_exist(self) -> Self:
        if self.nics is None or self.nics.serves is None:
            return self
        served = [gpu for group in self.nics.serves for gpu in group]
        if len(self.nics.serves) != self.nics.count:
            raise ValueError(f"`serves` must list the GPUs of each of {self.nics.count} NICs")
        if sorted(set(served)) != list(range(self.gpus)):
            raise ValueError(f"`serves` must name every GPU from 0 to {self.gpus - 1}")
        return self


class ScaleUp(Description):
    """The domain in which GPUs reach each other without a NIC."""

    gpus: Positive
    """GPUs in one domain as built; may be more than a node has (NVL72: 72)."""
    topology: Literal["switch", "mesh", "torus", "pcie"]
    """mesh: every pair has its own links, so fewer GPUs also means fewer usable links."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    """All of one GPU's links in the domain together, one way."""
    link: str | None = None
    """Name of the link in the catalogue."""
    in_switch_reduction: bool = False
    """True if the switches can add numbers on the way (NVLink SHARP)."""
    axes: tuple[Positive, ...] = ()
    """Of a torus: devices along each axis as built, neighbouring numbers first. Collectives then
    run as rings along them."""
    ring_unit: Positive | None = None
    """Axes of a part of the torus are rings too if their length is a multiple of this; None if only
    whole axes are."""

    @model_validator(mode="after")
    def _axes_hold_the_domain(self) -> Self:
        if self.axes and self.topology != "torus":
            raise ValueError("only a torus has `axes`")
        if self.axes and prod(self.axes) != self.gpus:
            shape = " x ".join(map(str, self.axes))
            raise ValueError(f"axes of {shape} hold {prod(self.axes)} GPUs, not {self.gpus}")
        return self

    def rate_among(self, gpus: Any) -> Any:
        """One GPU's one-way rate to `gpus` - 1 others, at most all, of its domain; broadcasts."""
        if self.topology == "mesh" and self.gpus > 1:
            return self.rate_bytes_per_s * (gpus - 1) / (self.gpus - 1)
        return self.rate_bytes_per_s


class Cluster(CatalogueEntry):
    """Equal nodes on one fabric."""

    node: Node
    scale_up: ScaleUp | None = None
    """None if every GPU reaches every other through its NIC."""
    fabric: Fabric = Field(default_factory=Fabric)
    nodes: Positive = 1
    """Nodes used."""
    gpus_per_node: Positive = Field(0, validate_default=False)
    """GPUs used in each node; all of them if not given."""
    domain_nodes: Positive | None = None
    """Nodes used in each scale-up domain that holds several (16 of the 18 trays of a rack); all of
    them if not given."""
    built_nodes: Positive | None = None
    """Nodes that exist, for a particular machine; None for a product that is sold by the node."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.gpus_per_node:
            object.__setattr__(self, "gpus_per_node", self.node.gpus)
        if self.gpus_per_node > self.node.gpus:
            raise ValueError(f"{self.gpus_per_node} GPUs a node are asked for, a node has {self.node.gpus}")
        if self.nodes > (self.built_nodes or self.nodes):
            raise ValueError(f"{self.nodes} nodes are asked for, {self.built_nodes} exist")
        if self.nodes > self.fabric.reach():
            raise ValueError(
                f"{self.nodes} nodes are asked for, the fabric connects {self.fabric.reach():.0f}"
            )
        if self.node.nics is None and self.domain_gpus < self.gpus:
            raise ValueError(
                f"{self.gpus} GPUs in scale-up domains of {self.domain_gpus:g} cannot work together"
                " without NICs"
            )
        if self.node.nics is not None and self.node.nics.count % self.fabric.rails:
            raise ValueError(f"{self.fabric.rails} rails cannot share {self.node.nics.count} NICs evenly")
        return self

    @property
    def device(self) -> Device:
        """The accelerator of every node."""
        return self.node.device

    @property
    def gpus(self) -> int:
        """GPUs used."""
        return self.nodes * self.gpus_per_node

    @property
    def domain_gpus(self) -> int:
        """Used GPUs that share one scale-up domain."""
        built = self.scale_up.gpus if self.scale_up else 1
        if built <= self.node.gpus:
            return min(built, self.gpus_per_node)
        each = built // self.node.gpus
        return min(each, self.domain_nodes or each, self.nodes) * self.gpus_per_node

    @property
    def filled_domain_gpus(self) -> int:
        """GPUs in use in each scale-up domain if nodes are dealt evenly to as few as hold them.

        64 nodes of 4 GPUs stand in 4 racks of 18, in each 64 of its 72 GPUs; 72 nodes fill them.
        """
        each = self.domain_gpus // self.gpus_per_node
        if each <= 1:
            return self.domain_gpus
        return self.nodes // -(-self.nodes // each) * self.gpus_per_node

    @property
    def nic_groups(self) -> tuple[tuple[int, ...], ...]:
        """For each NIC the GPUs in use that it serves; NICs that serve none are left out."""
        nics = self.node.nics
        if nics is None:
            return ()
        serves = nics.serves or _dealt_out(self.node.gpus, nics.count)
        used = range(self.gpus_per_node)
        groups = (tuple(gpu for gpu in group if gpu in used) for group in serves)
        return tuple(group for group in groups if group)

    @property
    def nic_bytes_per_s_per_gpu(self) -> float:
        """One GPU's one-way share of the NIC rate when all GPUs in use send at once."""
        if self.node.nics is None:
            return 0.0
        return len(self.nic_groups) * self.node.nics.rate_bytes_per_s / self.gpus_per_node

    def using(self, nodes: int | None = None, gpus_per_node: int | None = None) -> "Cluster":
        """The same machine with another number of nodes, or of GPUs in each, in use."""
        used = {
            "nodes": self.nodes if nodes is None else nodes,
            "gpus_per_node": self.gpus_per_node if gpus_per_node is None else gpus_per_node,
        }
        return Cluster.model_validate({**dict(self), **used})

    def with_gpus(self, gpus: int) -> "Cluster":
        """The same machine with `gpus` GPUs in use: part of a node, or whole nodes."""
        each = min(gpus, self.gpus_per_node)
        return self.using(nodes=-(-gpus // each), gpus_per_node=each)


def _dealt_out(gpus: int, nics: int) -> tuple[tuple[int, ...], ...]:
    """GPUs of each NIC: equal runs of neighbours, or equal runs of NICs for each GPU."""
    if nics >= gpus:
        return tuple((nic * gpus // nics,) for nic in range(nics))
    return tuple(tuple(range(-(-nic * gpus // nics), -(-(nic + 1) * gpus // nics))) for nic in range(nics))
