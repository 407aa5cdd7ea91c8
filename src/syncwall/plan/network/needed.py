"""The network that a run or a recorded program needs, over GPU counts.

Rates are one way and advertised (what is printed on the adapter).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, Final

import numpy as np

from syncwall.answer.interval import validated_gpus
from syncwall.answer.pricing import Timed
from syncwall.cause import Cause
from syncwall.cost.rates import nic_reached
from syncwall.describe import Cluster, Layout, Model
from syncwall.plan.answers import grown, replicas_at, single
from syncwall.plan.best_layout import best_run, kept
from syncwall.plan.network.targets import (
    Ideal,
    NetworkLever,
    NetworkTarget,
    Plain,
    RequiredFactor,
    Target,
    TargetLimits,
    Traffic,
    closed_form,
    heaviest_transfer,
    met,
    range_of,
    solved,
)
from syncwall.plan.network_scaling import PricedCase, Wires
from syncwall.plan.reference import START, Reference
from syncwall.problems import InputError, option
from syncwall.public import Answer, Late, Part, published

WASTED: Final = (Cause.BUBBLE, Cause.STRAGGLER, Cause.HOST)
"""Causes of waiting that no network changes."""
_LEAST_REACHED: Final = 0.3
"""As in `cost.communication`: however many nodes, so much of the line rate is reached."""
NeededRates = dict[Target, float | None]
"""By target; None if nothing is enough, 0 if anything is."""


@published(
    "gpus is_extrapolated global_batch step_s ideal_step_s=ideal.step_s efficiency",
    "efficiency_at_any_rate",
    "reached_node_bytes_per_s=must_reach_bytes_per_s node_bytes_per_s=node_rates",
    "gpu_bytes_per_s=gpu_rates nic_bytes_per_s nics reached scale_up_bytes_per_s latency_factor",
    "latency_s=traffic.start_s plain_node_bytes_per_s=plain.node_bytes_per_s wasted limits",
)
@dataclass(frozen=True, slots=True)
class Requirement:
    """What one number of GPUs needs, by target; None if no rate is enough, 0 if any is.

    Of a recorded program, the rate of its NICs.
    """

    _recorded = Part(
        "gpus step_s ideal_step_s=ideal.step_s efficiency waits nic_bytes_per_s",
        text="What is needed on each number of GPUs, and how the machine as it is compares.",
        name="ProgramRequirement",
    )
    gpus: int
    layout: Layout
    cluster: Cluster
    limits: TargetLimits
    """What was asked for."""
    step_s: float
    """On the machine as it is."""
    ideal: Ideal
    """On a network with endless rate and no latency between domains."""
    waits: float
    """Share of the step that waits for communication, as it is."""
    nic_bytes_per_s: NeededRates
    """One NIC, with as many in a node as there are."""
    scale_up_bytes_per_s: NeededRates = field(default_factory=dict)
    """One GPU inside its scale-up domain, NICs as they are."""
    latency_factor: NeededRates = field(default_factory=dict)
    """Longest latency over today's, rates as they are; infinity if any will do."""
    endless_step_s: float = nan
    """On a network with endless rate and today's latency."""
    nics: dict[Target, int | None] = field(default_factory=dict)
    """Fewest NICs of today's rate in a node; None if none of the counts tried is enough."""
    reached: float = nan
    """Share of the advertised NIC rate that collectives reach."""
    traffic: Traffic | None = None
    """What uses the network most; None if nothing crosses it."""
    plain: Plain | None = None
    """The plain arithmetic."""
    wasted: dict[str, float] = field(default_factory=dict)
    """Shares of the ideal step that wait for what no network between nodes changes."""

    @property
    def is_extrapolated(self) -> bool:
        """True if no validated run has so many GPUs."""
        return self.gpus > validated_gpus()

    @property
    def efficiency(self) -> float:
        """Ideal step over this step."""
        return self.ideal.step_s / self.step_s

    @property
    def global_batch(self) -> int:
        """Sequences of one step."""
        return int(self.layout.global_batch or 1)

    @property
    def efficiency_at_any_rate(self) -> float:
        """Ideal step over this step at an endless rate with today's latency."""
        return self.ideal.step_s / self.endless_step_s

    @property
    def node_rates(self) -> NeededRates:
        """All NICs of a node together."""
        return {target: self.node_bytes_per_s(target) for target in self.nic_bytes_per_s}

    @property
    def gpu_rates(self) -> NeededRates:
        """One GPU's share of it."""
        return {target: self.gpu_bytes_per_s(target) for target in self.nic_bytes_per_s}

    def node_bytes_per_s(self, target: Target) -> float | None:
        """All NICs of a node together."""
        rate, nics = self.nic_bytes_per_s[target], self.cluster.node.nics
        return None if rate is None or nics is None else rate * nics.count

    @property
    def must_reach_bytes_per_s(self) -> float | None:
        """What a node must really send at, or communication takes longer than computation."""
        rate = self.node_bytes_per_s(Target.BUSY)
        return None if rate is None else rate * self.reached

    def gpu_bytes_per_s(self, target: Target) -> float | None:
        """One GPU's share when all of a node send."""
        node = self.node_bytes_per_s(target)
        return None if node is None else node / self.cluster.gpus_per_node


