"""What a network is asked for, and how long it is in use in one step.

Overlap does not matter here: what is hidden counts too. Source: the network chapter of ml-
engineering (S. Bekman): a GPU computes at half its peak, gradients are sent twice, all of it hides
behind all of the computation.

Every target compares the same layout on the same GPUs with a network that costs nothing, so that
pipeline bubbles and stragglers, which no network can help, are on both sides. Every target holds
from some value on, so the range is cut into parts again and again; all questions of a layout are
one array of wires in each round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from syncwall.answer.pricing import Timed
from syncwall.cost.path import Path, path
from syncwall.describe import Cluster, Layout, Model
from syncwall.describe.layer_kinds import of_a_sample
from syncwall.describe.layout import Recompute, Shard
from syncwall.plan.network_scaling import PricedCase, Wires
from syncwall.work.block import Stage
from syncwall.work.operations import Collective, Transfer


def busy_s(timed: Timed) -> Any:
    """Seconds of a step in which a rank's group uses the network; of the class that does most."""
    each = [_stage_s(stage, timed) for stage in timed.work.stages]
    longest: Any = 0.0
    for stage, seconds in zip(timed.work.stages, each, strict=True):
        longest = np.maximum(longest, seconds * (stage.ranks > 0))
    return longest + _messages_s(timed)


@dataclass(frozen=True, slots=True)
class Traffic:
    """One collective, or message between stages, that crosses the network."""

    kind: str
    axis: str
    bytes: float
    ranks: int
    domains: int
    start_s: float
    """Latency of one call: what it takes longer than on a network without any."""


def heaviest_transfer(timed: Timed, without_latency: Timed) -> Traffic | None:
    """The collective or message that uses the network longest in a step (one layout).

    `without_latency` is the same step on a network that has none.
    """
    whats = [
        (what, float(timed.prices.seconds(what) * times))
        for stage in timed.work.stages
        if np.any(stage.ranks > 0)
        for what, times in _collectives(stage, timed)
        if np.any(what.bytes > 0) and np.any(_path(timed, what).domains > 1)
    ]
    messages_s = float(_messages_s(timed))
    if not whats and not messages_s:
        return None
    what, longest_s = max(whats, key=lambda pair: pair[1], default=(None, 0.0))
    if what is None or messages_s > longest_s:
        return _message(timed, without_latency)
    where, calls = _path(timed, what), float(what.calls)
    start_s = float(timed.prices.seconds(what) - without_latency.prices.seconds(what))
    return Traffic(
        what.kind,
        what.axis,
        float(what.bytes) / calls,
        int(where.ranks),
        int(where.domains),
        start_s / calls / float(what.share),
    )


def _message(timed: Timed, without_latency: Timed) -> Traffic:
    """A message from one stage to the next."""
    what, where = timed.work.transfer, _path(timed, timed.work.transfer)
    start_s = timed.prices.seconds(what) - without_latency.prices.seconds(without_latency.work.transfer)
    return Traffic("message", "pp", float(what.bytes), int(where.ranks), int(where.domains), float(start_s))


def _stage_s(stage: Stage, timed: Timed) -> Any:
    total: Any = 0.0
    for what, times in _collectives(stage, timed):
        far = _path(timed, what).domains > 1
        if np.any(far):
            total = total + np.where(far, timed.prices.seconds(what), 0.0) * times
    return total


def _collectives(stage: Stage, timed: Timed) -> Iterator[tuple[Collective, Any]]:
    """Those of a stage, and how often each is done in a step."""
    return ((what, times) for _, what, times in stage.collectives(timed.work.microbatches))


def _path(timed: Timed, what: Collective | Transfer) -> Path:
    """Where its ranks stand."""
    return path(what.group, timed.cluster)


def _messages_s(timed: Timed) -> Any:
    """Messages between stages: forward and backward, for every micro batch and virtual stage."""
    pipeline = timed.work.pipeline
    far = (_path(timed, timed.work.transfer).domains > 1) & (pipeline.stages > 1)
    once = timed.prices.seconds(timed.work.transfer)
    crossings = 2.0 * timed.work.microbatches * pipeline.stages_per_rank
    return np.where(far, once * crossings, 0.0)


HALF_OF_PEAK: Final = 0.5
"""Share of the dense 16-bit peak at which the chapter lets a GPU compute: 156 of 312 TFLOP/s."""
_WEIGHT_BYTES: Final = 2.0


@dataclass(frozen=True, slots=True)
class Plain:
    """What a sheet of paper says."""

    node_bytes: float
    """Sent by one node in a step, for data parallelism only."""
    compute_s: float
    """Forward and backward pass at half the peak."""

    @property
    def node_bytes_per_s(self) -> float:
        """The rate, one way and reached, at which both take equally long."""
        return self.node_bytes / self.compute_s


