"""Why a job failed, as its logs say: time-outs, errors, kernel messages, ends of processes and jobs.

Holds `FailureText` and `FailureEvent`, `read_failure_text`, `says_failure`, and `FailureCause` and
`failure_causes`, the table `failures.yaml` of what such lines mean. Any text may stand around them
and ranks may be interleaved. Each line is of one cause at most; memory is bounded by the number of
different events, not by the file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from syncwall.documents import packed_or_plain, read_document
from syncwall.problems import InputError, Problem
from syncwall.read.limited import LogLines

_FILE: Final = packed_or_plain(Path(__file__).parent / "failures.yaml")
_EVENTS = 1_000
_RANKS = 200_000
_HOSTS = 100
_LINES = 100_000
"""Lines that are looked at closely."""
_BEFORE, _AFTER = 1_000, 3_000
"""Characters around what is found in a line."""
_BLOCK_CHARS = 1 << 18
_SEARCHED_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class FailureCause:
    """What ends a job."""

    name: str
    depth: int
    """0 for the machine, which explains all others, up to 5 for what follows from others."""
    state: str
    """wrong, or suspect if it may be harmless."""
    why: str
    next: str
    source: str
    """Address of the document that says so."""


@dataclass(slots=True)
class FailureEvent:
    """Lines of one cause that say the same."""

    cause: str
    line: int
    """The first of them."""
    text: str
    """The first of them, without what launchers put before it."""
    values: dict[str, str] = field(default_factory=dict)
    """What the lines name: rank, host, sequence, operation, pci, code, ..."""
    clock: str = ""
    """wall, boot or nothing: what `time_s` is by."""
    time_s: float = 0.0
    """Seconds since the start of a year, or of the host."""
    frame: str = ""
    """Innermost line of the user's program before it: file:line name."""
    ranks: set[int] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    count: int = 0


@dataclass(frozen=True)
class FailureText:
    """What one text says of a failure."""

    source: str
    lines: int
    events: tuple[FailureEvent, ...]
    """In the order of their first lines."""
    world: int | None = None
    """Ranks of the job, if the text says so."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class _Table:
    causes: dict[str, FailureCause]
    patterns: tuple[tuple[str, str, re.Pattern[str]], ...]
    """Cause, a text of every such line, and the pattern."""
    exits: dict[int, str]
    xids: dict[int, tuple[str, str]]
    """Cause and meaning."""
    completions: dict[int, str]
    """Meaning of a status that a network adapter returns."""
    marks: tuple[str, ...]
    """Every line that is of a cause holds one of these texts."""


_EXTRA: Final = (
    "NVRM: Xid",
    "exitcode",
    "return code = ",
    "Exit Code:",
    "exit code",
    "exit status",
    "host      : ",
    "rank      : ",
    "Root Cause (first",
    "world_size",
    "world size",
    "WORLD_SIZE",
    "Error",
    "Exception",
    "Interrupt",
    'File "',
)


@cache
def _table() -> _Table:
    found = read_document(_FILE).value
    sources = found["sources"]
    causes = {
        name: FailureCause(
            name, row["depth"], row.get("state", "wrong"), row["why"], row["next"], sources[row["source"]]
        )
        for name, row in found["causes"].items()
    }
    patterns = [(row["cause"], row["has"], re.compile(row["pattern"])) for row in found["patterns"]]
    return _Table(
        causes,
        tuple(patterns),
        {int(code): cause for code, cause in found["exits"].items()},
        {int(code): (row["cause"], row["means"]) for code, row in found["xids"].items()},
        {int(code): means for code, means in found["completions"].items()},
        tuple(dict.fromkeys([*(has for _, has, _ in patterns), *_EXTRA])),
    )


def failure_causes() -> dict[str, FailureCause]:
    """Every cause by its name."""
    return _table().causes


def xid_meaning(code: int) -> str:
    """What NVIDIA's driver means by an Xid."""
    return _table().xids.get(code, ("", "an error of the GPU"))[1]


def completion_meaning(status: int) -> str:
    """What libibverbs means by the status of a completion; nothing if it is rare."""
    return _table().completions.get(status, "")


