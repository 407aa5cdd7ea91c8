"""A lab that is up, for as long as a `with` block lasts.

Holds `lab` and `Hosts`:

    with lab(Topology(hosts=2, rate="250Mb/s")) as hosts:
        outcome = hosts.run(["train.py"])
"""

import contextlib
import itertools
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from syncwall.lab.awake import awake
from syncwall.lab.faults import Fault
from syncwall.lab.happening import happening, slow_links, slow_loaders
from syncwall.lab.machine import down, needed, new_name, up
from syncwall.lab.network import Network, address
from syncwall.lab.topology import Topology
from syncwall.lab.workers import GRACE_S, Outcome, Workers


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM or SIGHUP."""


@dataclass
class Hosts:
    """The hosts of a lab that is up."""

    topology: Topology
    network: Network
    directory: Path
    """What the workers print goes here, a folder for each job."""
    keep_awake: bool = True
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def name(self) -> str:
        """The name of the lab, for `lab down`."""
        return self.network.lab

    def address(self, host: int, nic: int = 0) -> str:
        """IPv4 address of an adapter."""
        return address(host, nic)

    def run(
        self,
        words: Sequence[str],
        *,
        time_limit_s: float = 600.0,
        grace_s: float = GRACE_S,
        threads: int = 1,
        environment: Mapping[str, str] | None = None,
        faults: Sequence[Fault] = (),
    ) -> Outcome:
        """Run `python WORDS` as a job on all workers, and wait for its end."""
        directory = self.directory / f"job{next(self._numbers)}"
        workers = Workers(
            self.network, self.topology, [sys.executable, *words], directory, threads,
            environment or {}, slow_loaders(faults, self.topology),
        )  # fmt: skip
        with contextlib.ExitStack() as stack:
            if self.keep_awake:
                stack.enter_context(awake(self.network.namespaces[-1]))
            stack.enter_context(slow_links(faults, self.network, self.topology))
            stack.enter_context(workers)
            stack.enter_context(happening(faults, workers))
            return workers.wait(time_limit_s, grace_s)


@contextlib.contextmanager
def lab(
    topology: Topology, title: str = "lab", *, logs: Path | None = None, keep_awake: bool = True
) -> Iterator[Hosts]:
    """Hosts as in `topology`; nothing of them is left at the end, whatever happens inside.

    SIGTERM and SIGHUP end the block as Ctrl-C does. Only `kill -9` leaves the hosts, without
    processes: `syncwall lab down --all` removes them.
    """
    with contextlib.ExitStack() as stack:
        if logs is None:
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="syncwall-lab-")))
        stack.enter_context(_signals())
        name = new_name(title)
        needed("run")
        stack.callback(_undisturbed_down, name)  # before there is anything: no moment is unguarded
        yield Hosts(topology, up(topology, name), logs, keep_awake)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise, so that what is open is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ended(number: int, frame: FrameType | None) -> None:
        raise Terminated(signal.Signals(number).name)

    before = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _undisturbed_down(name: str) -> None:
    """Remove the lab; a second Ctrl-C waits until that is done."""
    if threading.current_thread() is not threading.main_thread():
        down(name)
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        down(name)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
