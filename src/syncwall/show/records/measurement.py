"""Measurements as plain data: the result itself, whose data is that of its kind.

Holds `CollectivesRecord`, `LinksRecord`, `MatmulRecord`, `StepRecord`, `LabRunRecord`,
`CalibrationRecord` and `LabsRecord`.
"""

from dataclasses import dataclass
from typing import Annotated, Any

from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.base import Description
from syncwall.lab.experiment import Experiment
from syncwall.lab.experiment_run import LabRecord
from syncwall.lab.host_machine import Lab
from syncwall.measure.result import Result
from syncwall.measure.training_step import StepData
from syncwall.public import published
from syncwall.report import CollectivesResult, KernelTimes, LinksResult
from syncwall.show.schema import DescribedAs


class LabData(Description):
    """An experiment and what came of it."""

    experiment: Experiment
    records: tuple[LabRecord, ...]
    """One for each job on each topology."""


CollectivesRecord = Annotated[dict[str, Any], DescribedAs(Result, data=CollectivesResult)]
LinksRecord = Annotated[dict[str, Any], DescribedAs(Result, data=LinksResult)]
MatmulRecord = Annotated[dict[str, Any], DescribedAs(Result, data=KernelTimes)]
StepRecord = Annotated[dict[str, Any], DescribedAs(Result, data=StepData)]
LabRunRecord = Annotated[dict[str, Any], DescribedAs(Result, data=LabData)]
CalibrationRecord = Annotated[dict[str, Any], DescribedAs(MachineMeasurements)]


@published()
@dataclass(frozen=True)
class LabsRecord:
    """Labs of this machine."""

    labs: list[Lab]
    """In the order of their names."""