def says_failure(path: Path | str) -> bool:
    """Whether a text has a line of a failure in its first 32 MiB."""
    reader, seen = _Reader(), 0
    try:
        for block in _blocks(LogLines(path)):
            reader.take(block)
            seen += sum(len(text) for _, text in block)
            if reader.events or seen > _SEARCHED_BYTES:
                break
    except InputError:  # as no log is
        return False
    return bool(reader.events)


def read_failure_text(path: Path | str) -> FailureText:
    """What the text at `path` says of a failure; InputError if it says nothing."""
    lines, reader, count = LogLines(path), _Reader(), 0
    for block in _blocks(lines):
        reader.take(block)
        count = block[-1][0]
    if not reader.events:
        raise InputError.of("says nothing of a failure", file=str(path))
    events = sorted(reader.events.values(), key=lambda event: event.line)
    problems = lines.problems
    if reader.is_full:
        cut = f"has more than {_LINES:,} lines that may say why it failed; the rest was not read"
        problems = (*problems, Problem(str(path), 0, 0, cut))
    return FailureText(str(path), count, tuple(events), reader.world, problems)


_Lines = list[tuple[int, str]]


def _blocks(lines: LogLines) -> Iterator[_Lines]:
    """Lines, some hundred thousand characters together."""
    block: _Lines = []
    size = 0
    for number, text in lines:
        block.append((number, text))
        size += len(text) + 1
        if size > _BLOCK_CHARS:
            yield block
            block, size = [], 0
    if block:
        yield block


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?)"
_NAMED = rf"(?P<name>{'|'.join(_MONTHS)}) {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}"
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\s{0,8}\[(?:rank|default|Rank |RANK )(?P<rank>\d{1,7})\]:?\s?",
        r"\s{0,8}\[\d{1,2},(?P<rank>\d{1,9})\]<std(?:out|err)>:\s?",
        r"(?P<rank>\d{1,7}): ",
        r"\[\d{1,7}\] ",
        r"(?:stderr|stdout): ?",
        r"\([\w:.]{1,60} pid=\d{1,9}(?:, ip=(?P<host>[\d.]{7,15}))?\) ",
        rf"\[?\d{{4}}-(?P<month>\d\d)-(?P<day>\d\d)[T_ ]{_CLOCK}(?: TP(?P<rank>\d{{1,4}}))?Z?\]?:? ",
        r"[-|] ",
        r"\[\s{0,12}(?:\+\s{0,4})?(?P<boot>\d{1,9}\.\d{1,9})\] ",
        rf"\[[A-Z][a-z]{{2}} {_NAMED} \d{{4}}\] ",
        rf"{_NAMED} (?:(?P<host>[\w.-]{{1,64}}) kernel: )?",
        rf"\[?[EWIF](?P<month>\d{{1,2}})(?P<day>\d\d) {_CLOCK} (?:\d{{1,9}} )?[^\]]{{1,100}}\] ",
        r"\[[EWIF] [^\]]{1,100}\] ",
        r"(?P<host>[\w.-]{1,64}): kern: \w{1,12}: ",
        r"(?:kern(?:el)?: )",
        r"(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d [^\]]{1,100}\] ?",
        r"(?:ERROR|WARNING|INFO|CRITICAL)[: ] ?",
    )
)
_MOST_PREFIXES = 6


@dataclass(slots=True)
class _Message:
    """A line without what stands before it, and what that says."""

    text: str
    rank: int | None = None
    host: str = ""
    clock: str = ""
    time_s: float = 0.0


def _message(text: str) -> _Message:
    found = _Message(text)
    for _ in range(_MOST_PREFIXES):
        for prefix in _PREFIXES:
            if match := prefix.match(found.text):
                _read_prefix(found, match.groupdict())
                found.text = found.text[match.end() :]
                break
        else:
            break
    return found


