"""What operations cost in one run: for its answer, proposals, plans and jobs.

What is left idle or held down is what a fault of the machine costs when both runs are predicted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from pydantic import ValidationError

from syncwall import plugins
from syncwall.answer.site import UNKNOWN_SITE, Site, Traits
from syncwall.catalogue import added_folders
from syncwall.cost.calibration import Calibration, NetworkFit, calibration
from syncwall.cost.communication import NcclNetwork, Network
from syncwall.cost.contended_network import SharedLinks
from syncwall.cost.corrections import MeasuredNetwork
from syncwall.cost.framework_costs import AS_CATALOGUED, Knobs, ResolvedSoftware
from syncwall.cost.measured import MachineMeasurements
from syncwall.cost.prices import Prices
from syncwall.describe import Cluster, Layout, Model, Run, Software
from syncwall.describe.lookup import link
from syncwall.describe.names import varied
from syncwall.problems import refuse_unknown
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.program_replay import ProgramTime, program_time
from syncwall.timeline.step import step_time
from syncwall.work.block import Work
from syncwall.work.number import is_one
from syncwall.work.program import Program, whole_step
from syncwall.work.program_variants import compiled
from syncwall.work.transformer_step import transformer_step


class NetworkModel(Protocol):
    """Makes the network of a machine, for example by simulation; `NcclNetwork` is the usual one."""

    def __call__(self, cluster: Cluster, fit: NetworkFit, /, *, latency: Any) -> Network:
        """The network of `cluster`, `latency` times as far between its scale-up domains."""


NETWORKS: Final[dict[str, NetworkModel]] = {"nccl": NcclNetwork}
NetworkChoice = NetworkModel | Network | str
"""A network, what makes one for a machine, or the name of such a one in `networks`."""


def networks() -> dict[str, NetworkModel]:
    """Every network model by name, with those that packages add (`syncwall.networks`)."""
    return plugins.table("networks", NETWORKS, Callable)


def _network_named(name: str) -> NetworkModel:
    known = networks()
    refuse_unknown(name, known, f'unknown network "{name}"')
    return known[name]


@dataclass(frozen=True, slots=True)
class Timed:
    """A step at its price, or arrays of them."""

    work: Work
    cluster: Cluster
    prices: Prices
    step_s: Any
    ledger: Ledger
    """Seconds by cause; they add up to `step_s`."""
    played: ProgramTime | None = None
    """When everything happens, of a recorded program."""

    @property
    def waits_s(self) -> Any:
        """Seconds that wait for communication."""
        return self.ledger.exposed_s

    @property
    def tokens_per_s(self) -> Any:
        """Tokens a second of all GPUs together."""
        return self.work.tokens / self.step_s


@dataclass(frozen=True)
class Pricing:
    """Everything that a step's time rests on beside the step itself."""

    cluster: Cluster
    """The machine as it is; what was measured was measured on it."""
    setting: ResolvedSoftware
    """The software."""
    fit: Calibration
    """What the device and its links reach with this software, and what was measured on them."""
    network: NetworkModel | Network
    """Prices communication: made for each machine that is asked for, or one for all of them."""
    site: Site = UNKNOWN_SITE
    """Known runs of the same cluster, as far as they concern this one."""
    knobs: Knobs = AS_CATALOGUED
    """What they say of the price of each kind of work, the same for all layouts and sizes."""
    catalogue: tuple[Path, ...] = ()
    """Folders that were looked at before the built-in catalogue, and are for all that follows."""

    @classmethod
    def of(
        cls,
        run: Run,
        *,
        network: NetworkChoice | None = None,
        measured: MachineMeasurements | None = None,
        site: Site = UNKNOWN_SITE,
    ) -> "Pricing":
        """The prices of `run`: what was `measured` on its machine beats the catalogue."""
        site.refuse_other(run.cluster.device)
        measured = site.calibration if measured is None else measured
        found = cls.on(run.cluster, run.software, network=network, measured=measured)
        if not site.known:
            return replace(found, site=site)
        traits = Traits.of(run.model, run.cluster, run.layout.plain(), run.software, run.seq)
        seen = site.seen_from(traits, found.fit.measured.knobs)
        return replace(found, site=seen, knobs=seen.knobs)

    @classmethod
    def on(
        cls,
        cluster: Cluster,
        software: Software | None = None,
        *,
        network: NetworkChoice | None = None,
        measured: MachineMeasurements | None = None,
    ) -> "Pricing":
        """The prices of any work on `cluster` with `software`."""
        setting = ResolvedSoftware.of(software or Software())
        fit = setting.tuned(calibration(cluster.device, measured), cluster.device)
        made = _network_named(network) if isinstance(network, str) else network
        return cls(cluster, setting, fit, made or NcclNetwork, catalogue=added_folders())

    def turned(self, knobs: Knobs) -> "Pricing":
        """The same prices with other knobs, of which each may be an array."""
        return replace(self, knobs=knobs)

    def step(self, model: Model, layout: Layout, seq: Any, cluster: Cluster, *, latency: Any = 1.0) -> Timed:
        """A transformer's step in a resolved `layout`, or arrays of them, on `cluster`."""
        work = transformer_step(self.setting.padded(model), layout, seq)
        return self.timed(work, cluster, latency=latency)

    def timed(self, work: Work | Program, cluster: Cluster, *, latency: Any = 1.0) -> Timed:
        """Any `work` on `cluster`: the machine itself, part of it, or one that differs in wires."""
        if isinstance(work, Program):
            prices = self.prices(cluster, latency=latency)
            played = program_time(compiled(work), prices)
            return Timed(whole_step(work), cluster, prices, played.step_s, played.ledger, played)
        prices = self.prices(cluster, self.setting.host_s(work, cluster), latency=latency)
        time = step_time(work, prices)
        return Timed(work, cluster, prices, time.step_s, time.ledger)

    def prices(self, cluster: Cluster, host_s: Any = 0.0, *, latency: Any = 1.0) -> Prices:
        """Seconds of single operations on `cluster`; `host_s` to issue one of a description."""
        wires = self._network(cluster, latency)
        nearby, knobs = cluster.gpus_per_node, self.knobs
        return Prices(
            cluster.device, wires, self.fit, self.setting, host_s, gpus_per_node=nearby, knobs=knobs
        )

    def _network(self, cluster: Cluster, latency: Any) -> Network:
        made = self._made(cluster, latency)
        tables = self.fit.measured.collectives
        shared = isinstance(self.network, SharedLinks)
        if not tables or not (self.network is NcclNetwork or shared):
            return made
        parts = ("node", "scale_up", "fabric")
        same = all(getattr(cluster, part) is getattr(self.cluster, part) for part in parts)
        if same and is_one(latency) and not shared:
            return MeasuredNetwork(tables, cluster, made, made)
        as_it_is = self.cluster.using(cluster.nodes, cluster.gpus_per_node)
        today = NcclNetwork(as_it_is, self.fit.network)
        return MeasuredNetwork(tables, cluster, made, today)

    def _made(self, cluster: Cluster, latency: Any) -> Network:
        if callable(self.network):
            return self.network(cluster, self.fit.network, latency=latency)
        return self.network


