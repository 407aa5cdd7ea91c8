"""What a file is, from its first bytes, and the reader that it needs.

Holds `FileKind`, `TEXTS`, `kind_of` and `first_bytes` (names and endings do not count: people rename files),
`expanded` (the files that a user names, by what they are; directories are opened), and
`read_topology` and `read_fabric`, whatever wrote them.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

from syncwall.problems import InputError, Problem
from syncwall.read.fabric_file import (
    FabricGraph,
    read_ibnetdiscover,
    read_netq,
    read_slurm_topology,
    read_topograph,
)
from syncwall.read.failure_text import says_failure
from syncwall.read.host_topology import read_lstopo, read_smi_topology
from syncwall.read.limited import open_limited, read_xml
from syncwall.read.memory_snapshot import is_memory_snapshot
from syncwall.read.nccl_facts import NCCL_HEAD
from syncwall.read.nccl_topology import read_nccl_topology
from syncwall.read.topology import HostTopology
from syncwall.read.training_log_formats import STEP_LINE

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
    MEMORY = "CUDA memory snapshot"
    TOPOLOGY = "topology"
    GRAPH = "NCCL graph"
    FABRIC = "fabric"
    NSYS = "nsys report"
    MEASURED = "result of syncwall measure"
    IPERF3 = "iperf3 output"
    PERFTEST = "perftest output"
    TRAINING_LOG = "training log"
    NODE_CHECK = "node check"
    FAILURE = "failure log"


# No text may cost more than its length: a search starts once a line, and an atomic group `(?>...)`
# keeps the first place that fits, so that what follows it is looked for once.
_TEXT: Final[tuple[tuple[str | re.Pattern[str], FileKind], ...]] = (
    (r'"traceEvents"\s*:|^\s*\[\s*\{\s*"ph"', FileKind.TRACE),
    (r'"schema"\s*:\s*"[\w.+-]*(chakra|\d)', FileKind.EXECUTION),
    (r'(?s)\A(?>.*?"(?:pg_config|pg_status|comm_lib_version|nccl_version)"\s*:).*"entries"', FileKind.FLIGHT),
    (r'"syncwall"\s*:|"measured_with"', FileKind.MEASURED),
    (r"<graphs\b", FileKind.GRAPH),
    (r"<(system|topology)\b", FileKind.TOPOLOGY),
    (NCCL_HEAD, FileKind.NCCL_LOG),
    (r'"version"\s*:\s*"iperf|"sum_(sent|received)"\s*:|\d [KMGT]?bits/sec', FileKind.IPERF3),
    (r"BW average\[(MB|Gb)/sec\]", FileKind.PERFTEST),
    (r"#\s*nThread|out-of-place|\"nccl-tests\"|busbw", FileKind.NCCL_TESTS),
    (r"(?m)^[^\S\n]*GPU0\s|^GPU\d+\s+X\s", FileKind.TOPOLOGY),
    (r"(?m)^(vendid=|Switch\s+\d+\s|Ca\s+\d+\s|switches:)|\"compounded_links\"", FileKind.FABRIC),
    (r"(?m)^(?>.*?\bdp_rank,).*\boptype\b|^(?>.*?\boptype\b).*\bduration\b", FileKind.OPERATIONS),
    (r"(?m)^(?>.*?\*\* ).*(Summary|Statistics)|cuda_api_sum|nvtx_sum|Time \(%\)", FileKind.NSYS),
    (r"(?m)^\s{0,8}CA '\w|^Infiniband device '\w|\"DCGM (GPU )?Diagnostic\"", FileKind.NODE_CHECK),
    (r"(?m)^\| (Diagnostic +\| Result|[\w /]{1,40}\| (Pass|Fail|Skip)\b)", FileKind.NODE_CHECK),
    (r"(?m)Clocks (Throttle|Event) Reasons *$|^ {1,40}HW Slowdown +: ", FileKind.NODE_CHECK),
    (r"\bNVSMI LOG\b", FileKind.NODE_CHECK),
    (STEP_LINE, FileKind.TRAINING_LOG),
    (r"\d{1,7}MiB / {1,6}\d{1,7}MiB \|", FileKind.NODE_CHECK),
)


def first_bytes(path: Path | str) -> bytes:
    """What a file is told by, unpacked."""
    with open_limited(path) as stream:
        return stream.read(_HEAD)


def kind_of(path: Path | str) -> FileKind:
    """What the file at `path` is; an error names what is known if it is none of these."""
    head = first_bytes(path)
    if head.startswith(b"\x80"):
        return FileKind.MEMORY if is_memory_snapshot(head) else FileKind.FLIGHT
    if head.startswith(b"PAR1"):
        return FileKind.OPERATIONS
    if head[257:262] == b"ustar":
        return FileKind.EXECUTION
    text = head.decode("utf-8", "replace")
    for pattern, kind in _TEXT:
        if re.search(pattern, text):
            return kind
    if b"\0" not in head and says_failure(path):
        return FileKind.FAILURE
    known = ", ".join(kind.value for kind in FileKind)
    raise InputError.of(f"is not a known kind of file: {known} ({TEXTS})", file=str(path))


TEXTS: Final = (
    "time-outs of NCCL and c10d, out of memory, tracebacks, torchrun, Xid and dmesg, Slurm, Kubernetes; "
    "ibstat, dcgmi diag, nvidia-smi, nvidia-smi -q"
)
"""What of texts can be read."""
Files = dict[str, list[Path]]


def expanded(paths: Sequence[Path], kind_of: Callable[[Path], str] = kind_of) -> tuple[Files, list[Problem]]:
    """Files by kind, and those in directories that are of no known kind.

    A file that is named itself must be known; else `InputError`.
    """
    found: Files = {}
    unknown: list[Problem] = []
    for path in paths:
        if not path.is_dir():
            found.setdefault(kind_of(path), []).append(path)
            continue
        inside = sorted(one for one in path.rglob("*") if not one.is_dir())
        if not inside:
            raise InputError.of("is an empty directory", file=str(path))
        for one in inside:
            try:
                found.setdefault(kind_of(one), []).append(one)
            except InputError as error:
                unknown += error.problems
    if not found:
        raise InputError(unknown[:10])
    return found, unknown


def read_topology(path: Path | str) -> HostTopology:
    """What NCCL, hwloc, nvidia-smi or rocm-smi wrote; the kind is seen from the content."""
    with open_limited(path) as stream:
        head = stream.read(4096)
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return read_smi_topology(path)
    root, _ = read_xml(path)
    if root.tag == "system":
        return read_nccl_topology(path)
    if root.tag == "topology":
        return read_lstopo(path)
    raise InputError.of(
        f"holds <{root.tag}>, neither a topology of NCCL (<system>) nor of hwloc (<topology>)",
        file=str(path),
    )


def read_fabric(path: Path | str) -> FabricGraph:
    """What ibnetdiscover, NetQ, Slurm or topograph say; the kind is seen from the content."""
    with open_limited(path) as stream:
        head = stream.read(1 << 16)
    if head.lstrip().startswith((b"[", b"{")):
        return read_netq(path)
    if b"vendid=" in head or b"Switch\t" in head or b"Ca\t" in head:
        return read_ibnetdiscover(path)
    if b"switchname=" in head.lower():
        return read_slurm_topology(path)
    return read_topograph(path)
