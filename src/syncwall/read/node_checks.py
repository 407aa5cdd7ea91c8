"""Checks of a node: ibstat and ibstatus, dcgmi diag (table and JSON), nvidia-smi (its table, and -q).

Holds `NodeCheck`, `CheckFault` and `read_node_check`: what was found in order, what not, and what was
skipped. The table of nvidia-smi is of one moment: it can show a fault, never that all is well.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.read.limited import LogLines, open_limited, plain_text

_MOST = 10_000
_JSON_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class CheckFault:
    """One thing that is not in order."""

    cause: str
    what: str
    line: int = 0
    is_sure: bool = True


@dataclass(frozen=True)
class NodeCheck:
    """What one output says."""

    source: str
    tool: str
    passed: tuple[str, ...]
    faults: tuple[CheckFault, ...]
    skipped: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    screen: str = ""
    """What the table of nvidia-smi shows."""


@dataclass(slots=True)
class _Found:
    tools: dict[str, None] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    faults: list[CheckFault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    screen: str = ""

    def passes(self, what: str) -> None:
        if len(self.passed) < _MOST:
            self.passed.append(what)

    def fails(self, cause: str, what: str, line: int, *, is_sure: bool = True) -> None:
        if len(self.faults) < _MOST:
            self.faults.append(CheckFault(cause, what[:400], line, is_sure))


def read_node_check(path: Path | str) -> NodeCheck:
    """What the output at `path` says; InputError if it is of none of these tools."""
    with open_limited(path) as stream:
        head = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    found = _Found()
    problems: tuple[Problem, ...] = ()
    if head.startswith(b"{"):
        _json(path, found)
    else:
        lines = LogLines(path)
        readers = (_Ports(found), _Diagnostics(found), _Clocks(found), _Screen(found))
        for number, text in lines:
            for reader in readers:
                reader.take(number, text[:1000])
        for reader in readers:
            reader.end()
        problems = lines.problems
    if not found.tools:
        raise EmptyInput.of("is of no check of a node that is known", file=str(path))
    passed, faults, skipped = tuple(found.passed), tuple(found.faults), tuple(found.skipped)
    return NodeCheck(str(path), ", ".join(found.tools), passed, faults, skipped, problems, found.screen)


class _Ports:
    """ibstat and ibstatus: ports that should be Active and LinkUp."""

    _DEVICE = re.compile(r"\s{0,8}CA '([\w.-]{1,64})'|Infiniband device '([\w.-]{1,64})' port (\d{1,3})")
    _KEY = re.compile(
        r"\s{0,40}(State|Physical state|Rate|state|phys state|rate|Port (?=\d)):?\s{0,20}"
        r"(?:\d{1,2}: )?([\w.]{1,40})"
    )

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._device, self._port, self._line = "", "1", 0
        self._said: dict[str, str] = {}
        self._rates: dict[str, tuple[float, int]] = {}

    def take(self, number: int, text: str) -> None:
        if match := self._DEVICE.match(text):
            self._close()
            self._device, self._port = match[1] or match[2], match[3] or "1"
            self._line = number
            self._found.tools["ibstat" if match[1] else "ibstatus"] = None
        elif self._device and (match := self._KEY.match(text)):
            if match[1].startswith("Port"):
                self._close()
                self._port, self._line = match[2], number
            else:
                self._said[match[1].lower().replace("phys state", "physical state")] = match[2]

    def _close(self) -> None:
        name, said = f"{self._device} port {self._port}", self._said
        self._said = {}
        if "state" not in said:
            return
        state, physical = said["state"], said.get("physical state", "LinkUp")
        if state.lower() == "active" and physical.lower() == "linkup":
            self._found.passes(f"{name} Active at {said.get('rate', '?')} Gb/s")
            if said.get("rate", "").isdecimal():
                self._rates[name] = float(said["rate"][:9]), self._line
        else:
            self._found.fails("network port down", f"{name} is {state}, physically {physical}", self._line)

    def end(self) -> None:
        self._close()
        best = max((rate for rate, _ in self._rates.values()), default=0.0)
        for name, (rate, line) in self._rates.items():
            if 2 * rate <= best < 8 * rate:  # adapters for storage and management are slower still
                what = f"{name} runs at {rate:.0f} Gb/s, others at {best:.0f}"
                self._found.fails("network port slow", what, line, is_sure=False)


class _Diagnostics:
    """The table of dcgmi diag."""

    _ROW = re.compile(r"\|([^|]{1,60})\|([^|]{1,200})\|?\s*$")
    _RESULT = re.compile(r"\s*(?:GPUs?\s?\d*: )?(Pass|Fail|FAIL|Skip|Warn|Not Run)\b(.*)")
    _DETAILS = ("Error", "Warning", "Info")

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._test, self._line = "", 0
        self._results: set[str] = set()
        self._details: list[tuple[str, list[str]]] = []

    def take(self, number: int, text: str) -> None:
        match = self._ROW.match(text)
        if match is None or match[1].startswith(("=", "-----")):
            return
        name, cell = match[1].strip(), match[2]
        result = self._RESULT.match(cell)
        if name in self._DETAILS:
            self._found.tools["dcgmi diag"] = None
            self._details.append((name, [cell[1:].rstrip()]))
            self._line = self._line or number
        elif name and result:
            self._close()
            self._found.tools["dcgmi diag"] = None
            self._test, self._line, self._results = name, number, {result[1].lower()}
        elif not name and result:
            self._results.add(result[1].lower())
        elif not name and self._details:
            self._details[-1][1].append(cell[1:].rstrip())

    def _close(self) -> None:
        details = ["".join(parts).strip() for kind, parts in self._details if kind != "Info"]
        is_error = any(kind == "Error" for kind, _ in self._details)
        self._details = []
        test, results, self._test, self._results = self._test, self._results, "", set()
        said = f": {'; '.join(details)}" if details else ""
        if "fail" in results or is_error:
            self._found.fails("GPU test failed", f"{test or 'dcgmi diag'} failed{said}", self._line)
        elif details or "warn" in results:
            self._found.fails("GPU test failed", f"{test} warns{said}", self._line, is_sure=False)
        elif "pass" in results:
            self._found.passes(test)
        elif results:
            self._found.skipped.append(test)
        self._line = 0

    def end(self) -> None:
        self._close()


class _Clocks:
    """What holds clocks down, and memory errors, of nvidia-smi -q."""

    _KEY = re.compile(r"\s{0,40}([A-Z][\w./ -]{1,40}?)\s{0,40}: ([\w.-]{1,40}(?: [\w.-]{1,40})?)")
    _BAD: Final = {
        "HW Slowdown": "the hardware halves its clocks or more",
        "HW Thermal Slowdown": "too hot",
        "HW Power Brake Slowdown": "power supply or board ask for it",
        "SW Thermal Slowdown": "too hot",
    }
    _PLAIN = ("SW Power Cap", "Sync Boost", "Idle", "Applications Clocks Setting")
    _ERRORS = ("DRAM Uncorrectable", "SRAM Uncorrectable", "Double Bit ECC", "Remapping Failure Occurred")

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._gpu = ""
        self._active: list[tuple[str, int]] = []
        self._seen, self._is_idle, self._is_past = 0, False, False

    def take(self, number: int, text: str) -> None:
        if text.startswith("GPU ") and ":" in text:
            self._close()
            self._gpu = f"GPU {text[4:30].strip()}"
        if "NVSMI LOG" in text:
            self._found.tools["nvidia-smi -q"] = None
        match = self._KEY.match(text)
        if match is None:
            self._is_past = (self._is_past or "Aggregate" in text) and "Volatile" not in text
            return
        key, value = match[1].strip(), match[2].strip()
        if key in self._BAD or key in self._PLAIN:
            self._found.tools["nvidia-smi -q"] = None
            self._seen += 1
            self._is_idle |= key == "Idle" and value == "Active"
            if value == "Active" and key in self._BAD:
                self._active.append((key, number))
        elif key in self._ERRORS and (value == "Yes" or (value.isdecimal() and int(value[:9]) > 0)):
            self._found.tools["nvidia-smi -q"] = None
            since = " in its life" if self._is_past else ""
            what = f"{self._gpu or 'a GPU'} had uncorrected memory errors{since} ({key}: {value})"
            self._found.fails("GPU memory error", what, number, is_sure=not self._is_past)

    def _close(self) -> None:
        who = self._gpu or "a GPU"
        if self._active:
            names = [name for name, _ in self._active]
            exact = [name for name in names if name != "HW Slowdown"] or names
            why = ", ".join(f"{name} ({self._BAD[name]})" for name in exact)
            self._found.fails("clocks throttled", f"{who} is held back: {why}", self._active[0][1])
        elif self._seen:
            self._found.passes(f"clocks of {who} are free{' (idle)' if self._is_idle else ''}")
        self._active, self._seen, self._is_idle = [], 0, False

    def end(self) -> None:
        self._close()


@dataclass(slots=True)
class _Gpu:
    """One GPU in the table of nvidia-smi."""

    number: str
    name: str
    line: int
    ecc: int = 0
    is_read: bool = True
    """False if the driver could not read one of its sensors."""
    temperature_c: int | None = None
    power_w: int | None = None
    cap_w: int | None = None
    used_mib: int | None = None
    total_mib: int | None = None
    busy: int | None = None
    """Percent of the last second in which a kernel ran, be it one that waits."""


class _Screen:
    """The table that nvidia-smi shows: two rows a GPU, and the processes."""

    _FIRST = re.compile(
        r"\|\s{1,4}(?P<number>\d{1,3})\s{2}(?P<name>\S.{1,40}?)\s{1,30}(?:On|Off|N/A)\s{0,4}\|"
        r"\s{0,4}[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:.{0,16}\|\s{0,24}(?P<ecc>\d{1,9}|N/A|Off|ERR!)\s{0,3}\|"
    )
    _SECOND = re.compile(
        r"\|\s{0,3}\S{1,5}\s{1,6}(?P<temperature>\d{1,3}C|\S{1,5})\s{1,8}\S{2,5}\s{1,24}"
        r"(?P<power>\d{1,4}W|\S{1,10})\s{1,3}/\s{1,4}(?P<cap>\d{1,4}W|\S{1,10})\s{0,3}\|\s{0,14}(?P<used>\d{1,7})MiB\s"
        r"{0,4}/\s{0,6}(?P<total>\d{1,7})MiB\s{0,3}\|\s{0,8}(?:(?P<busy>\d{1,3})%|\S{1,5})"
    )
    _PROCESS = re.compile(r"\|\s{1,6}\d{1,3}\s.{1,40}\s(?:C|M\+C|C\+G)\s{1,4}\S.{0,80}MiB\s{0,3}\|")

    def __init__(self, found: _Found) -> None:
        self._found = found
        self._gpus: list[_Gpu] = []
        self._processes = 0

    def take(self, number: int, text: str) -> None:
        if first := self._FIRST.search(text):
            ecc = first["ecc"]
            gpu = _Gpu(first["number"], first["name"].strip(), number, int(ecc) if ecc.isdecimal() else 0)
            gpu.is_read = ecc != "ERR!"
            if len(self._gpus) < _MOST:
                self._gpus.append(gpu)
        elif self._gpus and self._gpus[-1].total_mib is None and (second := self._SECOND.search(text)):
            gpu, said = self._gpus[-1], second.groupdict("")
            gpu.is_read = gpu.is_read and "ERR!" not in second[0]
            gpu.temperature_c = _number(said["temperature"], "C")
            gpu.power_w, gpu.cap_w = _number(said["power"], "W"), _number(said["cap"], "W")
            gpu.used_mib, gpu.total_mib = int(said["used"]), int(said["total"])
            gpu.busy = _number(said["busy"])
        elif self._gpus and self._PROCESS.search(text):
            self._processes += 1

    def end(self) -> None:
        gpus = [one for one in self._gpus if one.total_mib is not None]
        if not gpus:
            return
        self._found.tools["nvidia-smi"] = None
        for gpu in gpus:
            self._judge(gpu, gpus)
        self._found.screen = self._shown(gpus)

    def _judge(self, gpu: _Gpu, gpus: list[_Gpu]) -> None:
        who, fails = f"GPU {gpu.number} ({gpu.name})", self._found.fails
        same = [one for one in gpus if one.name == gpu.name]
        if gpu.ecc:
            fails("GPU memory error", f"{who} had {gpu.ecc} uncorrected memory errors", gpu.line)
        if not gpu.is_read:
            fails("GPU not readable", f"the driver cannot read sensors of {who}", gpu.line, is_sure=False)
        if (gpu.temperature_c or 0) >= _HOT_C:
            fails("GPU hot", f"{who} is at {gpu.temperature_c} °C", gpu.line, is_sure=False)
        cap = max((one.cap_w or 0 for one in same), default=0)
        if gpu.cap_w is not None and gpu.cap_w < cap:
            what = f"{who} may take {gpu.cap_w} W, others of its kind {cap}"
            fails("power cap differs", what, gpu.line, is_sure=False)
        others = [one.busy for one in same if one is not gpu and one.busy is not None]
        if gpu.busy == 0 and _holds(gpu) and others and min(others) >= _BUSY:
            what = f"{who} is idle and holds {gpu.used_mib} MiB, all {len(others)} others are busy"
            fails("GPU idle among busy ones", what, gpu.line, is_sure=False)

    def _shown(self, gpus: list[_Gpu]) -> str:
        names = list(dict.fromkeys(one.name for one in gpus))
        spans = (
            ("MiB used", [one.used_mib for one in gpus]),
            ("MiB in all", [one.total_mib for one in gpus]),
            ("% busy", [one.busy for one in gpus]),
            ("°C", [one.temperature_c for one in gpus]),
            ("W taken", [one.power_w for one in gpus]),
            ("W allowed", [one.cap_w for one in gpus]),
        )
        said = [f"{len(gpus)} x {', '.join(names[:3])}"]
        for unit, values in spans:
            known = sorted(value for value in values if value is not None)
            if known:
                low, high = known[0], known[-1]
                said.append(f"{low}{f' to {high}' if high > low else ''} {unit}")
        return "; ".join([*said, f"{self._processes} processes"] if self._processes else said)


_HOT_C: Final = 90
"""No data-centre GPU is to be run hotter; most slow down some degrees below or above."""
_BUSY: Final = 90
_HELD_MIB: Final = 1024


def _holds(gpu: _Gpu) -> bool:
    """Whether a job has memory of it; a context alone takes some hundred MiB."""
    return (gpu.used_mib or 0) >= _HELD_MIB


def _number(text: str, unit: str = "") -> int | None:
    number = text.removesuffix(unit)
    return int(number) if number.isdecimal() else None


def _json(path: Path | str, found: _Found) -> None:
    """Dcgmi diag -j of DCGM 3 and 4."""
    with open_limited(path) as stream:
        raw = stream.read(_JSON_BYTES)
    try:
        root = json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError.of("is not whole JSON", file=str(path)) from None
    top = root if isinstance(root, dict) else {}
    body = top.get("DCGM Diagnostic") or top.get("DCGM GPU Diagnostic")
    if not isinstance(body, dict):
        return
    found.tools["dcgmi diag"] = None
    for test in _tests(body):
        name = plain_text(test.get("name")) or "a test"
        results = list(_dicts(test.get("results")))
        summary = test.get("test_summary")
        stated = [*results, *([summary] if isinstance(summary, dict) else [])]
        states = {plain_text(one.get("status")).lower() for one in stated}
        details = list(dict.fromkeys(detail for one in stated for detail in _details(one)))
        said = f": {'; '.join(details[:3])}" if details else ""
        if "fail" in states:
            who = [_entity(one) for one in results if plain_text(one.get("status")).lower() == "fail"]
            found.fails("GPU test failed", f"{name} failed{_on(who)}{said}", 0)
        elif "warn" in states:
            found.fails("GPU test failed", f"{name} warns{said}", 0, is_sure=False)
        elif "pass" in states:
            found.passes(name)
        elif states:
            found.skipped.append(name)


def _tests(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    count = 0
    for category in _dicts(body.get("test_categories")):
        for test in _dicts(category.get("tests")):
            count += 1
            if count > _MOST:
                return
            yield test


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    return (one for one in (value if isinstance(value, list) else [])[:_MOST] if isinstance(one, dict))


def _details(result: dict[str, Any]) -> Iterator[str]:
    for key in ("warnings", "warning", "error"):
        value = result.get(key)
        if isinstance(value, str):
            yield plain_text(value)
        for one in value if isinstance(value, list) else ():
            yield plain_text(one.get("warning") if isinstance(one, dict) else one)


def _entity(result: dict[str, Any]) -> str:
    return plain_text(result.get("gpu_id", result.get("entity_id", "")), 40)


def _on(who: list[str]) -> str:
    named = [one for one in who if one][:8]
    return f" on GPU {', '.join(named)}" if named else ""
