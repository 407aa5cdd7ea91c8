"""One line of a NCCL log: who wrote it, and the shapes of the messages we read.

Holds `Line`, `nccl_lines` and the patterns. Formats of NCCL 2.7 to 2.29; every repetition in a
pattern is bounded, so that a damaged line costs no more than its length.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_HEAD = re.compile(
    r"(?<![\w.-])([\w.-]{1,255}):(\d{1,10}):(\d{1,10}) \[-?\d{1,4}\] (?:[\w./-]{1,128}:\d{1,6} )?"
    r"NCCL (INFO|WARN|TRACE|ERROR)\s?"
)
VERSION = re.compile(
    r"NCCL version (\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)\S{0,32}?(?:\+cuda([\d.]{1,12}))?(?:\s|$)"
)
BY_ENVIRONMENT = re.compile(r"(NCCL_\w{1,64}) set by environment to (.{0,256})")
SHELL = re.compile(
    r"(?:\+ )?(?:export |declare -x )?"
    r"((?:NCCL|CUDA|TORCH|PYTORCH|OMP|UCX|FI|SHARP)_[A-Z0-9_]{1,64})=([^\s;]{0,256})\s*$"
)
OMP_DEFAULT = re.compile(
    r"Setting OMP_NUM_THREADS environment variable for each process to be (\d{1,5})"
)
NETWORK = re.compile(r"Using network (.{1,64}?)\s*$")
PLUGIN = re.compile(
    r"(?:Plugin Path : |Successfully loaded external plugin |NET/Plugin: Using |"
    r"NET/Plugin : Plugin load returned 0 : )(\S{1,256})"
)
OFI_PLUGIN = re.compile(r"NET/OFI Initializing (aws-ofi-nccl\S{0,64}(?: \S{1,64})?)")
OFI_NICS = re.compile(
    r"NET/OFI Selected [Pp]rovider is (\S{1,32}?),?(?: fabric is \S{1,32})?"
    r" \(found (\d{1,4}) nics\)"
)
IB_LIST = re.compile(r"NET/IB(?:ext\w{0,8})? ?: Using (.{0,8192})")
IB_ITEM = re.compile(r"\[(\d{1,4})\]([\w.-]{1,64})(?::(\d{1,3}))?/(IB|RoCE)(/SHARP)?")
SOCKET_LIST = re.compile(r"NET/Socket ?: Using (.{0,8192})")
SOCKET_ITEM = re.compile(r"\[(\d{1,4})\]([\w.@-]{1,64}):")
VIRTUAL_NIC = re.compile(
    r"NET/IB : Made virtual device \[(\d{1,4})\] name=(\S{1,256}) speed=(\d{1,9})"
)
VIA = re.compile(
    r"Channel (\d{1,4})(?:/\d{1,4})? : (\d{1,7})\[\w{1,16}\] -> (\d{1,7})\[\w{1,16}\] "
    r"(?:\[(send|receive)\] )?via (.{1,128})"
)
NET_PATH = re.compile(r"NET/(.{1,64}?)/(\d{1,4})(\(\d{1,7}\))?((?:/\w{1,16}){0,3})\s*$")
RING = re.compile(r"Channel (\d{1,4})/(\d{1,4}) :\s+\d{1,7}(?:\s|$)")
TREES = re.compile(r"Trees (?:\[\d{1,4}\] )")
TREE_ITEM = re.compile(r"\[(\d{1,4})\] ")
CHANNELS = re.compile(r"(\d{1,4}) (coll|nvls|collnet|p2p) channels(?! per)")
INIT = re.compile(
    r"comm (0x[0-9a-f]{1,16}) rank (\d{1,7}) n[rR]anks (\d{1,7}) cudaDev (-?\d{1,4})"
    r"(?: nvmlDev -?\d{1,4})?(?: busId ([0-9a-fA-F]{1,16}))?(?: commId (0x[0-9a-f]{1,16}))?"
    r".{0,64}?- Init (START|COMPLETE)"
)
COMM = re.compile(
    r"comm (0x[0-9a-f]{1,16}) rank (\d{1,7}) nRanks (\d{1,7}) nNodes (\d{1,6}) localRanks (\d{1,5})"
)
TIMINGS = re.compile(
    r"Init timings.{0,64}? rank \d{1,7} nranks (\d{1,7}) total (\d{1,6}(?:\.\d{1,6})?)"
)
NVLS = re.compile(r"NVLS multicast support is (not )?available")
P2P_OFF = re.compile(
    r"P2P is disabled between|Could not enable P2P between|P2P access is not available"
)
GDR_OFF = re.compile(r"GPU Direct RDMA Disabled for")
WATCHDOG = re.compile(
    r"Watchdog caught collective operation timeout.{0,400}|\bNCCL.{0,40}[Tt]imed? ?out.{0,200}"
)


class Line(NamedTuple):
    """A message of one thread."""

    number: int
    host: str
    thread: str
    """host:pid:tid."""
    level: str
    """INFO, WARN, TRACE or ERROR."""
    text: str


def nccl_lines(number: int, raw: str) -> Iterator[Line]:
    """The NCCL messages in one line of a file; two, where two processes wrote at once."""
    at = raw.find("NCCL ")
    if at < 0:
        return
    # Nearly always one message, whose head begins at the last space before " [gpu]".
    start = raw.rfind(" ", 0, max(raw.rfind(" [", 0, at), 0)) + 1
    head = _HEAD.match(raw, start)
    heads = [head] if head and "NCCL " not in raw[head.end() :] else list(_HEAD.finditer(raw))
    for index, head in enumerate(heads):
        end = heads[index + 1].start() if index + 1 < len(heads) else len(raw)
        host, pid, tid, level = head.groups()
        yield Line(number, host, f"{host}:{pid}:{tid}", level, raw[head.end() : end])