def _read_prefix(found: _Message, groups: dict[str, str | None]) -> None:
    if rank := groups.get("rank"):
        found.rank = int(rank)
    found.host = groups.get("host") or found.host
    if boot := groups.get("boot"):
        found.clock, found.time_s = "boot", float(boot)
    elif groups.get("hour"):
        name = groups.get("name")
        month = _MONTHS.index(name) + 1 if name else int(groups["month"] or 1)
        days = month * 31 + int(groups["day"] or 1)
        minutes = (days * 24 + int(groups["hour"] or 0)) * 60 + int(groups["minute"] or 0)
        found.clock = "wall"
        found.time_s = minutes * 60 + float((groups["second"] or "0").replace(",", "."))


_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<pci>[^)]{1,24})\): (?P<code>\d{1,4})(?P<detail>.{0,160})")
_PREVIOUS_XID = re.compile(r"previous Xid (\d{1,4})")
_SAME_FAULT_S = 120.0
"""A fault of a program on a GPU is the reason of what the GPU reports within this time after it."""
_EXIT = re.compile(
    r"(?:exitcode {0,4}:? {0,4}|return code = |Exit Code: {1,12}|non-zero exit status |exit code:? )"
    r"(?P<code>-?\d{1,3})\b(?:.{0,20}local_rank: (?P<local_rank>\d{1,7}))?"
)
_BLOCK = re.compile(r"\s{0,6}(host|rank) {6}: (\S{1,100})")
_WORLD = re.compile(r"(?:world[_ ]size|WORLD_SIZE)[\"']?[ =:]{1,3}(\d{1,7})\b")
_FIELD = re.compile(r"(\w{1,20})(?:\(ms\))?=(\w{1,40})")
_FIELDS = {"SeqNum": "sequence", "OpType": "operation", "NumelIn": "elements", "Timeout": "timeout_ms"}
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w{0,40}\.){0,8}(?P<exception>[A-Z]\w{0,60}(?:Error|Exception|Interrupt))(?::|$)"
)
_FRAME = re.compile(r'\s{0,12}File "(?P<file>[^"]{1,300})", line (?P<line>\d{1,7}), in (?P<name>\S{1,80})')
_IDENTITY = {"collective time-out": "sequence", "collective mismatch": "sequence"}
"""What tells events of a cause apart, if not the device."""


