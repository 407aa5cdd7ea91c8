"""Checks of a node: ibstat and ibstatus, dcgmi diag (table and JSON), clocks and ECC of nvidia-smi -q.

Holds `NodeCheck`, `CheckFault` and `read_node_check`: what was found in order, what not, and what was
skipped.
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


@dataclass(slots=True)
class _Found:
    tools: dict[str, None] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    faults: list[CheckFault] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

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
        readers = (_Ports(found), _Diagnostics(found), _Clocks(found))
        for number, text in lines:
            for reader in readers:
                reader.take(number, text[:1000])
        for reader in readers:
            reader.end()
        problems = lines.problems
    if not found.tools:
        raise EmptyInput.of("is of no check of a node that is known", file=str(path))
    passed, faults, skipped = tuple(found.passed), tuple(found.faults), tuple(found.skipped)
    return NodeCheck(str(path), ", ".join(found.tools), passed, faults, skipped, problems)


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
