"""What a file is, from its first bytes.

Holds `FileKind` and `kind_of`. Names and endings do not count: people rename files.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncwall.problems import InputError
from syncwall.read.limited import open_limited

_HEAD: Final = 1 << 18
"""Bytes that are looked at."""


class FileKind(StrEnum):
    """What `syncwall explain` can read."""

    TRACE = "profiler trace"
    EXECUTION = "execution trace"
    OPERATIONS = "operation table"
    NCCL_LOG = "NCCL log"
    NCCL_TESTS = "nccl-tests output"
    FLIGHT = "flight-recorder dump"
    TOPOLOGY = "topology"
    GRAPH = "NCCL graph"
    FABRIC = "fabric"
    NSYS = "nsys report"
    MEASURED = "result of syncwall measure"


_TEXT: Final[tuple[tuple[str, FileKind], ...]] = (
    (r'"traceEvents"\s*:|^\s*\[\s*\{\s*"ph"', FileKind.TRACE),
    (r'"schema"\s*:\s*"[\w.+-]*(chakra|\d)', FileKind.EXECUTION),
    (r'"(pg_config|pg_status|comm_lib_version|nccl_version)"\s*:.*"entries"', FileKind.FLIGHT),
    (r'"syncwall"\s*:|"measured_with"', FileKind.MEASURED),
    (r"<graphs\b", FileKind.GRAPH),
    (r"<(system|topology)\b", FileKind.TOPOLOGY),
    (r"NCCL (INFO|WARN|TRACE)", FileKind.NCCL_LOG),
    (r"#\s*nThread|out-of-place|\"nccl-tests\"|busbw", FileKind.NCCL_TESTS),
    (r"(?m)^\s*GPU0\s.*|^GPU\d+\s+X\s", FileKind.TOPOLOGY),
    (r"(?m)^(vendid=|Switch\s+\d+\s|Ca\s+\d+\s|switches:)|\"compounded_links\"", FileKind.FABRIC),
    (r"\bdp_rank,.*\boptype\b|\boptype\b.*\bduration\b", FileKind.OPERATIONS),
    (r"\*\* .*(Summary|Statistics)|cuda_api_sum|nvtx_sum|Time \(%\)", FileKind.NSYS),
)


def kind_of(path: Path | str) -> FileKind:
    """What the file at `path` is; an error names what is known if it is none of these."""
    with open_limited(path) as stream:
        head = stream.read(_HEAD)
    if head.startswith(b"\x80"):
        return FileKind.FLIGHT
    if head.startswith(b"PAR1"):
        return FileKind.OPERATIONS
    if head[257:262] == b"ustar":
        return FileKind.EXECUTION
    text = head.decode("utf-8", "replace")
    for pattern, kind in _TEXT:
        if re.search(pattern, text, re.DOTALL if kind is FileKind.FLIGHT else 0):
            return kind
    known = ", ".join(kind.value for kind in FileKind)
    raise InputError.of(f"is none of what is known: {known}", file=str(path))
