"""Predictions for many runs at once.

Holds `Outcome` and `outcomes`. Cases with the same model, machine and software are one call of the
predictor with arrays of layouts; what a source left open is decided by time and memory.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from syncwall.answer.interval import interval
from syncwall.answer.many import SIZES, Evaluated, evaluated
from syncwall.answer.pricing import Pricing
from syncwall.answer.traits import Traits
from syncwall.cause import Cause
from syncwall.describe import Layout
from syncwall.validate.mapping import Case
from syncwall.work.memory import RESERVE_BYTES

MEMORY_DOUBT = 1.2
"""How much too large a published run may seem, which is known to have run."""


@dataclass(frozen=True)
class Outcome:
    """A measured run beside its prediction."""

    case: Case
    layout: Layout
    """The candidate that was chosen."""
    step_s: float
    memory_bytes: float
    ledger: dict[Cause, float]

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.step_s / self.case.measured_s

    @property
    def memory_ratio(self) -> float | None:
        """Predicted over measured memory; None if the source gives none."""
        row = self.case.row
        measured = row.number("mem_gb")
        if not measured:
            return None
        reserve = RESERVE_BYTES if "alloc" in row.text("mem_kind") else 0.0
        return (self.memory_bytes - reserve) / (measured * 1e9)

    @property
    def traits(self) -> Traits:
        """What the interval compares."""
        case = self.case
        return Traits.of(case.model, case.cluster, self.layout, case.software, case.seq)

    @cached_property
    def interval_s(self) -> tuple[float, float]:
        """P10 and P90, set without the runs of the same source."""
        count = len(self.case.open_fields)
        found = interval(self.traits, open_fields=count, without=self.case.row.source)
        return found.around(self.step_s)


def outcomes(
    cases: Sequence[Case], progress: Callable[[float], None] | None = None
) -> list[Outcome]:
    """An outcome for every case, in order; `progress` is told which share is done."""
    groups: dict[Any, list[tuple[int, Layout]]] = defaultdict(list)
    for index, case in enumerate(cases):
        shared = _shared(case)
        for layout in case.layouts:
            groups[shared, _switches(layout)].append((index, layout))
    found: dict[int, list[Evaluated]] = defaultdict(list)
    for number, members in enumerate(groups.values()):
        if progress is not None:
            progress(number / len(groups))
        first = cases[members[0][0]]
        layouts = [layout for _, layout in members]
        pricing = Pricing.on(first.cluster, first.software)
        answers = evaluated(pricing, first.model, first.cluster, layouts, first.seq)
        for (index, _), answer in zip(members, answers, strict=True):
            found[index].append(answer)
    return [_chosen(case, found[index]) for index, case in enumerate(cases)]


def _shared(case: Case) -> Any:
    """What must be equal for two cases to be evaluated in one call."""
    machine = case.cluster
    return (
        case.model.model_dump_json(), case.software, case.seq, machine.domain_gpus,
        machine.gpus_per_node, machine.name, machine.device.name, repr(machine.node.nics),
    )  # fmt: skip


def _switches(layout: Layout) -> Any:
    """And for two layouts."""
    return tuple((name, value) for name, value in layout.__dict__.items() if name not in SIZES)


def _chosen(case: Case, found: list[Evaluated]) -> Outcome:
    """The likeliest of the ways to fill in what the source leaves open.

    Whoever tuned the run took the fastest that fits. It did run, so the memory model may be wrong
    of it: ways that seem up to `MEMORY_DOUBT` times too large count as well.
    """
    most = case.cluster.device.memory.size_bytes * MEMORY_DOUBT
    fitting = [one for one in found if one.memory_bytes <= most]
    if fitting:
        best = min(fitting, key=lambda one: one.step_s)
    else:
        best = min(found, key=lambda one: one.memory_bytes)
    return Outcome(case, best.layout, best.step_s, best.memory_bytes, best.ledger)
