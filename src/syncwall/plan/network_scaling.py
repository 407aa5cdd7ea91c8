"""Runs and recorded programs on faster, slower, nearer or farther links, and on more ranks.

The model is that of `predict`; every factor may be an array.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from syncwall.answer.pricing import Pricing, Timed
from syncwall.answer.program import ProgramPrediction, predict_program, priced_program
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Layout, Model, Run, Software
from syncwall.problems import InputError, option
from syncwall.work.memory import step_memory
from syncwall.work.number import is_one
from syncwall.work.program import Program
from syncwall.work.program_variants import resized, shard_ranks, why_fixed


@dataclass(frozen=True, slots=True)
class Wires:
    """Factors on what a machine has; 1 leaves it as it is."""

    nic: Any = 1.0
    """On the rate of every NIC."""
    scale_up: Any = 1.0
    """On the rate of a GPU inside its scale-up domain."""
    latency: Any = 1.0
    """On what a message between scale-up domains takes whatever its size."""

    def on(self, cluster: Cluster) -> Cluster:
        """`cluster` with these rates."""
        update: dict[str, Any] = {}
        nics, domain = cluster.node.nics, cluster.scale_up
        if nics is not None and not is_one(self.nic):
            faster = nics.model_copy(update={"rate_bytes_per_s": nics.rate_bytes_per_s * self.nic})
            update["node"] = cluster.node.model_copy(update={"nics": faster})
        if domain is not None and not is_one(self.scale_up):
            rate = domain.rate_bytes_per_s * self.scale_up
            update["scale_up"] = domain.model_copy(update={"rate_bytes_per_s": rate})
        return cluster.model_copy(update=update)


AS_IT_IS: Final = Wires()
"""A machine that nobody changed."""


@dataclass(frozen=True, slots=True)
class PricedCase:
    """A model on a machine, and what operations cost there; the layout comes with each question."""

    model: Model
    cluster: Cluster
    seq: int
    pricing: Pricing

    @classmethod
    def of(cls, run: Run, pricing: Pricing) -> "PricedCase":
        """What is trained, and where, in `run`."""
        return cls(run.model, run.cluster, run.seq, pricing)

    def timed(self, layout: Layout, wires: Wires = AS_IT_IS) -> Timed:
        """The step of a resolved `layout` with these `wires`."""
        cluster = wires.on(self.cluster)
        return self.pricing.step(self.model, layout, self.seq, cluster, latency=wires.latency)

    def memory(self, layout: Layout) -> Any:
        """Bytes on the fullest GPU."""
        return step_memory(self.model, layout, self.seq).total

    def using(self, gpus: int) -> "PricedCase":
        """The same on `gpus` GPUs: part of a node, or whole nodes."""
        return replace(self, cluster=self.cluster.with_gpus(gpus))


@dataclass(frozen=True, eq=False)
class ProgramCase:
    """A recorded program that may have more or fewer ranks, each with the batch that it has."""

    program: Program
    cluster: Cluster
    software: Software | None = None
    compiled: bool | None = None
    measured: MachineMeasurements | None = None

    def __post_init__(self) -> None:
        reason = why_fixed(self.program)
        if reason is not None:
            raise InputError.of(f"the program has as many ranks as were recorded: {reason}")

    @cache  # noqa: B019 - as long as the case lives
    def predicted(self, ranks: int) -> ProgramPrediction:
        """The program on so many ranks."""
        try:
            program = resized(self.program, ranks)
        except ValueError as error:
            raise InputError.of(f"{option('gpus')} {ranks}: {error}") from None
        return predict_program(
            program, self.cluster, self.software, compiled=self.compiled, measured=self.measured
        )

    def timed(self, ranks: int, wires: Wires = AS_IT_IS) -> Timed:
        """Its step on these wires."""
        found = self.predicted(ranks)
        cluster, latency = wires.on(found.cluster), float(wires.latency)
        other = priced_program(
            found.program, found.pricing, compiled=found.compiled, cluster=cluster, latency=latency
        )
        return other.timed

    def counts_up_to(self, most: int) -> Iterator[int]:
        """The recorded number of ranks, and doublings of the fewest that fill whole nodes."""
        each, node = shard_ranks(self.program), self.cluster.gpus_per_node
        built = self.cluster.built_nodes or float("inf")
        largest = min(most, node * min(built, self.cluster.fabric.reach()))
        found = {self.program.world_size}
        ranks = max(each, 2)
        while ranks <= largest:
            if ranks <= node or ranks % node == 0:
                found.add(ranks)
            ranks *= 2
        yield from sorted(found)
