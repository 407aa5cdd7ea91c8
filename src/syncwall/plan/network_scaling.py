"""Runs and recorded programs on faster, slower, nearer or farther links, and on more ranks.

The model is that of `predict`; every factor may be an array.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from syncwall.answer.prediction import Prediction, with_ranks
from syncwall.answer.pricing import Pricing, Timed
from syncwall.describe import Cluster, Layout, Model, Run
from syncwall.problems import InputError, option
from syncwall.timeline.ledger import Ledger
from syncwall.work.memory import recorded_memory, step_memory
from syncwall.work.number import is_one
from syncwall.work.program import Program
from syncwall.work.program_variants import resized, why_fixed


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
    """What is trained on a machine, at its prices; the layout comes with each question.

    A recorded program grows by data parallelism, each rank with the batch that it has: the `gpus`
    of a layout are its ranks.
    """

    trained: Model | Program
    cluster: Cluster
    seq: int
    pricing: Pricing

    @classmethod
    def of(cls, run: Run, pricing: Pricing) -> "PricedCase":
        """What is trained, and where, in `run`."""
        return cls(run.model, run.cluster, run.seq, pricing)

    @classmethod
    def of_program(cls, prediction: Prediction) -> "PricedCase":
        """A recorded program, which must be one that can have other ranks."""
        program = prediction.program
        reason = why_fixed(program)
        if reason is not None:
            raise InputError.of(f"the program has as many ranks as were recorded: {reason}")
        return cls(program, prediction.pricing.cluster, 1, prediction.pricing)

    @property
    def model(self) -> Model:
        """What a description trains."""
        assert isinstance(self.trained, Model)
        return self.trained

    def timed(self, layout: Layout, wires: Wires = AS_IT_IS) -> Timed:
        """The step of a resolved `layout` with these `wires`."""
        if isinstance(self.trained, Program):
            return self._played(layout, wires)
        cluster = wires.on(self.cluster)
        return self.pricing.step(self.model, layout, self.seq, cluster, latency=wires.latency)

    def _played(self, layout: Layout, wires: Wires) -> Timed:
        """A program is played on one machine after the other, on equal ones once."""
        each = np.broadcast(layout.gpus, wires.nic, wires.scale_up, wires.latency)
        keys, found = [tuple(map(float, one)) for one in each], dict[tuple[float, ...], Timed]()
        for ranks, *factors in dict.fromkeys(keys):
            case, here = self.using(int(ranks)), Wires(*factors)
            assert isinstance(case.trained, Program)
            found[ranks, *factors] = self.pricing.timed(
                case.trained, here.on(case.cluster), latency=here.latency
            )
        times = [found[key] for key in keys]
        if not each.shape:
            return times[0]
        causes = dict.fromkeys(cause for one in times for cause in one.ledger)
        ledger = {cause: np.array([one.ledger[cause] for one in times]) for cause in causes}
        step_s = np.array([one.step_s for one in times])
        return replace(times[0], step_s=step_s, ledger=Ledger(ledger))

    def memory(self, layout: Layout) -> Any:
        """Bytes on the fullest GPU."""
        if not isinstance(self.trained, Program):
            return step_memory(self.trained, layout, self.seq).total
        programs = (resized(self.trained, int(ranks)) for ranks in np.ravel(layout.gpus))
        return np.array([sum(recorded_memory(one).values()) for one in programs])

    def amount(self, timed: Timed) -> Any:
        """Tokens of a step; of a program without any samples, else what all ranks do."""
        program = self.trained
        if not isinstance(program, Program):
            return timed.work.tokens
        return program.tokens or program.samples or float(program.world_size)

    def using(self, gpus: int) -> "PricedCase":
        """The same on `gpus` GPUs: part of a node, or whole nodes."""
        if not isinstance(self.trained, Program):
            return replace(self, cluster=self.cluster.with_gpus(gpus))
        try:
            program = resized(self.trained, gpus)
        except ValueError as error:
            raise InputError.of(f"{option('gpus')} {gpus}: {error}") from None
        return replace(self, trained=program, cluster=with_ranks(self.cluster, gpus))