def grown_case(
    case: PricedCase, layout: Layout, gpus: int, *, strong: bool = False
) -> tuple[PricedCase, Layout]:
    """`case` and its resolved `layout` on `gpus` GPUs: data parallelism grows.

    Every replica keeps its batch; with `strong` all of them together do.
    """
    dp, batch = replicas_at(layout, case.cluster, gpus), int(layout.global_batch or 1)
    if dp is None:
        step = int(np.lcm(int(layout.model_ranks), case.cluster.gpus_per_node))
        raise InputError.of(
            f"{option('gpus')} {gpus}: replicas of {layout.model_ranks} GPUs on nodes of "
            f"{case.cluster.gpus_per_node} do not fill {gpus:,}: write multiples of {step}"
        )
    if not strong:
        batch = batch // int(layout.dp or 1) * dp
    elif batch % dp:
        raise InputError.of(
            f"{option('gpus')} {gpus}: {batch:,} sequences cannot be split evenly among {dp:,} replicas"
        )
    larger = case.using(gpus)
    return larger, single(grown(layout, dp, batch))


def requirement(case: PricedCase, layout: Layout, limits: TargetLimits) -> Requirement:
    """What one resolved `layout` needs."""
    is_run = isinstance(case.trained, Model)
    asked = list(_questions(case.cluster)) if is_run else _OF_A_PROGRAM
    found, now = solved(case, layout, asked, limits), case.timed(layout)
    ideal_wires, endless = _ideal_wires(case.cluster)
    best = case.timed(layout, ideal_wires)
    ideal, step_s = Ideal(float(best.step_s), float(best.waits_s)), float(now.step_s)
    waits = float(now.waits_s) / step_s
    rates = _rates(found, NetworkLever.NIC, _rate(case.cluster, NetworkLever.NIC))
    known = Requirement(int(layout.gpus), layout, case.cluster, limits, step_s, ideal, waits, rates)
    if not is_run:
        return known
    traffic = heaviest_transfer(now, case.timed(layout, Wires(latency=0.0)))
    scale_up_rate = _rate(case.cluster, NetworkLever.SCALE_UP)
    return replace(
        known,
        scale_up_bytes_per_s=_rates(found, NetworkLever.SCALE_UP, scale_up_rate),
        latency_factor=_latencies(found),
        endless_step_s=float(case.timed(layout, endless).step_s),
        nics=dict(_nic_counts(case, layout, ideal, limits)),
        reached=_reached(now, traffic),
        traffic=traffic,
        plain=closed_form(case, layout),
        wasted=_wasted(best),
    )


_OF_A_PROGRAM: Final = tuple(
    NetworkTarget(NetworkLever.NIC, target) for target in (Target.EFFICIENCY, Target.HIDDEN)
)
"""What is asked of a recorded program, which is played anew for every value that is tried."""