def with_nics(
    run: Run,
    count: int | None = None,
    rate_bytes_per_s: float | None = None,
    transport: Literal["rdma", "tcp", "gloo"] | None = None,
    *,
    gpu_direct: bool | None = None,
) -> Run | None:
    """`run` on the same machine with other adapters; None if there would be none.

    GPUs are dealt out to fewer adapters evenly, and rails are reduced to what they can share.
    """
    nics = run.cluster.node.nics
    if nics is None or count == 0:
        return None
    changes: dict[str, Any] = {}
    if count is not None and count != nics.count:
        changes |= {"count": count, "serves": None}
    if rate_bytes_per_s is not None:
        changes["rate_bytes_per_s"] = rate_bytes_per_s
    if transport is not None:
        changes["transport"] = transport
    if gpu_direct is not None:
        changes["gpu_direct"] = gpu_direct
    node = run.cluster.node.model_copy(update={"nics": nics.model_copy(update=changes)})
    rails = gcd(run.cluster.fabric.rails, changes.get("count", nics.count))
    fabric = run.cluster.fabric.model_copy(update={"rails": rails})
    return _on(run, {"node": node, "fabric": fabric})


def with_scale_up(run: Run, share: float) -> Run | None:
    """`run` with `share` of each GPU's links; None as for `scale_up_held`."""
    machine = scale_up_held(run.cluster, share)
    return None if machine is None else _on(run, {"scale_up": machine.scale_up})


def scale_up_held(machine: Cluster, share: float) -> Cluster | None:
    """`machine` with `share` of each GPU's links; with none of them, over PCIe.

    None if it has no such links, or nobody says which PCIe it has.
    """
    domain = machine.scale_up
    if domain is None or domain.topology == "pcie":
        return None
    changes: dict[str, Any] = {"rate_bytes_per_s": domain.rate_bytes_per_s * share}
    if share <= 0:
        name = machine.device.pcie
        if name is None:
            return None
        rate = link(name).rate_bytes_per_s
        changes = {"topology": "pcie", "rate_bytes_per_s": rate, "link": name}
        changes |= {"in_switch_reduction": False, "gpus": min(domain.gpus, machine.node.gpus)}
    return _changed(machine, {"scale_up": domain.model_copy(update=changes)})


def without_switch_reduction(machine: Cluster) -> Cluster | None:
    """`machine` whose NVLink switches do not add (NVLS off); None if they never did."""
    domain = machine.scale_up
    if domain is None or not domain.in_switch_reduction:
        return None
    return _changed(machine, {"scale_up": domain.model_copy(update={"in_switch_reduction": False})})


def with_power(run: Run, share: float) -> Run | None:
    """`run` on devices that are held to a `share` of their power; None if nobody states that."""
    device = run.cluster.device
    if device.tdp_w is None:
        return None
    held = varied(device, {"power_limit": float(device.power_limit_w or device.tdp_w) * share})
    node = run.cluster.node.model_copy(update={"device": held})
    return _on(run, {"node": node})


def _changed(machine: Cluster, changes: dict[str, Any]) -> Cluster:
    stated = {name: getattr(machine, name) for name in Cluster.model_fields} | changes
    return Cluster.model_construct(**stated)


def _on(run: Run, changes: dict[str, Any]) -> Run | None:
    machine = _changed(run.cluster, changes)
    try:
        return Run(model=run.model, cluster=machine, layout=run.layout, software=run.software, seq=run.seq)
    except ValidationError:
        return None
