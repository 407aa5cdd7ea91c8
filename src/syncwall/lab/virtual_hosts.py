"""A lab that is up, for as long as a `with` block lasts, and faults that happen in it.

Holds `happening`, `slow_links` and `slow_loaders` (links are as before when it is over), `lab` and
`Hosts`:

    with lab(Topology(hosts=2, rate="250Mb/s")) as hosts:
        outcome = hosts.run(["train.py"])
"""

import contextlib
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from syncwall.lab.experiment import CutLink, Fault, Kill, SlowLink, SlowLoader, SlowWorker
from syncwall.lab.host_machine import awake, down, issue, log_folder, needed, new_name, up
from syncwall.lab.virtual_network import LabNetwork, Topology, adapter_address, limit_command, port
from syncwall.lab.worker_processes import GRACE_S, JobExit, LabWorkers
from syncwall.measure.training_step import LOADER_DELAY


@contextmanager
def slow_links(faults: Sequence[Fault], network: LabNetwork, topology: Topology) -> Iterator[None]:
    """Links that are slow from the start, back at their rate at the end."""
    slow = [fault.slow_link for fault in faults if fault.slow_link]
    with ExitStack() as stack:
        for link in slow:
            stack.callback(_set_rate, network, topology, link.host, topology.rate_bytes_per_s)
            _set_rate(network, topology, link.host, link.rate_bytes_per_s)
        yield


def slow_loaders(faults: Sequence[Fault], topology: Topology) -> dict[int, dict[str, str]]:
    """By rank, the variables that slow its data loader."""
    slow = [fault.slow_loader for fault in faults if fault.slow_loader]
    return {
        rank: {LOADER_DELAY: str(loader.delay_s)}
        for loader in slow
        for rank in (range(topology.world) if loader.rank is None else [loader.rank])
    }


@contextmanager
def happening(faults: Sequence[Fault], workers: LabWorkers) -> Iterator[None]:
    """All other faults, timed from now."""
    over = threading.Event()
    with ExitStack() as stack:
        for fault in faults:
            what = fault.what
            if isinstance(what, CutLink):
                stack.callback(_links, workers, what, "up")
                _started(stack, partial(_after, over, what.after_s, partial(_links, workers, what)))
            elif isinstance(what, Kill):
                kill = partial(_send, workers, what.rank, signal.SIGKILL)
                _started(stack, partial(_after, over, what.after_s, kill))
            elif isinstance(what, SlowWorker):
                _started(stack, partial(_stop_and_go, over, workers, what))
            else:  # happens from the start: `slow_links`, `slow_loaders`
                assert isinstance(what, (SlowLink, SlowLoader))
        stack.callback(over.set)  # first of all: whoever waits for it comes to an end
        yield


def _started(stack: ExitStack, action: Callable[[], None]) -> None:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    stack.callback(thread.join)


def _after(over: threading.Event, seconds: float, action: Callable[[], None]) -> None:
    if not over.wait(seconds):
        action()


def _stop_and_go(over: threading.Event, workers: LabWorkers, fault: SlowWorker) -> None:
    while not over.is_set():
        _send(workers, fault.rank, signal.SIGSTOP)
        over.wait(fault.period_s * (1 - fault.share))
        _send(workers, fault.rank, signal.SIGCONT)
        over.wait(fault.period_s * fault.share)


def _send(workers: LabWorkers, rank: int, number: int) -> None:
    process = workers.processes[rank]
    if process.returncode is None:  # its number cannot be another's before it was waited for
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def _links(workers: LabWorkers, fault: CutLink, state: str = "down") -> None:
    namespace = workers.network.hosts[fault.host]
    for nic in range(workers.topology.nics):
        issue(("ip", "-n", namespace, "link", "set", f"eth{nic}", state))


def _set_rate(network: LabNetwork, topology: Topology, host: int, rate_bytes_per_s: float) -> None:
    for nic in range(topology.nics):
        issue(limit_command(network.hosts[host], f"eth{nic}", rate_bytes_per_s, "change"))
        switch, end = port(topology, network.switches, host, nic)
        issue(limit_command(switch, end, rate_bytes_per_s, "change"))


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM or SIGHUP."""


@dataclass
class Hosts:
    """The hosts of a lab that is up."""

    topology: Topology
    network: LabNetwork
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
        return adapter_address(host, nic)

    def run(
        self,
        words: Sequence[str],
        *,
        time_limit_s: float = 600.0,
        grace_s: float = GRACE_S,
        threads: int = 1,
        environment: Mapping[str, str] | None = None,
        faults: Sequence[Fault] = (),
    ) -> JobExit:
        """Run `python WORDS` as a job on all workers, and wait for its end."""
        directory = self.directory / f"job{next(self._numbers)}"
        workers = LabWorkers(
            self.network,
            self.topology,
            [sys.executable, *words],
            directory,
            threads,
            environment or {},
            slow_loaders(faults, self.topology),
        )
        with self._measuring(faults), workers, happening(faults, workers):
            return workers.wait(time_limit_s, grace_s)

    def run_together(
        self,
        jobs: Sequence[tuple[Sequence[str], Sequence[int]]],
        *,
        time_limit_s: float = 600.0,
        faults: Sequence[Fault] = (),
    ) -> list[JobExit]:
        """Run several jobs at once: the words of each, and its hosts in the order of its ranks.

        Of `faults` only slow links happen: the others are of the ranks of one job.
        """
        with self._measuring(faults), contextlib.ExitStack() as stack:
            started = [
                stack.enter_context(
                    LabWorkers(
                        self.network,
                        self.topology,
                        [sys.executable, *words],
                        self.directory / f"job{next(self._numbers)}",
                        hosts=hosts,
                    )
                )
                for words, hosts in jobs
            ]
            return [workers.wait(time_limit_s) for workers in started]

    @contextlib.contextmanager
    def _measuring(self, faults: Sequence[Fault]) -> Iterator[None]:
        """Processors awake if they should be, and links as slow as `faults` say."""
        with contextlib.ExitStack() as stack:
            if self.keep_awake:
                stack.enter_context(awake(self.network.namespaces[-1]))
            stack.enter_context(slow_links(faults, self.network, self.topology))
            yield


@contextlib.contextmanager
def lab(
    topology: Topology, title: str = "lab", *, logs: Path | None = None, keep_awake: bool = True
) -> Iterator[Hosts]:
    """Hosts as in `topology`; nothing of them is left at the end, whatever happens inside.

    SIGTERM and SIGHUP end the block as Ctrl-C does. Only `kill -9` leaves the hosts and
    what workers have started: `syncwall lab down --all` removes them.
    """
    with contextlib.ExitStack() as stack:
        if logs is None:
            logs = Path(stack.enter_context(log_folder()))
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
