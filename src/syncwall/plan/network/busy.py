"""How long the network between scale-up domains is in use in one step.

Holds `busy_s`, `Traffic` and `heaviest`. Overlap does not matter here: what is hidden counts too.
`Plain` and `plain`: the plain arithmetic of the network: bytes that a node must send over the time
it computes. Source: the network chapter of ml-engineering (S. Bekman): a GPU computes at half its
peak, gradients are sent twice, all of it hides behind all of the computation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.answer.pricing import Timed
from syncwall.cost.path import Path, path
from syncwall.describe import Cluster, Layout, Model
from syncwall.describe.layer_kinds import of_a_sample
from syncwall.describe.layout import Recompute, Shard
from syncwall.plan.wires import PricedCase
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


def heaviest(timed: Timed, without_latency: Timed) -> Traffic | None:
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
        what.kind, what.axis, float(what.bytes) / calls, int(where.ranks), int(where.domains),
        start_s / calls / float(what.share),
    )  # fmt: skip


def _message(timed: Timed, without_latency: Timed) -> Traffic:
    """A message from one stage to the next."""
    what, where = timed.work.transfer, _path(timed, timed.work.transfer)
    start_s = timed.prices.seconds(what) - without_latency.prices.seconds(
        without_latency.work.transfer
    )
    return Traffic(
        "message", "pp", float(what.bytes), int(where.ranks), int(where.domains), float(start_s)
    )


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


def plain(case: PricedCase, layout: Layout) -> Plain | None:
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