def closed_form(case: PricedCase, layout: Layout) -> Plain | None:
    """Plain arithmetic for one resolved `layout`; None where it has none: experts that are spread.

    Gradients are counted where they leave a scale-up domain.
    """
    if layout.ep > 1:
        return None
    parameters = float(case.model.parameters)
    passes = 4.0 if layout.recompute == Recompute.FULL else 3.0
    tokens = float(layout.global_batch or 1) * case.seq / float(layout.gpus)
    flop = passes * _forward_flop(case.model) * tokens
    compute_s = flop / (case.cluster.device.sixteen_bit_flop_per_s * HALF_OF_PEAK)
    return Plain(parameters * _bytes(layout) * _share_of_a_node(case.cluster, layout), compute_s)


def _forward_flop(model: Model) -> float:
    """Of one token, two for each parameter; of one sample of a stack, as stated."""
    if model.stack is not None:
        return float(of_a_sample(model.stack)["forward_flops"])
    return 2.0 * float(model.active_parameters)


def _share_of_a_node(cluster: Cluster, layout: Layout) -> float:
    """Part of the parameters whose gradients leave a node: what its scale-up domain holds of them,
    over the nodes of the domain.
    """
    together = max(cluster.domain_gpus, cluster.gpus_per_node)
    if layout.gpus <= together or float(layout.dp or 1) * float(layout.cp) == 1:
        return 0.0
    held = min(1.0, together / float(layout.tp * layout.pp))
    return held * cluster.gpus_per_node / together


def _bytes(layout: Layout) -> float:
    """Bytes that cross the network for each parameter: an all-reduce sends twice."""
    gradients = layout.gradient_dtype.size_bytes
    micro = float(layout.microbatches) if layout.pp == 1 else 1.0  # a stage keeps its weights
    if layout.shard == Shard.DDP:
        return 2.0 * gradients
    if layout.shard == Shard.FSDP:
        return (2.0 * _WEIGHT_BYTES + gradients) * micro
    if layout.shard == Shard.ZERO2:  # gradients are shared out at once
        return gradients * micro + _WEIGHT_BYTES
    return gradients + _WEIGHT_BYTES


ENDLESS_BYTES_PER_S: Final = 1e15
"""A rate that no wire has: stands for infinity, which does not compute."""
LEAST_BYTES_PER_S: Final = 1e5
_LONGEST: Final = 1e6
"""Times today's latency: if that does no harm, none does."""


class NetworkLever(StrEnum):
    """What is varied."""

    NIC = "nic"
    """Rate of the NICs; compared with an endless rate and no latency."""
    SCALE_UP = "scale-up"
    """Rate inside a scale-up domain; compared with an endless one."""
    LATENCY = "latency"
    """Time of an empty message between domains; compared with none."""


class Target(StrEnum):
    """What must hold."""

    BUSY = "busy"
    """The network is in use no longer than the rest of the step takes: the least with which any
    overlap could hide it. The criterion of ml-engineering's network chapter."""
    EFFICIENCY = "efficiency"
    """Step on the ideal network over step on this one is at least `Limits.efficiency`."""
    HIDDEN = "hidden"
    """Waits for communication, beyond those on the ideal network, are at most `Limits.exposed` of
    the ideal step."""


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """How much of each target."""

    efficiency: float = 0.9
    """Ideal step over step that is asked for."""
    exposed: float = 0.05
    """Share of the step that may wait and count as hidden."""


@dataclass(frozen=True, slots=True)
class Ideal:
    """The same layout where the lever costs nothing."""

    step_s: float
    """On a network of endless rate without latency."""
    waits_s: float


def met(target: Target, timed: Timed, ideal: Ideal, limits: TargetLimits) -> Any:
    """True where `target` holds; broadcasts over the arrays of `timed`."""
    slack = 1.0 + 1e-12
    if target is Target.EFFICIENCY:
        return timed.step_s * limits.efficiency <= ideal.step_s * slack
    if target is Target.HIDDEN:
        return timed.waits_s - ideal.waits_s <= limits.exposed * ideal.step_s * slack
    return busy_s(timed) <= (ideal.step_s - ideal.waits_s) * slack


def range_of(lever: NetworkLever, cluster: Cluster) -> tuple[float, float]:
    """Least and most factor that is tried, the larger the better."""
    if lever is NetworkLever.LATENCY:
        return 1.0 / _LONGEST, 1.0 / 1e-9
    nics, domain = cluster.node.nics, cluster.scale_up
    rate = nics.rate_bytes_per_s if lever is NetworkLever.NIC and nics else None
    rate = domain.rate_bytes_per_s if lever is NetworkLever.SCALE_UP and domain else rate
    if rate is None:
        raise ValueError(f"this machine has no {lever}")
    return LEAST_BYTES_PER_S / rate, ENDLESS_BYTES_PER_S / rate


