"""Measurements as plain data: the result itself, whose data is that of its kind.

Holds `CollectivesRecord`, `LinksRecord`, `MatmulRecord`, `StepRecord`, `LabRunRecord`,
`CalibrationRecord` and `LabsRecord`.
"""

from typing import Annotated, Any

from typing_extensions import TypedDict

from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.base import Description
from syncwall.lab.experiment import Experiment
from syncwall.lab.run import LabRecord
from syncwall.measure.result import Result
from syncwall.measure.step import StepData
from syncwall.report.results import Collectives, KernelTimes, Links
from syncwall.show.records.interface import DescribedAs, record


class LabData(Description):
    """An experiment and what came of it."""

    experiment: Experiment
    records: tuple[LabRecord, ...]
    """One for each job on each topology."""


CollectivesRecord = Annotated[dict[str, Any], DescribedAs(Result, data=Collectives)]
LinksRecord = Annotated[dict[str, Any], DescribedAs(Result, data=Links)]
MatmulRecord = Annotated[dict[str, Any], DescribedAs(Result, data=KernelTimes)]
StepRecord = Annotated[dict[str, Any], DescribedAs(Result, data=StepData)]
LabRunRecord = Annotated[dict[str, Any], DescribedAs(Result, data=LabData)]
CalibrationRecord = Annotated[dict[str, Any], DescribedAs(MachineMeasurements)]


@record
class OneLabRecord(TypedDict):
    """A lab that exists."""

    name: str
    """For `lab down`."""
    namespaces: tuple[str, ...]
    """Network namespaces of its hosts and switches."""
    hosts: int
    """Number of hosts."""
    processes: int
    """Running inside it."""


@record
class LabsRecord(TypedDict):
    """Labs of this machine."""

    labs: list[OneLabRecord]
    """In the order of their names."""
