"""Rates of single links: outputs of iperf3 (JSON or text) and of perftest (ib_write_bw and others).

Holds `LinkRate`, `read_iperf3` and `read_perftest`. A file may hold several runs, one after the
other. Rates are in bytes/s: perftest's MB/sec are 2^20 bytes, its Gb/sec and those of iperf3 10^9
bits.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall.problems import EmptyInput, InputError
from syncwall.read.limited import LogLines, open_limited, plain_text, whole_json, without_launcher
from syncwall.read.nccl_tests import number

_RUNS: Final = 1_000
_JSON_BYTES: Final = 16 << 20
_LINE: Final = 1_000
"""Letters of a line of iperf3, and whatever a launcher writes before it."""
_UNITS: Final = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_CONNECTED: Final = re.compile(
    r"\[\s{0,4}\d{1,4}\] local (\S{1,255}) port \d{1,5} connected (?:to|with) (\S{1,255}) port"
)
_SUMMED: Final = re.compile(
    r"\[(SUM|\s{0,4}\d{1,4})\].{1,120}?\s(\d{1,9}(?:\.\d{1,9})?) ([KMGT]?)bits/sec"
    r".{0,24}\s(sender|receiver)"
)
_PERFTEST: Final = re.compile(r"\s{0,20}(?:RDMA_)?(Write|Read|Send)\s?.{0,20}\bBW\b.{0,20}Test")
_FIELD: Final = re.compile(r"\b(Device|Number of qps)\s{1,20}: (\S{1,64})")
_HEAD: Final = re.compile(r"\s{0,4}#bytes.{1,80}BW average\[(MB|Gb)/sec\]")
_ROW: Final = re.compile(
    r"\s{0,4}(\d{1,15})\s{1,20}\d{1,15}\s{1,40}(\d{1,9}\.\d{1,9})\s{1,40}(\d{1,9}\.\d{1,9})\s"
)
_PERFTEST_UNIT: Final = {"MB": 2.0**20, "Gb": 1e9 / 8}


@dataclass(frozen=True, slots=True)
class LinkReading:
    """What one link reached."""

    source: str
    tool: str
    """iperf3, or what perftest calls itself: Write, Read, Send."""
    bytes_per_s: float
    """One way, all streams together; of perftest, at the best size."""
    streams: int = 1
    """TCP connections, or queue pairs."""
    local: str = ""
    remote: str = ""
    device: str = ""
    """The adapter: mlx5_0."""
    retransmits_per_gb: float | None = None
    """TCP segments that were sent again, for each 10^9 bytes sent; None if unknown."""

    @property
    def who(self) -> str:
        """The link in a few words."""
        ends = f"{self.local} – {self.remote}" if self.local and self.remote else ""
        return " ".join(filter(None, (self.device, ends))) or Path(self.source).name


def read_iperf3(path: Path | str) -> tuple[LinkReading, ...]:
    """Every run in the file; raises `InputError` if none ended."""
    with open_limited(path) as stream:
        is_json = stream.peek(64).lstrip()[:1] == b"{"
    found = _json(path) if is_json else list(_iperf_text(path))
    if not found:
        message = "has no result of iperf3: did the test end? its last lines sum up each stream"
        raise EmptyInput.of(message, file=str(path))
    return tuple(found)


def read_perftest(path: Path | str) -> tuple[LinkReading, ...]:
    """Every run in the file; raises `InputError` if none has a row of results."""
    found = [run for run in _perftest_runs(path) if run.bytes_per_s > 0]
    if not found:
        message = "has no rows of results of ib_write_bw or a sibling"
        raise EmptyInput.of(message, file=str(path))
    return tuple(found)


def _json(path: Path | str) -> list[LinkReading]:
    with open_limited(path) as stream:
        raw = stream.read(_JSON_BYTES + 1)
    if len(raw) > _JSON_BYTES:
        raise InputError.of("is larger than any output of iperf3 (16 MiB)", file=str(path))
    root = _dict(whole_json(raw, str(path), "a run of iperf3"))
    start, end = _dict(root.get("start")), _dict(root.get("end"))
    links = start.get("connected")
    first = _dict(links[0]) if isinstance(links, list) and links else {}
    sums = [_dict(end.get(key)) for key in ("sum_received", "sum", "sum_sent")]
    rate = next((r for one in sums if (r := number(one.get("bits_per_second")))), None)
    if rate is None or rate <= 0:
        return []
    sent = _dict(end.get("sum_sent"))
    again, sent_bytes = number(sent.get("retransmits")), number(sent.get("bytes"))
    return [
        LinkReading(
            str(path),
            "iperf3",
            rate / 8.0,
            streams=len(links) if isinstance(links, list) else 1,
            local=plain_text(first.get("local_host"), 255),
            remote=plain_text(first.get("remote_host"), 255),
            retransmits_per_gb=again / sent_bytes * 1e9 if again and sent_bytes else None,
        )
    ]


def _iperf_text(path: Path | str) -> Iterator[LinkReading]:
    """A run at each change from sums of a test to the connections of the next."""
    ends: list[tuple[str, str]] = []
    sums: dict[tuple[str, str], float] = {}
    lines = LogLines(path)
    count = 0
    for _, raw in lines:
        if len(raw) > _LINE:
            continue
        text = without_launcher(raw)
        if found := _CONNECTED.search(text):
            if sums and count < _RUNS:
                count += 1
                yield _summed(lines.source, ends, sums)
            if sums:
                ends, sums = [], {}
            if len(ends) < _RUNS:
                ends.append((found[1], found[2]))
        elif (found := _SUMMED.search(text)) and len(sums) < 2 * _RUNS:
            sums[found[1].strip(), found[4]] = float(found[2]) * _UNITS[found[3]] / 8.0
    if sums:
        yield _summed(lines.source, ends, sums)


def _summed(source: str, ends: list[tuple[str, str]], sums: dict[tuple[str, str], float]) -> LinkReading:
    """One run: what was received, of all streams where the text sums them up."""
    summed = any(name == "SUM" for name, _ in sums)
    own = {end: 0.0 for _, end in sums}
    for (name, end), rate in sums.items():
        own[end] += rate if not summed or name == "SUM" else 0.0
    local, remote = ends[0] if ends else ("", "")
    rate = own.get("receiver") or own.get("sender") or 0.0
    return LinkReading(source, "iperf3", rate, max(len(ends), 1), local, remote)


def _perftest_runs(path: Path | str) -> Iterator[LinkReading]:
    lines = LogLines(path)
    values: dict[str, Any] = {}
    best = 0.0
    for count, (_, raw) in enumerate(lines):
        text = without_launcher(raw)
        if found := _PERFTEST.match(text):
            if best:
                yield _perftest(lines.source, values, best)
            values, best = {"tool": found[1]}, 0.0
        elif fields := _FIELD.findall(text):
            values.update(fields)
        elif found := _HEAD.match(text):
            values["unit"] = _PERFTEST_UNIT[found[1]]
        elif "unit" in values and (found := _ROW.match(f"{text} ")):
            best = max(best, float(found[3]) * values["unit"])
        if count > 100 * _RUNS:
            break
    yield _perftest(lines.source, values, best)


def _perftest(source: str, values: dict[str, Any], best: float) -> LinkReading:
    pairs = values.get("Number of qps", "")
    return LinkReading(
        source,
        f"perftest {values.get('tool', '')}".strip(),
        best,
        streams=int(pairs) if pairs.isdecimal() and len(pairs) < 7 else 1,
        device=values.get("Device", ""),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
