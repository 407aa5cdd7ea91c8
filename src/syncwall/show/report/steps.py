"""The training steps of a lab, measured and, where there is one, predicted.

Holds `LabStep`, `steps_of`, `parts_of` and `most_wrong`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from syncwall.lab.closed_loop import step_label
from syncwall.lab.comparison import GROUPS, Compared, compared
from syncwall.lab.run import Record
from syncwall.lab.topology import Topology
from syncwall.measure.step import StepData

OTHER = "other"
"""What a ledger has beside the lines that both have in common."""


@dataclass(frozen=True)
class LabStep:
    """One step on one topology."""

    record: Record
    data: StepData
    compared: Compared | None
    """None if it was not predicted."""

    @property
    def topology(self) -> Topology:
        """Where it ran."""
        return self.record.topology

    @property
    def what(self) -> str:
        """Model and sharing."""
        return step_label(self.record.job)

    @property
    def measured_s(self) -> float:
        """Median step."""
        return self.data.times.median_s

    @property
    def label(self) -> str:
        """Place and rate, and the round if it is not the first."""
        again = f" ({self.record.round + 1})" if self.record.round else ""
        return f"{self.topology.label.replace(' at ', ' · ')}{again}"

    @property
    def full_label(self) -> str:
        """Label and what ran."""
        return f"{self.what}, {self.label}"


def steps_of(records: Sequence[Record]) -> list[LabStep]:
    """The measured steps among `records`, in their order."""
    found = []
    for record in records:
        if record.result is not None and record.result.kind == "step":
            rows = compared([record]).rows
            data = StepData.model_validate(record.result.data)
            found.append(LabStep(record, data, rows[0] if rows else None))
    return found


def parts_of(ledger_s: dict[str, float]) -> dict[str, float]:
    """A ledger summed up in the lines that measured and predicted ones have in common."""
    parts = {
        group: sum(ledger_s.get(cause, 0.0) for cause in causes) for group, causes in GROUPS.items()
    }
    known = {cause for causes in GROUPS.values() for cause in causes}
    other = sum(seconds for cause, seconds in ledger_s.items() if cause not in known)
    return parts | ({OTHER: other} if other > 0 else {})


def pairs_of(row: Compared) -> dict[str, tuple[float, float]]:
    """Measured and predicted seconds of each line that either has."""
    measured, predicted = parts_of(row.measured.ledger_s), parts_of(row.predicted.ledger_s)
    lines = dict.fromkeys([*measured, *predicted])
    return {line: (measured.get(line, 0.0), predicted.get(line, 0.0)) for line in lines}


def most_wrong(row: Compared) -> tuple[str, float, float]:
    """The line of the ledger that is furthest off: its name, measured and predicted seconds."""
    pairs = pairs_of(row)
    line = max(pairs, key=lambda name: abs(pairs[name][1] - pairs[name][0]))
    return line, *pairs[line]
