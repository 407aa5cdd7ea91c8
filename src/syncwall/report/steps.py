"""The training steps of a lab and of `measure step`, and where each of them ran.

Holds `PlacedStep`, `steps_of`, `alike` and `fastest_s`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from syncwall.lab.closed_loop import step_label
from syncwall.lab.comparison import EXPOSED, Compared, compared, parts_of
from syncwall.lab.topology import rate_text
from syncwall.measure.result import Result
from syncwall.measure.step import StepData
from syncwall.report.results import Data, LabData


@dataclass(frozen=True)
class PlacedStep:
    """One measured step, and where it ran."""

    what: str
    """Model and sharing."""
    hosts: int
    world: int
    data: StepData
    rate_bytes_per_s: float | None = None
    """Of the links between hosts; None if there are none, or if nobody knows."""
    compared: Compared | None = None
    """None if it was not predicted."""
    again: int = 0
    """How often the same had run before."""

    @property
    def measured_s(self) -> float:
        """Median step."""
        return self.data.times.median_s

    @property
    def predicted_s(self) -> float | None:
        """Predicted step."""
        return self.compared.predicted.step_s if self.compared else None

    @property
    def exposed_share(self) -> float:
        """Share of the step that waits for communication."""
        return parts_of(self.data.ledger_s)[EXPOSED] / self.measured_s

    @property
    def link(self) -> str:
        """Rate of the links, or nothing."""
        return rate_text(self.rate_bytes_per_s) if self.rate_bytes_per_s else ""

    @property
    def label(self) -> str:
        """Place and rate, and the round if it is not the first."""
        link = f" · {self.link}" if self.link else ""
        again = f" ({self.again + 1})" if self.again else ""
        return f"{self.hosts}x{self.world / self.hosts:g}{link}{again}"


def steps_of(result: Result, data: Data) -> list[PlacedStep]:
    """The measured steps of a lab, or the one of `measure step`; equal ones together."""
    if isinstance(data, StepData):
        model = result.settings.get("model")
        name = model.get("name", "") if isinstance(model, dict) else ""
        what = f"{name} {result.settings.get('shard', '')}".strip() or "step"
        return [PlacedStep(what, len(result.job.host_names), result.job.world, data)]
    found: dict[str, list[PlacedStep]] = {}
    for record in data.records if isinstance(data, LabData) else ():
        if record.result is not None and record.result.kind == "step":
            what, topology = step_label(record.job), record.topology
            rate = float(topology.rate_bytes_per_s) if topology.hosts > 1 else None
            step = StepData.model_validate(record.result.data)
            row = next(iter(compared([record]).rows), None)
            found.setdefault(what, []).append(
                PlacedStep(what, topology.hosts, topology.world, step, rate, row, record.round)
            )
    return [step for equal in found.values() for step in equal]


def fastest_s(steps: Sequence[PlacedStep]) -> dict[tuple[str, int], float]:
    """By work and number of workers, the shortest step."""
    return {key: min(one.measured_s for one in group) for key, group in alike(steps).items()}


def alike(steps: Sequence[PlacedStep]) -> dict[tuple[str, int], list[PlacedStep]]:
    """Steps of the same work and number of workers."""
    groups: dict[tuple[str, int], list[PlacedStep]] = defaultdict(list)
    for step in steps:
        groups[step.what, step.world].append(step)
    return groups