class _Reader:
    """Takes in lines; the events are ready at any time."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], FailureEvent] = {}
        self.world: int | None = None
        self._table = _table()
        self._frames: dict[int | None, str] = {}
        self._block: dict[str, str] = {}
        self._is_root = False
        self._looked_at = 0
        self._patterns = self._table.patterns

    @property
    def is_full(self) -> bool:
        """True if further lines are not looked at."""
        return self._looked_at >= _LINES

    def take(self, block: _Lines) -> None:
        """Take in lines, of which carriage returns may part some."""
        whole = "\n".join(text for _, text in block)
        marks = tuple(mark for mark in self._table.marks if mark in whole)
        self._patterns = tuple(one for one in self._table.patterns if one[1] in marks)
        if not marks:
            return
        for number, text in block:
            if not any(mark in text for mark in marks):
                continue
            for part in text.split("\r") if "\r" in text else (text,):
                at = min((at for mark in marks if (at := part.find(mark)) >= 0), default=-1)
                if at >= 0 and not self.is_full:
                    self._looked_at += 1
                    self._take(number, part[max(at - _BEFORE, 0) : at + _AFTER])

    def _take(self, number: int, text: str) -> None:
        message = _message(text)
        if "File " in message.text and (frame := _FRAME.match(message.text)):
            self._keep_frame(message.rank, frame)
            return
        if found := _WORLD.search(text):
            self.world = max(self.world or 0, int(found[1]))
        if "NVRM: Xid" in text:
            self._xid(number, text, message)
        elif self._of_table(number, text, message) or self._exit(number, text, message):
            return
        elif found := _EXCEPTION.match(message.text):
            self._add("exception in the program", number, message, found.groupdict(), message.text[:120])

    def _keep_frame(self, rank: int | None, frame: re.Match[str]) -> None:
        file = frame["file"]
        if "site-packages" in file or "dist-packages" in file or file.startswith(("torch/", "<")):
            return
        if rank in self._frames or len(self._frames) < _EVENTS:
            self._frames[rank] = f"{file}:{frame['line']} {frame['name']}"[-200:]

    def _of_table(self, number: int, text: str, message: _Message) -> bool:
        for cause, has, pattern in self._patterns:
            if has in text and (found := pattern.search(message.text) or pattern.search(text)):
                values = {key: value for key, value in found.groupdict().items() if value}
                for key, value in _FIELD.findall(values.pop("fields", "")):
                    if key in _FIELDS:
                        values[_FIELDS[key]] = value
                begin = found.start() if found.string is message.text else 0
                self._add(_refined(cause, values), number, message, values, begin=begin)
                return True
        return False

    def _exit(self, number: int, text: str, message: _Message) -> bool:
        """Ends of processes; tables of torchrun say host and rank in the lines before."""
        if "Root Cause (first" in text:
            self._is_root, self._block = True, {}
        elif found := _BLOCK.match(message.text):
            self._block[found[1]] = found[2]
        elif found := _EXIT.search(message.text):
            values = {**self._block, **{key: value for key, value in found.groupdict().items() if value}}
            code = int(values["code"])
            if code:
                signal = -code if code < 0 else code - 128
                cause = self._table.exits.get(signal, "a rank failed")
                event = self._add(cause, number, message, values, begin=found.start())
                if self._is_root and event is not None:
                    event.values.update(values)
            self._block, self._is_root = {}, False
        else:
            return False
        return True

    def _xid(self, number: int, text: str, message: _Message) -> None:
        found = _XID.search(text)
        if found is None:
            return
        previous = _PREVIOUS_XID.search(found["detail"])
        code = int(previous[1] if previous else found["code"])
        cause = self._table.xids.get(code, ("GPU stopped", ""))[0]
        fault = self.events.get(("GPU kernel fault", found["pci"]))
        if fault is not None and fault.clock == message.clock and self._table.causes[cause].depth == 0:
            is_soon = 0.0 <= message.time_s - fault.time_s <= _SAME_FAULT_S
            cause = "GPU work discarded" if is_soon else cause
        values = {"pci": found["pci"], "code": str(code), "detail": found["detail"].lstrip(", ")}
        self._add(cause, number, message, values)

    def _add(
        self,
        cause: str,
        number: int,
        message: _Message,
        values: dict[str, str],
        key: str = "",
        begin: int = 0,
    ) -> FailureEvent | None:
        key = key or values.get(_IDENTITY.get(cause, "pci"), "")
        event = self.events.get((cause, key))
        if event is None:
            if len(self.events) >= _EVENTS:
                return None
            event = self.events[cause, key] = FailureEvent(cause, number, _around(message.text, begin))
            event.clock, event.time_s = message.clock, message.time_s
            event.frame = self._frames.get(message.rank, "")
        event.count += 1
        if values.keys() - event.values.keys() - {"rank"} and not event.values.keys() - {"rank"}:
            event.text = _around(message.text, begin)
        for name, value in values.items():
            event.values.setdefault(name, value)
        rank = _whole(values.get("rank")) if "rank" in values else message.rank
        if rank is not None:
            event.values.setdefault("rank", str(rank))
            if len(event.ranks) < _RANKS:
                event.ranks.add(rank)
        host = values.get("host") or message.host
        if host and len(event.hosts) < _HOSTS:
            event.values.setdefault("host", host)
            event.hosts.add(host)
        return event


_LONG = 160


def _around(text: str, begin: int) -> str:
    """Some words before what was found in a line, and what follows it."""
    return (
        text.strip()[:300]
        if len(text) <= _LONG or begin < 60
        else f"... {text[begin - 40 : begin + 300]}".strip()
    )


def _refined(cause: str, values: dict[str, str]) -> str:
    """The cause that the numbers of a line tell."""
    joined, expected = _whole(values.get("joined")), _whole(values.get("expected"))
    if joined is not None and expected is not None and joined > expected:
        return "more processes than the world size"
    return cause


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None


def unit_bytes(text: str) -> float | None:
    """Bytes of "1.70 GiB", as PyTorch writes sizes."""
    found = re.match(r"([\d.]{1,12}) (bytes|KiB|MiB|GiB|TiB|KB|MB|GB)", text)
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        return None
    powers = {"b": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    return float(found[1]) * 1024.0 ** powers[found[2][0]]