def _questions(cluster: Cluster) -> Iterator[NetworkTarget]:
    if cluster.node.nics is not None:
        yield from (NetworkTarget(NetworkLever.NIC, target) for target in Target)
        yield NetworkTarget(NetworkLever.LATENCY, Target.EFFICIENCY)
        yield NetworkTarget(NetworkLever.LATENCY, Target.HIDDEN)
    if cluster.scale_up is not None:
        yield NetworkTarget(NetworkLever.SCALE_UP, Target.EFFICIENCY)
        yield NetworkTarget(NetworkLever.SCALE_UP, Target.HIDDEN)


def _ideal_wires(cluster: Cluster) -> tuple[Wires, Wires]:
    """No cost at all between domains; and no cost but latency."""
    most = range_of(NetworkLever.NIC, cluster)[1] if cluster.node.nics else 1.0
    return Wires(nic=most, latency=0.0), Wires(nic=most)


def _rate(cluster: Cluster, lever: NetworkLever) -> float:
    """Today's rate, to which factors apply."""
    holder = cluster.node.nics if lever is NetworkLever.NIC else cluster.scale_up
    return float(holder.rate_bytes_per_s) if holder else 0.0


def _rates(found: dict[NetworkTarget, RequiredFactor], lever: NetworkLever, today: float) -> NeededRates:
    return {
        question.target: None if answer.factor is None else answer.factor * today
        for question, answer in found.items()
        if question.lever is lever
    }


def _latencies(found: dict[NetworkTarget, RequiredFactor]) -> NeededRates:
    """Longest latency over today's: one over the goodness that was solved for."""
    return {
        question.target: 0.0 if not known else (1.0 / answer.factor if answer.factor else np.inf)
        for question, answer in found.items()
        if question.lever is NetworkLever.LATENCY
        for known in [answer.factor is not None]
    }


def _nic_counts(
    case: PricedCase, layout: Layout, ideal: Ideal, limits: TargetLimits
) -> Iterator[tuple[Target, int | None]]:
    """The fewest NICs of today's rate, of counts that share the GPUs of a node evenly."""
    nics, gpus = case.cluster.node.nics, case.cluster.node.gpus
    if nics is None:
        return
    counts = [k for k in range(1, gpus + 1) if gpus % k == 0] + [gpus * 2, gpus * 4, gpus * 8]
    tried = [(count, _with_nics(case, count).timed(layout)) for count in counts]
    for target in Target:
        enough = [count for count, timed in tried if met(target, timed, ideal, limits)]
        yield target, min(enough, default=None)


def _with_nics(case: PricedCase, count: int) -> PricedCase:
    cluster = case.cluster
    assert cluster.node.nics is not None
    nics = cluster.node.nics.model_copy(update={"count": count, "serves": None})
    node = cluster.node.model_copy(update={"nics": nics})
    return replace(case, cluster=cluster.model_copy(update={"node": node}))


def _reached(timed: Timed, traffic: Traffic | None) -> float:
    """Share of the NICs' advertised rate in the group that uses them most."""
    fit = timed.prices.fit.network
    lost = fit.nic_per_doubling * np.log2(traffic.domains) if traffic else 0.0
    return max(_LEAST_REACHED, nic_reached(timed.cluster, fit) - float(lost))


def _wasted(best: Timed) -> dict[str, float]:
    step_s = float(best.step_s)
    shares = {cause: float(best.ledger[cause]) / step_s for cause in WASTED}
    return {"waits inside scale-up domains": float(best.waits_s) / step_s} | shares


_TIMES: Final = (1, 8, 64)
"""Counts that are tried if none are stated, over the first."""


