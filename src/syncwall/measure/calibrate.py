"""From measurements to a calibration: what `predict --calibration` takes.

Holds `read_measured` and `measured_of`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from syncwall.cost.measured import (
    AttentionPoint,
    CollectiveTable,
    ConvolutionPoint,
    ElementwisePoint,
    GemmPoint,
    MachineMeasurements,
)
from syncwall.describe.reading import problems, validated
from syncwall.documents import Document, read_document
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.kernel_times import KernelRow
from syncwall.measure.overlap import Overlap
from syncwall.measure.result import Result
from syncwall.problems import InputError
from syncwall.work.operations import CollectiveKind


def read_measured(paths: Sequence[Path]) -> MachineMeasurements:
    """What the files say together: results of `measure`, or calibrations made of them.

    Where two say something of the same, the later file counts.
    """
    found: list[MachineMeasurements] = []
    for path in paths:
        document = read_document(path)
        keys = document.value if isinstance(document.value, dict) else {}
        if "kind" in keys and "job" in keys:
            found.append(_of(validated(document, Result), document))
        else:
            found.append(validated(document, MachineMeasurements))
    return joined_calibrations(found)


def measured_of(result: Result, source: str = "") -> MachineMeasurements:
    """The measured times of one result."""
    rows = result.data.get("rows") or ()
    where: dict[str, Any] = {
        "made_at": result.made_at,
        "device": result.job.device,
        "hosts": result.job.host_names,
        "sources": (source,) if source else (),
    }
    if result.kind == "collectives":
        found = [CollectiveRow.model_validate(row) for row in rows]
        return MachineMeasurements(**where, collectives=_tables(found))
    if result.kind == "matmul":
        beside = result.data.get("beside")
        both = Overlap.model_validate(beside) if beside else None
        kernels = [KernelRow.model_validate(row) for row in rows]
        return MachineMeasurements(**where, **_points(kernels), **_costs(both))
    raise InputError.of(
        f"measurements of {result.kind} cannot calibrate a prediction: those of collectives and matmul can",
        file=source,
    )


def joined_calibrations(several: Sequence[MachineMeasurements]) -> MachineMeasurements:
    """All of them as one."""
    tables = {(table.kind, table.ranks, table.nodes): table for one in several for table in one.collectives}
    shares = [one.host_share for one in several if one.host_share is not None]
    meetings = [one.meeting_s for one in several if one.meeting_s is not None]
    return MachineMeasurements(
        made_at=max((one.made_at for one in several), default=""),
        device=next((one.device for one in several if one.device), ""),
        hosts=tuple(dict.fromkeys(host for one in several for host in one.hosts)),
        sources=tuple(dict.fromkeys(source for one in several for source in one.sources)),
        gemm=_latest(point for one in several for point in one.gemm),
        attention=_latest(point for one in several for point in one.attention),
        convolution=_latest(point for one in several for point in one.convolution),
        elementwise=_latest(point for one in several for point in one.elementwise),
        collectives=tuple(tables.values()),
        host_share=shares[-1] if shares else None,
        meeting_s=meetings[-1] if meetings else None,
    )


def _of(result: Result, document: Document) -> MachineMeasurements:
    try:
        return measured_of(result, document.file)
    except ValidationError as error:
        raise InputError(problems(error, document, Result)) from None


def _tables(rows: Sequence[CollectiveRow]) -> tuple[CollectiveTable, ...]:
    groups: dict[tuple[Any, int, int], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.kind in get_args(CollectiveKind):
            groups[row.kind, row.ranks, row.hosts].append((row.bytes, row.times.mean_s))
    return tuple(
        CollectiveTable(kind=kind, ranks=ranks, nodes=nodes, points=tuple(sorted(points)))
        for (kind, ranks, nodes), points in groups.items()
    )


def _points(rows: Sequence[KernelRow]) -> dict[str, Any]:
    kinds: dict[str, Any] = {
        "gemm": GemmPoint,
        "attention": AttentionPoint,
        "convolution": ConvolutionPoint,
        "elementwise": ElementwisePoint,
    }
    found: dict[str, list[Any]] = {name: [] for name in kinds}
    for row in rows:
        point = kinds[row.operation].model_validate(row.shape | {"seconds": row.times.mean_s})
        found[row.operation].append(point)
    return {name: tuple(points) for name, points in found.items()}


def _costs(both: Overlap | None) -> dict[str, float]:
    """What computation and communication cost each other."""
    return {"host_share": both.host_share, "meeting_s": both.meeting_s} if both else {}


def _latest(points: Iterable[Any]) -> tuple[Any, ...]:
    """Of points with the same shape, the last."""
    by_shape = {repr(point.model_copy(update={"seconds": 0.0})): point for point in points}
    return tuple(by_shape.values())
