"""Real flows that share links beside predictions: `python -m bench.lab_contention [--trials N]`.

Needs root, torch and a quiet machine. Rings of Gloo in and out of the order of hosts, equal and
unequal jobs over one uplink, and a slow link, beside `lab.links.rings_s`; TCP connections that the
kernel hashes over eight spines, beside `network.collisions.drawn`. All-to-all over Gloo is shown,
not judged: it is no coupled stream.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from syncwall.lab import Topology, lab
from syncwall.lab.experiment import Fault, SlowLink
from syncwall.lab.hosts import Hosts
from syncwall.lab.links import ends_of_lab, links_of_lab, rings_s
from syncwall.lab.machine import awake, inside
from syncwall.network.collisions import drawn
from syncwall.network.routes import Routes
from syncwall.network.streams import Pairs, all_to_all, place_groups

HERE = Path(__file__).parent
RATE = 25e6
"""Bytes/s of an adapter: what 2 cores forward with time to spare."""
SIZE_BYTES, TIMES = 32_000_000, 1
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
    """Hosts on two leaves, joined by one uplink each."""
    return Topology(hosts=hosts, rate_bytes_per_s=RATE, leaves=2, oversubscription=oversubscription)


CASES = (
    Case("ring in order, 2:1", 0.03, two_leaves(4, 2), (((0, 1, 2, 3), TIMES),)),
    Case("ring crossed, 2:1", 0.03, two_leaves(4, 2), (((0, 2, 1, 3), TIMES),)),
    Case("ring in order, 4:1", 0.03, two_leaves(8, 4), ((tuple(range(8)), TIMES),)),
    Case("two equal jobs", 0.03, two_leaves(4, 2), (((0, 2), TIMES), ((1, 3), TIMES))),
    Case("three equal jobs", 0.03, two_leaves(6, 3),
         (((0, 3), TIMES), ((1, 4), TIMES), ((2, 5), TIMES))),
    Case("unequal jobs", 0.08, two_leaves(4, 2), (((0, 2), TIMES), ((1, 3), 3 * TIMES))),
    Case("a link at a quarter", 0.05, two_leaves(4, 1), (((0, 1, 2, 3), TIMES),), (1, RATE / 4)),
    Case("all-to-all, 2:1", None, two_leaves(4, 2), (((0, 1, 2, 3), TIMES),), None, "all-to-all"),
)  # fmt: skip


def predicted_s(case: Case) -> list[float]:
    """When each job ends."""
    slow = dict([case.slow]) if case.slow else None
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
    return [float(end) for end in rings_s(case.topology, jobs, slow)]


def measured_s(case: Case) -> list[float]:
    """The same for real, each job by its slowest rank."""
    start = time.time() + BEGIN_S + case.topology.hosts
    program = str(HERE / "lab_contention_job.py")
    jobs = [
        ([program, case.kind, str(SIZE_BYTES), str(times), str(start)], hosts)
        for hosts, times in case.jobs
    ]
    slow = case.slow and SlowLink(host=case.slow[0], rate_bytes_per_s=case.slow[1])
    faults = [Fault(slow_link=slow)] if slow else []
    with lab(case.topology, "contention") as hosts:
        ended = hosts.run_together(jobs, time_limit_s=120, faults=faults)
    for one in ended:
        if not one.ok:
            raise RuntimeError(one.message)
    return [max(float(text) for text in one.outputs) for one in ended]


@contextmanager
def _senders(hosts: Hosts, flows: int) -> Iterator[list[subprocess.Popen[str]]]:
    """A process on each host of the first leaf, and who listens on its partner in the second."""
    program, half = str(HERE / "lab_ecmp_flows.py"), ECMP_HOSTS // 2
    started: list[subprocess.Popen[str]] = []

    def begin(host: int, *words: str) -> subprocess.Popen[str]:
        command = inside(hosts.network.hosts[host], [sys.executable, program, *words])
        one = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        started.append(one)
        return one

    try:
        for host in range(half):
            _line(begin(half + host, "receive", str(PORT)))
        size = ("send", str(PORT), str(flows), str(ECMP_BYTES))
        yield [begin(host, size[0], hosts.address(half + host), *size[1:]) for host in range(half)]
    finally:
        for one in started:
            one.kill()
            one.wait()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _told(processes: Sequence[subprocess.Popen[str]], line: str) -> None:
    for one in processes:
        assert one.stdin is not None
        one.stdin.write(f"{line}\n")


def _trial(senders: Sequence[subprocess.Popen[str]]) -> float:
    """Seconds until the slowest of them has sent all."""
    _told(senders, "connect")
    for one in senders:
        _line(one)
    start = time.time() + 0.05
    _told(senders, str(start))
    return max(float(_line(one)) for one in senders) - start


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="of ECMP; 0 for none")
    parser.add_argument("--only", default="", help="part of the name of a case")
    asked = parser.parse_args()
    bad = 0
    for case in CASES:
        if asked.only not in case.name:
            continue
        for job, (said, found) in enumerate(zip(predicted_s(case), measured_s(case), strict=True)):
            off = said / found - 1
            fails = case.gate is not None and abs(off) > case.gate
            bad += fails
            print(f"{case.name:22} job {job + 1}: measured {found:.3f} s, predicted {said:.3f} s, "
                  f"{off:+.1%}{'   <-- beyond its gate' if fails else ''}", flush=True)  # fmt: skip
    for flows in (1, 4, 16) if asked.trials else ():
        found, error, said = ecmp(flows, asked.trials)
        fails = abs(said / found - 1) > 0.10
        bad += fails
        print(f"ECMP, {flows:2} flows a pair: {asked.trials} trials, mean slow-down {found:.2f} "
              f"(+-{error:.2f}), predicted {said:.2f}, "
              f"{said / found - 1:+.1%}", flush=True)  # fmt: skip
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
