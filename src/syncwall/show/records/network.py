"""The network that a run needs as plain data; rates one way, advertised unless named reached.

Holds `NetworkRecord` and `network_record`.
"""

from collections.abc import Sequence

from typing_extensions import TypedDict

from syncwall.plan.network.needed import NeededRates, Requirement
from syncwall.plan.network.targets import Target, TargetLimits
from syncwall.plan.reference import Reference
from syncwall.show.records.interface import record
from syncwall.show.records.prediction import StartRecord, start_record
from syncwall.show.words.network import verdict


@record
class NeededRecord(TypedDict):
    """What one number of GPUs needs, by target; null if no rate is enough, 0 if any is."""

    gpus: int
    global_batch: int
    """Sequences of one step."""
    step_s: float
    """On the machine as it is."""
    ideal_step_s: float
    """On a network of endless rate without latency."""
    efficiency: float
    """Ideal step over this step."""
    efficiency_at_any_rate: float
    """The same at an endless rate with today's latency."""
    reached_node_bytes_per_s: float | None
    """What a node must really send at, or communication takes longer than computation."""
    node_bytes_per_s: NeededRates
    """All NICs of a node together."""
    gpu_bytes_per_s: NeededRates
    """One GPU's share of it."""
    nic_bytes_per_s: NeededRates
    """One NIC, with as many in a node as there are."""
    nics: dict[Target, int | None]
    """Fewest NICs of today's rate in a node; null if no number is enough."""
    reached: float
    """Share of the advertised rate that collectives reach."""
    scale_up_bytes_per_s: NeededRates
    """One GPU inside its scale-up domain, NICs as they are."""
    latency_factor: NeededRates
    """Highest latency over today's, rates as they are; null if any will do."""
    latency_s: float | None
    """Today's, of the collective that uses the network most; null if nothing crosses it."""
    plain_node_bytes_per_s: float | None
    """Reached rate of a node by plain arithmetic; null where that does not apply."""
    wasted: dict[str, float]
    """Shares of the ideal step that wait for what no network between nodes changes."""
    limits: TargetLimits
    """What was asked for."""


@record
class NetworkRecord(StartRecord):
    """The network that a run needs."""

    verdict: list[str]
    """What is needed, and whether the machine has it."""
    counts: list[NeededRecord]
    """One for each number of GPUs."""


def network_record(found: Sequence[Requirement], start: Reference) -> NetworkRecord:
    """What is needed on each number of GPUs, and the run to start from."""
    counts = [_needed(one) for one in found]
    return {"verdict": verdict(found), "counts": counts, **start_record(start)}


def _needed(one: Requirement) -> NeededRecord:
    targets = list(one.nic_bytes_per_s)
    return {
        "gpus": one.gpus,
        "global_batch": int(one.layout.global_batch or 1),
        "step_s": one.step_s,
        "ideal_step_s": one.ideal.step_s,
        "efficiency": one.efficiency,
        "efficiency_at_any_rate": one.ideal.step_s / one.endless_step_s,
        "reached_node_bytes_per_s": one.must_reach_bytes_per_s,
        "node_bytes_per_s": {target: one.node_bytes_per_s(target) for target in targets},
        "gpu_bytes_per_s": {target: one.gpu_bytes_per_s(target) for target in targets},
        "nic_bytes_per_s": one.nic_bytes_per_s,
        "nics": one.nics,
        "reached": one.reached,
        "scale_up_bytes_per_s": one.scale_up_bytes_per_s,
        "latency_factor": one.latency_factor,
        "latency_s": one.traffic.start_s if one.traffic else None,
        "plain_node_bytes_per_s": one.plain.node_bytes_per_s if one.plain else None,
        "wasted": one.wasted,
        "limits": one.limits,
    }