def wires_of(levers: list[NetworkLever], goodness: Any) -> Wires:
    """Wires in which entry i of every array has lever i at `goodness` i, the others at 1."""
    names = np.array([str(lever) for lever in levers])
    nic = np.where(names == NetworkLever.NIC, goodness, 1.0)
    scale_up = np.where(names == NetworkLever.SCALE_UP, goodness, 1.0)
    return Wires(nic, scale_up, np.where(names == NetworkLever.LATENCY, 1.0 / goodness, 1.0))


def ideals(levers: list[NetworkLever], timed_with: Any, cluster: Cluster) -> list[Ideal]:
    """For each lever the step where it costs nothing; `timed_with` prices wires."""
    most = np.array([range_of(lever, cluster)[1] for lever in levers])
    wires = wires_of(levers, most)
    free = np.array([lever is not NetworkLever.SCALE_UP for lever in levers])  # no latency either
    timed: Timed = timed_with(Wires(wires.nic, wires.scale_up, np.where(free, 0.0, 1.0)))
    steps = np.broadcast_to(timed.step_s, len(levers))
    waits = np.broadcast_to(timed.waits_s, len(levers))
    return [Ideal(float(s), float(w)) for s, w in zip(steps, waits, strict=True)]


_ROUNDS: Final = 6
_PARTS: Final = np.arange(1, 17) / 17.0
"""Values tried in a round, as shares of the range left: 6 rounds of 17 parts leave 1e-6 of it."""
_HALVINGS: Final = 14
_HALF: Final = np.array([0.5])
"""The same for a program, which is played for every value: 0.15% are left of ten decades."""


@dataclass(frozen=True, slots=True)
class NetworkTarget:
    """Of what, and for what."""

    lever: NetworkLever
    target: Target


@dataclass(frozen=True, slots=True)
class RequiredFactor:
    """The least factor on the lever's goodness (rate, or one over latency) that is enough."""

    factor: float | None
    """None if no factor is enough; 0 if any is."""
    ideal: Ideal
    holds_now: bool
    """True if the target holds as the machine is."""


def solved(
    case: PricedCase, layout: Layout, questions: Sequence[NetworkTarget], limits: TargetLimits
) -> dict[NetworkTarget, RequiredFactor]:
    """Every question of one resolved `layout`."""
    levers = [question.lever for question in questions]
    if not levers:
        return {}
    best = ideals(levers, lambda wires: case.timed(layout, wires), case.cluster)
    trial = _Trial(case, layout, list(questions), best, limits)
    ranges = np.log([range_of(lever, case.cluster) for lever in levers])
    low, high = ranges[:, 0], ranges[:, 1]
    always, ever, now = trial.holds(np.stack([low, high, 0.0 * low]))
    is_open = ever & ~always
    low, high = np.where(is_open, low, 0.0), np.where(is_open, high, 0.0)
    parts, rounds = (_PARTS, _ROUNDS) if isinstance(case.trained, Model) else (_HALF, _HALVINGS)
    for _ in range(rounds * bool(is_open.any())):
        tried = low + (high - low) * parts[:, None]
        first = np.argmax(np.vstack([trial.holds(tried), np.ones_like(always)]), axis=0)
        bounds = np.vstack([low, tried, high])
        column = np.arange(len(levers))
        low, high = bounds[first, column], bounds[first + 1, column]
    found = [0.0 if always[i] else float(np.exp(high[i])) if ever[i] else None for i in range(len(levers))]
    return {question: RequiredFactor(found[i], best[i], bool(now[i])) for i, question in enumerate(questions)}


@dataclass(frozen=True, slots=True)
class _Trial:
    """Trying several values for every question in one call of the model."""

    case: PricedCase
    layout: Layout
    questions: list[NetworkTarget]
    ideals: list[Ideal]
    limits: TargetLimits

    def holds(self, logs: Any) -> Any:
        """True where a question's target holds; `logs` has a row for each value, a column each."""
        rows, count = logs.shape
        levers = [question.lever for question in self.questions] * rows
        timed = self.case.timed(self.layout, wires_of(levers, np.exp(logs).ravel()))
        each = [
            np.broadcast_to(met(question.target, timed, ideal, self.limits), rows * count)
            for question, ideal in zip(self.questions, self.ideals, strict=True)
        ]
        table = np.stack([column.reshape(rows, count)[:, i] for i, column in enumerate(each)])
        return table.T
