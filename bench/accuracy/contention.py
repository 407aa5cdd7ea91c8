"""Real flows in a lab that share links, beside predictions.

Rings of Gloo in and out of the order of hosts, equal and unequal jobs over one uplink, and a slow
link, beside `lab.virtual_network.rings_s`; TCP connections that the kernel hashes over eight spines, beside
`network.routing.drawn`. All-to-all over Gloo is shown, not judged: it is no coupled stream.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import ROOT
from syncwall.lab import Topology, lab
from syncwall.lab.experiment import Fault, SlowLink
from syncwall.lab.host_machine import awake, inside
from syncwall.lab.virtual_hosts import Hosts
from syncwall.lab.virtual_network import ends_of_lab, links_of_lab, rings_s
from syncwall.network.flows import Pairs, all_to_all, place_groups
from syncwall.network.routing import Routes, drawn

JOBS = ROOT / "tests" / "lab" / "jobs"
RATE = 25e6
"""Bytes/s of an adapter: what 2 cores forward with time to spare."""
SIZE_BYTES = 32_000_000
"""So large that what a collective takes to begin, up to 0.3 s on a slow link, counts little: fair
shares know no latencies."""
BEGIN_S = 8.0
"""From the start of the processes to that of their traffic: loading PyTorch takes its time."""
HEADERS = 1514 / 1448
"""Bytes on the wire for one of payload: Ethernet, IP and TCP with timestamps."""
PORT, ECMP_RATE, ECMP_BYTES, ECMP_HOSTS, SPINES = 29600, 5e6, 2_000_000, 16, 8


@dataclass(frozen=True)
class Case:
    """Jobs at once: hosts of each in the order of ranks, and how often it reduces."""

    name: str
    gate: float | None
    topology: Topology
    jobs: tuple[tuple[tuple[int, ...], int], ...]
    slow: tuple[int, float] | None = None
    kind: str = "all-reduce"


def two_leaves(hosts: int, oversubscription: float) -> Topology:
    return Topology(hosts=hosts, rate_bytes_per_s=RATE, leaves=2, oversubscription=oversubscription)


_FOUR, _THREE_JOBS = ((0, 1, 2, 3), 1), (((0, 3), 1), ((1, 4), 1), ((2, 5), 1))
CASES = (
    Case("ring in order, 2:1", 0.03, two_leaves(4, 2), (_FOUR,)),
    Case("ring crossed, 2:1", 0.03, two_leaves(4, 2), (((0, 2, 1, 3), 1),)),
    Case("ring in order, 4:1", 0.03, two_leaves(8, 4), ((tuple(range(8)), 1),)),
    Case("two equal jobs", 0.03, two_leaves(4, 2), (((0, 2), 1), ((1, 3), 1))),
    Case("three equal jobs", 0.03, two_leaves(6, 3), _THREE_JOBS),
    Case("unequal jobs", 0.08, two_leaves(4, 2), (((0, 2), 1), ((1, 3), 3))),
    Case("a link at a quarter", 0.05, two_leaves(4, 1), (_FOUR,), (1, RATE / 4)),
    Case("all-to-all, 2:1", None, two_leaves(4, 2), (_FOUR,), None, "all-to-all"),
)


def predicted_s(case: Case) -> list[float]:
    jobs = []
    for hosts, times in case.jobs:
        count = len(hosts)
        turns = (count - 1) / count * (1 if case.kind == "all-to-all" else 2)
        jobs.append((hosts, turns * SIZE_BYTES * times * HEADERS))
    if case.kind == "all-to-all":
        routes = Routes(links_of_lab(case.topology), "static", ends_of_lab(case.topology))
        pairs = all_to_all(place_groups(count, count, 1, 1))
        slower = drawn(routes, pairs, qps=1, draws=1, seed=0).factors[0]
        return [float(slower * sent / RATE) for _, sent in jobs]
    slow = dict([case.slow]) if case.slow else None
    return [float(end) for end in rings_s(case.topology, jobs, slow)]


def measured_s(case: Case) -> list[float]:
    start = str(time.time() + BEGIN_S + case.topology.hosts)
    words = [str(JOBS / "collective_job.py"), case.kind, str(SIZE_BYTES)]
    jobs = [([*words, str(times), start], hosts) for hosts, times in case.jobs]
    slow = case.slow and SlowLink(host=case.slow[0], rate_bytes_per_s=case.slow[1])
    faults = [Fault(slow_link=slow)] if slow else []
    with lab(case.topology, "contention") as hosts:
        ended = hosts.run_together(jobs, time_limit_s=120, faults=faults)
    for one in ended:
        if not one.ok:
            raise RuntimeError(one.message)
    return [max(float(text) for text in one.outputs) for one in ended]


class Process(subprocess.Popen[str]):
    def __init__(self, hosts: Hosts, host: int, *words: str) -> None:
        command = [sys.executable, str(JOBS / "flows.py"), *words]
        both: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        super().__init__(inside(hosts.network.hosts[host], command), text=True, bufsize=1, **both)

    def line(self) -> str:
        assert self.stdout is not None
        return self.stdout.readline()

    def tell(self, line: str) -> None:
        assert self.stdin is not None
        self.stdin.write(f"{line}\n")


@contextmanager
def _senders(hosts: Hosts, flows: int) -> Iterator[list[Process]]:
    """A process on each host of the first leaf, and who listens on its partner in the second."""
    half, started = ECMP_HOSTS // 2, list[Process]()
    try:
        for host in range(half):
            started.append(Process(hosts, half + host, "receive", str(PORT)))
            started[-1].line()
        size = (str(PORT), str(flows), str(ECMP_BYTES))
        for host in range(half):
            started.append(Process(hosts, host, "send", hosts.address(half + host), *size))
        yield started[half:]
    finally:
        for one in started:
            one.kill()
            one.wait()


def _trial(senders: Sequence[Process]) -> float:
    """Seconds until the slowest of them has sent all."""
    for one in senders:
        one.tell("connect")
    for one in senders:
        one.line()
    start = time.time() + 0.05
    for one in senders:
        one.tell(str(start))
    return max(float(one.line()) for one in senders) - start


def ecmp(flows: int, trials: int) -> tuple[float, float, float]:
    """Mean slow-down as measured, its standard error, and as drawn."""
    topology = Topology(hosts=ECMP_HOSTS, rate_bytes_per_s=ECMP_RATE, leaves=2, uplinks=SPINES)
    with (
        lab(topology, "ecmp") as hosts,
        awake(hosts.network.namespaces[-1]),
        _senders(hosts, flows) as senders,
    ):
        alone = np.median([_trial([one]) for one in senders])
        times = np.array([_trial(senders) for _ in range(trials)]) / alone
    half = np.arange(ECMP_HOSTS // 2)
    pairs = Pairs(half, half + len(half), np.ones(len(half)), half)
    routes = Routes(links_of_lab(topology), "ecmp", ends_of_lab(topology))
    expected = drawn(routes, pairs, qps=flows, draws=2000, seed=0).factors.mean()
    return float(times.mean()), float(times.std() / np.sqrt(trials)), float(expected)


def contention(trials: int = 100, only: str = "") -> int:
    """Real flows that share links beside predictions; 1 if one is beyond its gate.

    Needs root, torch and a quiet machine.

    Args:
        trials: Of ECMP; 0 for none.
        only: Part of the name of a case.
    """
    bad = 0
    for case in (one for one in CASES if only in one.name):
        for job, (said, found) in enumerate(zip(predicted_s(case), measured_s(case), strict=True)):
            off = said / found - 1
            fails = case.gate is not None and abs(off) > case.gate
            bad += fails
            both = f"measured {found:.3f} s, predicted {said:.3f} s, {off:+.1%}"
            mark = "   <-- beyond its gate" if fails else ""
            print(f"{case.name:22} job {job + 1}: {both}{mark}", flush=True)
    for flows in (1, 4, 16) if trials else ():
        found, error, said = ecmp(flows, trials)
        bad += abs(said / found - 1) > 0.10
        both = f"mean slow-down {found:.2f} (+-{error:.2f}), predicted {said:.2f}"
        print(f"ECMP, {flows:2} flows a pair: {trials} trials, {both}, {said / found - 1:+.1%}")
    return int(bad > 0)
