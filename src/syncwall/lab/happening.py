"""Faults that happen while a job runs.

Holds `happening`, `slow_links` and `slow_loaders`. Links are as before when it is over.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from syncwall.lab.faults import CutLink, Fault, Kill, SlowLink, SlowLoader, SlowWorker
from syncwall.lab.machine import issue
from syncwall.lab.network import Network, port, slowed
from syncwall.lab.topology import Topology
from syncwall.lab.workers import Workers
from syncwall.measure.place import LOADER_DELAY


@contextmanager
def slow_links(faults: Sequence[Fault], network: Network, topology: Topology) -> Iterator[None]:
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
def happening(faults: Sequence[Fault], workers: Workers) -> Iterator[None]:
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


def _stop_and_go(over: threading.Event, workers: Workers, fault: SlowWorker) -> None:
    while not over.is_set():
        _send(workers, fault.rank, signal.SIGSTOP)
        over.wait(fault.period_s * (1 - fault.share))
        _send(workers, fault.rank, signal.SIGCONT)
        over.wait(fault.period_s * fault.share)


def _send(workers: Workers, rank: int, number: int) -> None:
    process = workers.processes[rank]
    if process.returncode is None:  # its number cannot be another's before it was waited for
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def _links(workers: Workers, fault: CutLink, state: str = "down") -> None:
    namespace = workers.network.hosts[fault.host]
    for nic in range(workers.topology.nics):
        issue(("ip", "-n", namespace, "link", "set", f"eth{nic}", state))


def _set_rate(network: Network, topology: Topology, host: int, rate_bytes_per_s: float) -> None:
    for nic in range(topology.nics):
        issue(slowed(network.hosts[host], f"eth{nic}", rate_bytes_per_s, "change"))
        switch, end = port(topology, network.switches, host, nic)
        issue(slowed(switch, end, rate_bytes_per_s, "change"))