@published("verdict counts", START)
@dataclass(frozen=True)
class NetworkPlan(Answer):
    """The network that a run needs.

    Or a recorded program, each rank of which keeps its batch.
    """

    _recorded = Part(
        "command=start.prediction.program.command cluster=start.prediction.cluster.name",
        "recorded_gpus=start.prediction.program.world_size efficiency=limits.efficiency",
        "exposed=limits.exposed counts=counts._recorded",
        text="The network that a recorded program needs; each rank keeps its batch.",
        name="ProgramNetwork",
    )
    start: Reference
    """The run that the plan starts from."""
    counts: list[Requirement]
    """What is needed on each number of GPUs."""
    verdict = Late("show.network:verdict")

    @property
    def limits(self) -> TargetLimits:
        """How much of each target was asked for."""
        return self.counts[0].limits

    @property
    def verb(self) -> str:  # type: ignore[override]
        """Whose answer it is, in its JSON."""
        return "plan network work" if self.start.prediction.is_recorded else "plan network"

    @property
    def _json(self) -> Any:
        return self._recorded if self.start.prediction.is_recorded else self

    @property
    def exit_code(self) -> int:
        """1 if no rate of the NICs is enough."""
        needed = (one.nic_bytes_per_s.get(Target.EFFICIENCY, 0.0) for one in self.counts)
        return int(None in needed)

    def __repr__(self) -> str:
        gpus = ", ".join(f"{one.gpus:,}" for one in self.counts)
        return f"<NetworkPlan {self.start.name} on {gpus} GPUs>"


def needed(
    start: Reference,
    counts: Sequence[int],
    limits: TargetLimits,
    *,
    reached: float | None = None,
    strong: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Requirement]:
    """One requirement for each of `counts`; those of `start` if there are none.

    Every GPU keeps its part of the batch; with `strong` all of them together do. A layout that
    nobody stated is searched anew for each count. `reached` is the share of the NICs' advertised
    rate that collectives reach.
    """
    case, prediction = start.case, start.prediction
    if case.cluster.node.nics is None:
        raise InputError.of(f"{case.cluster.name} has no NICs whose rate could be varied")
    if reached is not None:
        case = replace(case, cluster=_reaching(case.cluster, reached))
    found: list[Requirement] = []
    for gpus in (asked := counts or _usual(start)):
        progress(len(found) / len(asked))
        if prediction.is_recorded:
            found.append(requirement(case.using(gpus), Layout(dp=gpus), limits))
        elif start.layout_searched and gpus != start.run.gpus:
            found.append(requirement(*_searched(case, start.run.layout, gpus, strong), limits))
        else:
            found.append(requirement(*grown_case(case, start.run.layout, gpus, strong=strong), limits))
    return found


def _searched(case: PricedCase, layout: Layout, gpus: int, strong: bool) -> tuple[PricedCase, Layout]:
    """The best layout on `gpus` GPUs."""
    batch, larger = int(layout.global_batch or 1), case.using(gpus)
    if not strong:
        batch = max(1, round(batch * gpus / int(layout.gpus)))
    best = best_run(larger, larger.cluster, batch, kept(layout))
    if best is None:
        raise InputError.of(f"{option('gpus')} {gpus}: no layout fits for a batch of {batch:,} sequences")
    return larger, best.layout


def _usual(start: Reference) -> list[int]:
    """The count of the run; if nobody stated it, larger ones that need a network."""
    cluster, first = start.prediction.cluster, int(start.prediction.work.gpus)
    if "gpus" not in start.assumed:
        return [first]
    built = cluster.scale_up.gpus if cluster.scale_up else 1
    while first <= built:
        first *= 2
    most = cluster.gpus_per_node * min(cluster.built_nodes or float("inf"), cluster.fabric.reach())
    most = min(most, validated_gpus())
    return [first * times for times in _TIMES if first * times <= most] or [start.run.gpus]


def _reaching(cluster: Cluster, reached: float) -> Cluster:
    """`cluster` whose NICs reach that share of their rate."""
    assert cluster.node.nics is not None
    nics = cluster.node.nics.model_copy(update={"reached": reached})
    return cluster.model_copy(update={"node": cluster.node.model_copy(update={"nics": nics})})
