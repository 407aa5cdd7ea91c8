"""What was measured on a machine, with whatever tool.

Holds `read_machine_measured`: results of `syncwall measure`, calibrations, and outputs of
nccl-tests, as what `predict --calibration` takes.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from syncwall.cost.measured import CollectiveTable, MachineMeasurements
from syncwall.measure.calibrate import joined_calibrations, read_measured
from syncwall.problems import InputError
from syncwall.read.detect import FileKind, kind_of
from syncwall.read.nccl_tests import NcclTests, read_nccl_tests
from syncwall.work.operations import CollectiveKind

_KINDS: Final[dict[str, CollectiveKind]] = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
}


def read_machine_measured(paths: Sequence[str | Path]) -> MachineMeasurements:
    """What the files say together; where two say something of the same, the later one counts."""
    files = map(Path, paths)
    return joined_calibrations(
        [_nccl_tests(path) if _is_nccl_tests(path) else read_measured([path]) for path in files]
    )


def _is_nccl_tests(path: Path) -> bool:
    try:
        return kind_of(path) is FileKind.NCCL_TESTS
    except InputError:  # whoever reads it as a calibration says what is wrong
        return False


def _nccl_tests(path: Path) -> MachineMeasurements:
    runs = [run for run in read_nccl_tests(path) if run.collective in _KINDS]
    groups: dict[tuple[CollectiveKind, int, int], dict[float, float]] = defaultdict(dict)
    for run in runs:
        ranks, nodes = _ranks(run)
        for row in run.rows:
            if row.out_of_place and row.size_bytes > 0 and row.out_of_place.time_us > 0:
                kind = _KINDS[str(run.collective)]
                groups[kind, ranks, nodes][row.size_bytes] = row.out_of_place.time_us * 1e-6
    tables = [
        CollectiveTable(kind=kind, ranks=ranks, nodes=nodes, points=tuple(sorted(points.items())))
        for (kind, ranks, nodes), points in groups.items()
        if ranks > 1
    ]
    if not tables:
        message = "does not name the ranks and hosts: give the whole output, header included"
        raise InputError.of(message, file=str(path))
    return MachineMeasurements(sources=(str(path),), collectives=tuple(tables))


def _ranks(run: NcclTests) -> tuple[int, int]:
    """Ranks, and the hosts that they stand on."""
    hosts = len({device.host for device in run.devices})
    return run.ranks or len(run.devices), max(hosts, 1)
