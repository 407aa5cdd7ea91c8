"""`NCCL_DEBUG=INFO` logs: what NCCL found, what it uses, what it was told.

Holds `read_nccl_log`. Any text may stand around NCCL's lines, ranks may be interleaved; memory is
bounded by the number of ranks and of different messages, not by the file.
"""

import re
from pathlib import Path

from syncwall.problems import InputError
from syncwall.read import nccl_lines as shape
from syncwall.read.log_lines import LogLines, without_launcher
from syncwall.read.nccl_communicators import CommunicatorReader
from syncwall.read.nccl_facts import Message, NcclLog, Setting
from syncwall.read.nccl_network import NetworkReader
from syncwall.read.nccl_tuning import TuningReader

_MESSAGES = 500
_SETTINGS = 2_000
_HOSTS = 50_000
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


def read_nccl_log(path: Path | str) -> NcclLog:
    """Everything that the NCCL lines of a log say; plain or packed with gzip or zip.

    Raises `InputError` if the file has no line of NCCL.
    """
    lines = LogLines(path)
    reader = _Reader(lines.source)
    for number, text in lines:
        reader.read(number, text)
    if not reader.count:
        raise InputError.of(
            "has no line of NCCL; run with NCCL_DEBUG=INFO and name the file with its output",
            file=lines.source,
        )
    return reader.result(lines)


class _Messages:
    """Texts that are equal up to their numbers, counted."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, int]] = {}
        self._count: dict[str, int] = {}

    def add(self, text: str, number: int) -> None:
        key = _NUMBER.sub("#", text[:400])
        if key in self._first or len(self._first) < _MESSAGES:
            self._first.setdefault(key, (text[:400].strip(), number))
            self._count[key] = self._count.get(key, 0) + 1

    def result(self) -> tuple[Message, ...]:
        return tuple(Message(*self._first[key], count) for key, count in self._count.items())


class _Reader:
    """State of one file."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0
        self.version: str | None = None
        self.cuda: str | None = None
        self.hosts: set[str] = set()
        self.environment: dict[str, Setting] = {}
        self.network = NetworkReader()
        self.communicators = CommunicatorReader()
        self.tuning = TuningReader()
        self.warnings = _Messages()
        self.timeouts = _Messages()

    def read(self, number: int, text: str) -> None:
        found = False
        for line in shape.nccl_lines(number, text):
            found = True
            self._nccl(line)
        if not found:
            self._other(number, text)

    def _nccl(self, line: shape.Line) -> None:
        self.count += 1
        if len(self.hosts) < _HOSTS:
            self.hosts.add(line.host)
        if line.level in ("WARN", "ERROR"):
            self.warnings.add(line.text, line.number)
        elif not (
            self.network.read(line)
            or self.communicators.read(line)
            or self.tuning.read(line.thread, line.text)
        ):
            self._rest(line.number, line.text)

    def _rest(self, number: int, text: str) -> None:
        if " set by environment " in text and (found := shape.BY_ENVIRONMENT.search(text)):
            self._setting(found[1], found[2].strip().removesuffix("."), number)
        elif found := shape.VERSION.search(text):
            self.version, self.cuda = self.version or found[1], self.cuda or found[2]

    def _other(self, number: int, text: str) -> None:
        """A line that NCCL did not begin: the version, the shell's environment, the watchdog."""
        if "NCCL version" in text and (found := shape.VERSION.search(text)):
            self.count += 1
            self.version, self.cuda = self.version or found[1], self.cuda or found[2]
        elif "=" in text and (found := shape.SHELL.match(without_launcher(text))):
            self._setting(found[1], found[2].strip("'\""), number)
        elif "OMP_NUM_THREADS" in text and (found := shape.OMP_DEFAULT.search(text)):
            self._setting("OMP_NUM_THREADS", found[1], number)
        elif "ime" in text and (found := shape.WATCHDOG.search(text)):
            self.timeouts.add(found[0], number)

    def _setting(self, name: str, value: str, number: int) -> None:
        if len(self.environment) < _SETTINGS:
            self.environment.setdefault(name, Setting(value, number))

    def result(self, lines: LogLines) -> NcclLog:
        net = self.network
        return NcclLog(
            source=self.source, version=self.version, cuda=self.cuda, plugin=net.plugin,
            network=net.network, provider=net.provider, hosts=tuple(sorted(self.hosts)),
            gpus=self.communicators.gpus, nics=net.nics, transports=dict(net.transports),
            nics_used=dict(sorted(net.nics_used.items())), first_seen=net.first_seen,
            net_connections=net.net,
            gdr_connections=net.gdr, pxn_connections=net.pxn, nvls=net.nvls,
            communicators=self.communicators.communicators, tuning=self.tuning.entries,
            selections=self.tuning.selections, environment=self.environment,
            warnings=self.warnings.result(), timeouts=self.timeouts.result(), lines=self.count,
            problems=lines.problems,
        )  # fmt: skip
