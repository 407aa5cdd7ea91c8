"""Speed over GPU counts, and the counts at which it is evaluated.

A count is part of a node or whole nodes; all counts of a curve are one layout with arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.answer.improvements import divisors
from syncwall.cause import Cause
from syncwall.describe import Cluster, Layout
from syncwall.plan.answers import grown, is_whole, single
from syncwall.plan.network_scaling import AS_IT_IS, PricedCase, Wires
from syncwall.work.program import Program
from syncwall.work.program_variants import shard_ranks

PER_OCTAVE: Final = 16
"""Counts between one and its double, where the batch does not forbid them."""


def strong_rungs(layout: Layout, cluster: Cluster, batch: int, most: int) -> Layout | None:
    """`layout` on every count up to `most` GPUs over which `batch` sequences can be spread."""
    largest = most // int(layout.model_ranks)
    dealt = [dp for dp in divisors(batch) if dp <= largest and is_whole(layout, cluster, dp)]
    return grown(layout, np.array(dealt), np.full(len(dealt), batch)) if dealt else None


def weak_rungs(layout: Layout, cluster: Cluster, each: int, most: int) -> Layout | None:
    """`layout` on counts up to `most` GPUs, every replica with `each` sequences."""
    ranks = int(layout.model_ranks)
    largest = most // ranks
    inside = range(1, cluster.gpus_per_node // ranks)
    first = next((dp for dp in range(1, largest + 1) if _fills_nodes(layout, cluster, dp)), None)
    beyond = () if first is None else (first * times for times in _spread(largest // first))
    counts = [*inside, *beyond]
    taken = np.array([dp for dp in counts if dp <= largest and is_whole(layout, cluster, dp)])
    return grown(layout, taken, taken * each) if len(taken) else None


def recorded_rungs(program: Program, cluster: Cluster, least: int, most: int) -> tuple[Layout, ...]:
    """The recorded ranks, and doublings of the fewest that fill whole nodes; ranks are `dp`."""
    node, built = cluster.gpus_per_node, cluster.built_nodes or float("inf")
    largest = min(most, node * min(built, cluster.fabric.reach()))
    counts, ranks = {program.world_size}, max(shard_ranks(program), 2)
    while ranks <= largest:
        if ranks <= node or ranks % node == 0:
            counts.add(ranks)
        ranks *= 2
    return tuple(Layout(dp=count) for count in sorted(counts) if count >= least)


def stacked_layouts(layouts: Sequence[Layout]) -> Layout:
    """Resolved layouts as one with arrays in the fields in which they differ."""
    if any(one.reshard_after_forward is True for one in layouts):  # of a pipeline; others are silent
        silent = {"reshard_after_forward": True}
        layouts = [
            one.model_copy(update=silent) if one.reshard_after_forward is None else one for one in layouts
        ]
    update: dict[str, Any] = {}
    for name in Layout.model_fields:
        values = [getattr(one, name) for one in layouts]
        if name in ("dp", "global_batch") or any(value != values[0] for value in values):
            update[name] = np.array(values)
    return layouts[0].model_copy(update=update)


def picked(layout: Layout, where: Any) -> Layout:
    """The layouts of an array at `where`: an index, a mask or a list of indices."""
    arrays = {
        name: getattr(layout, name)[where]
        for name in Layout.model_fields
        if isinstance(getattr(layout, name), np.ndarray)
    }
    found = layout.model_copy(update=arrays)
    return single(found) if np.ndim(where) == 0 else found


def _fills_nodes(layout: Layout, cluster: Cluster, dp: int) -> bool:
    whole = layout.model_ranks * dp % cluster.gpus_per_node == 0
    return bool(whole and is_whole(layout, cluster, dp))


def _spread(most: int) -> Iterator[int]:
    """1, 2, 3, ... and from `PER_OCTAVE` on so many between a number and its double."""
    octaves = np.log2(max(most, 1))
    powers = 2.0 ** (np.arange(int(octaves * PER_OCTAVE) + PER_OCTAVE) / PER_OCTAVE)
    return (int(k) for k in sorted(set(np.round(powers))) if k <= most)


@dataclass(frozen=True, slots=True)
class Base:
    """The count that efficiency is relative to."""

    gpus: int
    """What efficiency is relative to."""
    tokens_per_s_per_gpu: float


@dataclass(frozen=True)
class ScalingCurve:
    """A run or program on growing numbers of GPUs; arrays over the counts, fewest first."""

    gpus: Any
    step_s: Any
    tokens: Any
    """Of one step; of a program without any samples, else its ranks."""
    memory_bytes: Any
    """On the fullest GPU."""
    ledger: dict[Cause, Any]
    """Seconds by cause."""
    layout: Layout
    """With arrays; of a program `dp`, its ranks."""

    @property
    def tokens_per_s(self) -> Any:
        """Of all GPUs together."""
        return self.tokens / self.step_s

    @property
    def base(self) -> Base:
        """The first count."""
        return self.base_at(0)

    def base_at(self, index: int) -> Base:
        """The count that efficiency may be measured against."""
        return Base(int(self.gpus[index]), float(self.tokens_per_s[index] / self.gpus[index]))

    def efficiency(self, base: Base) -> Any:
        """Speed of a GPU over that at `base`."""
        return self.tokens_per_s / self.gpus / base.tokens_per_s_per_gpu

    def gpu_s_per_token(self, index: int) -> dict[Cause, float]:
        """What one token costs at a count, by cause, in seconds of one GPU."""
        each = float(self.gpus[index] / self.tokens[index])
        return {cause: float(seconds[index]) * each for cause, seconds in self.ledger.items()}

    def only(self, keep: Any) -> "ScalingCurve":
        """The counts at which `keep` is true."""
        ledger = {cause: seconds[keep] for cause, seconds in self.ledger.items()}
        return ScalingCurve(
            self.gpus[keep],
            self.step_s[keep],
            self.tokens[keep],
            self.memory_bytes[keep],
            ledger,
            picked(self.layout, keep),
        )


def curve(
    case: PricedCase,
    layout: Layout,
    wires: Wires = AS_IT_IS,
    progress: Callable[[float], None] = lambda share: None,
) -> ScalingCurve:
    """The curve of a `layout` with arrays; counts on which the machine looks alike are one call."""
    gpus = np.asarray(layout.gpus)
    count = len(gpus)
    step_s, tokens, memory = np.empty(count), np.empty(count), np.empty(count)
    ledger: dict[Cause, Any] = {}
    for done, (machine, where) in enumerate(_alike(case, gpus)):
        progress(done / count)
        part = picked(layout, where)
        timed = machine.timed(part, wires)
        step_s[where], tokens[where] = timed.step_s, machine.amount(timed)
        memory[where] = case.memory(part)
        for cause, seconds in timed.ledger.items():
            ledger.setdefault(cause, np.zeros(count))[where] = seconds
    found = ScalingCurve(gpus, step_s, tokens, memory, ledger, layout)
    return found.only(np.argsort(gpus, kind="stable"))


def _alike(case: PricedCase, gpus: Any) -> Iterator[tuple[PricedCase, Any]]:
    """Cases with the indices of the counts that they stand for.

    Prices depend on the machine's use only through what is used of a node and of a domain. A
    program has every count alone, as it is played.
    """
    groups: dict[tuple[int, ...], tuple[PricedCase, list[int]]] = {}
    built, node = case.cluster.scale_up, case.cluster.node.gpus
    whole = max(built.gpus // node, 1) if built else 1  # nodes of a domain
    for index, count in enumerate(gpus):
        each = min(int(count), case.cluster.gpus_per_node)
        nodes = -(-int(count) // each)
        key = (each, nodes if isinstance(case.trained, Program) else min(nodes, whole))
        if key not in groups:
            groups[key] = (case.using(int(count)), [])
        groups[key][1].append(index)
    return ((machine, np.array(indices)) for machine, indices in groups.values())
