"""What `syncwall measure` wrote, as far as it can be judged.

Holds `MeasuredFile` and `read_measured_file`.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.reading import validated
from syncwall.documents import read_document
from syncwall.measure.calibrate import measured_of
from syncwall.measure.links import LinkRow
from syncwall.measure.result import Result
from syncwall.measure.suspects import Suspect
from syncwall.problems import InputError
from syncwall.units import plural

_TIMED = ("collectives", "matmul")


@dataclass(frozen=True)
class MeasuredFile:
    """One result of `syncwall measure`, or a calibration made of several."""

    source: str
    kind: str
    device: str
    """Name of the accelerator, or cpu."""
    hosts: tuple[str, ...]
    """By rank."""
    times: MachineMeasurements
    """Of collectives and kernels."""
    links: tuple[LinkRow, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    """Ranks and links that were slow beside the others."""
    result: Result | None = None
    """None of a calibration."""

    @property
    def says(self) -> str:
        """In a few words."""
        held = {
            "collective": self.times.collectives, "matrix product": self.times.gemm,
            "link": self.links,
        }  # fmt: skip
        what = ", ".join(plural(len(all_), one) for one, all_ in held.items() if all_)
        return f"{self.kind} on {self.device or '?'}, {plural(len(self.hosts), 'rank')}: {what}"


def read_measured_file(path: Path | str) -> MeasuredFile:
    """The file at `path`; raises `InputError` if it is not whole."""
    document = read_document(Path(path))
    keys = document.value if isinstance(document.value, dict) else {}
    if "kind" not in keys or "job" not in keys:
        times = validated(document, MachineMeasurements)
        return MeasuredFile(str(path), "calibration", times.device, times.hosts, times)
    result = validated(document, Result)
    try:
        return _of(result, str(path))
    except (ValidationError, TypeError) as error:
        message = f"is not a whole result of measure {result.kind}: {str(error)[:120]}"
        raise InputError.of(message, file=str(path)) from None


def _of(result: Result, source: str) -> MeasuredFile:
    data, links = result.data, result.kind == "links"
    return MeasuredFile(
        source, result.kind, result.job.device, result.job.hosts,
        measured_of(result, source) if result.kind in _TIMED else MachineMeasurements(),
        links=tuple(map(LinkRow.model_validate, data.get("rows") or ())) if links else (),
        suspects=tuple(map(Suspect.model_validate, data.get("suspects") or ())) if links else (),
        result=result,
    )  # fmt: skip
