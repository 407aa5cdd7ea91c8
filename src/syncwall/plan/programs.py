"""Recorded programs on other numbers of ranks, and on other wires.

Holds `ProgramCase`, what plans ask a recorded program: `predicted` and `timed`; and `counts_up_to`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from syncwall.answer.pricing import Timed
from syncwall.answer.program import ProgramPrediction, predict_program, priced_program
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Software
from syncwall.plan.wires import AS_IT_IS, Wires
from syncwall.problems import InputError, option
from syncwall.work.program import Program
from syncwall.work.resized import resized, shard_ranks, why_fixed


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
