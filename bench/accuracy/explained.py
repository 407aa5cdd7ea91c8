"""What `explain` makes of public tables and traces: benchmarks judged, changes and ranks named.

A table of nccl-tests is healthy unless the same machine was much faster with the same ranks in
another table (`DISTURBED`), or its source calls it broken. Healthy tables are made faulty by
scaling their own times as the fault would act (`faulty`), not by the model. Limits were fitted on
the sources of one half only; the other half is held out. The shape of the rule was chosen with both
in view, and TCP acts as in the one public pair that its range is from.
"""

import gzip
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tests.explain.traces.rank_copies import Copies

import syncwall as sw
from bench import Dir
from bench.fit.tables import LEFT_OUT, MACHINES, csv_rows
from syncwall.explain.changes import OWN, Day, StepChange, day_of, difference
from syncwall.explain.collective_benchmarks import (
    KINDS,
    CollectiveBenchmark,
    FaultKind,
    Judgement,
    judged,
)
from syncwall.explain.traces.job_traces import explain_traces, summaries, trace_files
from syncwall.explain.traces.rank_comparison import explain_ranks
from syncwall.problems import InputError

KNOWN = MACHINES | {"superbench_": "dgx-a100-40", "mlperf50_smc_b200": "dgx-b200"}
KNOWN |= {"oci_mi300x_": "mi300x-8", "cscs_": "alps"}
DISTURBED = 1.25
"""Times the fastest table of the same machine, ranks and collective, at large sizes."""
LARGE, SMALL = 64 * 2**20, 64 * 2**10
SLOW_RANK = 1.6
"""A GPU at 0.63 of its clock: every step of a ring waits for it, whatever the size."""
LEAST_STEPS, MORE = 5, 0.25
_CHUNK = 32
PAIR = ("kineto_v100_resnet50_workers4.json.gz", "kineto_v100_resnet50_workers0.json.gz")
CHANGED = ("compute", "data", "host", "sync", "transfer")


@dataclass(frozen=True)
class Named:
    source: str
    group: str
    machine: Any
    found: CollectiveBenchmark

    def is_disturbed(self, all_: list["Named"]) -> bool:
        """True if a peer was much faster at most of the large sizes that both have."""

        def comparable(one: Named) -> tuple[Any, ...]:
            return one.machine.name, one.found.kind, one.found.ranks, one.found.nodes

        for peer in all_:
            if comparable(peer) == comparable(self) and peer is not self:
                sizes = np.intersect1d(self.found.sizes, peer.found.sizes)
                sizes = sizes[sizes >= LARGE]
                mine, theirs = (_at(x.found, sizes) for x in (self, peer))
                if len(sizes) and np.quantile(mine / theirs, 0.25) > DISTURBED:
                    return True
        return False

    def may_have(self, kind: FaultKind) -> bool:
        """Whether a fault can happen to the ranks of the table, and slow them down."""
        domain, nics = self.machine.scale_up, self.machine.node.nics
        rack = domain is not None and domain.gpus > self.machine.node.gpus
        crosses = self.found.ranks > domain.gpus if rack else (self.found.nodes or 1) > 1
        if kind is FaultKind.NIC:
            return crosses and nics is not None and nics.count > 1
        return {FaultKind.TCP: crosses, FaultKind.NVLINK: not crosses}.get(kind, True)

    def rate_slower(self, times: float) -> Any:
        found = self.found
        start = found.seconds[0] if found.sizes[0] <= SMALL else 0.0
        return np.maximum(found.seconds, start + (found.seconds - start) * times)

    def judged(self, seconds: Any = None) -> Judgement:
        times = self.found.seconds if seconds is None else seconds
        said = judged(replace(self.found, seconds=times), self.machine)
        assert said is not None, self.source
        return said


def _at(found: CollectiveBenchmark, sizes: Any) -> Any:
    return found.seconds[np.searchsorted(found.sizes, sizes)]


def tables(directory: Path) -> list[Named]:
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in csv_rows(directory / "01_collectives" / "nccl_tests_rows.csv"):
        rows[row["source_id"]].append(row)
    return [_table(source, own) for source, own in rows.items() if source.startswith(tuple(KNOWN))]


def _table(source: str, rows: list[dict[str, str]]) -> Named:
    points = {float(r["size_bytes"]): float(r["oop_time_us"] or r["ip_time_us"]) for r in rows}
    sizes = sorted(size for size in points if size > 0)
    machine = sw.cluster(KNOWN[max((k for k in KNOWN if source.startswith(k)), key=len)])
    in_domain = machine.scale_up is not None and machine.scale_up.gpus > machine.node.gpus
    nodes = None if in_domain else int(rows[0]["nodes"])  # racks, not nodes, are counted there
    kind, ranks = KINDS[rows[0]["collective"]], int(rows[0]["nranks"])
    seconds = np.array([points[size] for size in sizes]) * 1e-6
    words = source.split("_")
    version = next((word for word in words if word.startswith("ofi1")), "")
    found = CollectiveBenchmark(source, kind, ranks, nodes, np.array(sizes), seconds)
    return Named(source, words[0] + version, machine, found)


def faulty(all_: list[Named]) -> dict[str, tuple[FaultKind, Callable[[Named], Any]]]:
    by_name = {one.source: one.found for one in all_}
    good, bad = by_name["cscs_gh200_2n_ar"], by_name[LEFT_OUT[0]]
    over_tcp = np.log(bad.seconds / _at(good, bad.sizes))

    def nic_off(one: Named) -> Any:
        nics = one.machine.node.nics.count
        return one.rate_slower(nics / (nics - 1))

    def tcp(one: Named) -> Any:
        """The ratio that a real pair of tables has at each size."""
        sizes = np.log(one.found.sizes)
        return one.found.seconds * np.exp(np.interp(sizes, np.log(bad.sizes), over_tcp))

    def halved(one: Named) -> Any:
        return one.rate_slower(2.0)

    return {
        "one NIC off, traffic balanced": (FaultKind.NIC, nic_off),
        "one NIC off, another carries twice": (FaultKind.NIC, halved),
        "TCP fallback": (FaultKind.TCP, tcp),
        "half NVLink": (FaultKind.NVLINK, halved),
        "one slow rank": (FaultKind.RANK, lambda one: one.found.seconds * SLOW_RANK),
    }


def benchmarks(directory: Dir, worst: int = 3) -> None:
    """Tables of nccl-tests in DIR/01_collectives judged as `syncwall explain --cluster` does.

    Healthy ones, and the same made faulty; of the sources that limits were fitted on, of the others
    and of all. Names `worst` tables of each line that were judged wrongly.
    """
    every = tables(directory)
    groups = sorted({one.group for one in every})
    halves = {"fitted": set(groups[::2]), "held out": set(groups[1::2])}
    known = [one for one in every if one.source not in LEFT_OUT]
    healthy = [one for one in known if not one.is_disturbed(every)]
    for half, some in (halves | {"all": set(groups)}).items():
        own = [one for one in healthy if one.group in some]
        shown = worst if half != "all" else 0
        _told(f"{half:9s} {'false alarms':36s}", own, lambda said: not said.is_slow, shown)
        right = first = count = 0
        for fault, (kind, act) in faulty(every).items():
            line = (f"{half:9s} {fault:36s}", [x for x in own if x.may_have(kind)])
            found = _told(*line, partial(_names, kind), shown, act)
            right, count, first = right + found[0], count + found[1], first + found[2]
        others = [one for one in known if one not in healthy and one.group in some]
        _told(f"{half:9s} {'disturbed and said slow':36s}", others, lambda s: s.is_slow, shown)
        shares = f"{right} of {count} ({right / count:.1%}), as the first {first}"
        print(f"{half:9s} faults named: {shares}")
    for half, some in halves.items():
        ratios = [j.rate for x in healthy if x.group in some and (j := x.judged()).rate]
        said = " ".join(f"{np.quantile(ratios, q):.2f}" for q in (0, 0.025, 0.5, 0.975, 1))
        print(f"{half}: measured over expected of healthy tables, 0 2.5 50 97.5 100%: {said}")


def _names(kind: FaultKind, said: Judgement) -> bool:
    return said.is_slow and kind in said.faults


def _told(
    line: str,
    own: list[Named],
    is_right: Callable[[Judgement], bool],
    shown: int,
    act: Callable[[Named], Any] = lambda one: None,
) -> tuple[int, int, int]:
    """Print how many were judged rightly, and which were not; of a fault, how often it is first."""
    wrong, count, first = [], 0, 0
    for one in own:
        said = one.judged(act(one))
        count += said.rate is not None
        if said.rate is not None and not is_right(said):
            causes = " / ".join(said.faults)
            wrong.append(f"{one.source} {said.rate:.2f} {said.small or 0:.2f} {causes}")
        first += is_right(replace(said, faults=said.faults[:1]))
    right = count - len(wrong)
    print(f"{line} {right:4d} of {count:4d} {right / max(count, 1):7.1%}")
    for name in wrong[:shown]:
        print(f"{'':12s}{name}")
    return right, count, first


def days(directory: Dir) -> None:
    """Changes named on the steps of the profiler traces in DIR.

    Of each trace with enough steps, every other step is the good day and the rest the day after:
    nothing changed. Then a change is laid on the day after as it would act, a quarter of the step
    more of one kind of time, and must be named. ResNet-50 traced with 0 and with 4 loader workers
    is a real pair.
    """
    same, named = [], []
    for path in sorted(directory.glob("*.json.gz")):
        try:
            day = day_of(explain_traces([path]), path.name)
        except InputError:  # another kind of trace
            continue
        if len(day.step_s) < LEAST_STEPS:
            continue
        columns = ("numbers", "step_s", "own_s", "wait_s", "transfer_s")
        good, after = (
            replace(day, **{name: getattr(day, name)[first::2] for name in columns}) for first in (1, 0)
        )
        same.append((path.name, not difference(after, [good]).is_changed))
        changed = {kind: difference(_longer(after, kind), [good]) for kind in CHANGED}
        named += [(f"{path.name} {kind}", _is_named(x, kind)) for kind, x in changed.items()]
    before, now = (day_of(explain_traces([directory / name]), name) for name in PAIR)
    named.append(("0 instead of 4 loader workers", _is_named(difference(now, [before]), "data")))
    for title, cases in (("nothing changed", same), ("changes named", named)):
        print(f"{title}: {sum(right for _, right in cases)} of {len(cases)}")
        for name, right in cases:
            if not right:
                print(f"    not {name}")


def _longer(day: Day, kind: str) -> Day:
    more = MORE * day.step_s
    found = replace(day, step_s=day.step_s + more)
    if kind == "transfer":
        return replace(found, transfer_s=day.transfer_s + more[:, None])
    own = day.own_s.copy()
    own[:, :, OWN.index(kind)] += more[:, None]
    return replace(found, own_s=own)


def _is_named(found: StepChange, kind: str) -> bool:
    return found.is_slower and found.named[:1] != () and found.named[0].kind == kind


def ranks(trace: Dir, ranks: tuple[int, ...] = (64, 256, 1024), workers: int = 0) -> int:
    """Makes ranks out of one real TRACE.json.gz, one of them 10% slow; verdict, rate and memory.

    They are explained by a pool of processes with one rank in memory each. "of decoding" is the
    time of it all over that of as many processes which only unpack and decode the same files with
    the fastest decoder of JSON that is installed (orjson, msgspec, json).
    """
    print("ranks   raw MB   read s   MB/s   compare s   of decoding   peak MiB   verdict")
    right = True
    for count in ranks:
        with tempfile.TemporaryDirectory() as folder:
            right &= _round(trace, count, workers or os.cpu_count() or 1, Path(folder))
    return int(not right)


def _round(trace: Path, ranks: int, workers: int, folder: Path) -> bool:
    slow = ranks * 5 // 7
    chunks = [range(a, min(a + _CHUNK, ranks)) for a in range(0, ranks, _CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        size = sum(pool.map(partial(_written, trace, ranks, slow, folder), chunks))
    begun = time.perf_counter()
    found = summaries(trace_files(folder), workers=workers)
    read_s = time.perf_counter() - begun
    verdict = explain_ranks(found.ranks)
    compare_s = time.perf_counter() - begun - read_s
    begun = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_decoded, trace_files(folder)))
    share = (read_s + compare_s) / (time.perf_counter() - begun)
    print(
        f"{ranks:5}   {size / 1e6:6.0f}   {read_s:6.1f}   {size / 1e6 / read_s:4.1f}   "
        f"{compare_s:9.2f}   {share:11.2f}   {found.peak_bytes / 2**20:8.0f}   {verdict.kind}: "
        f"rank {verdict.ranks} of {slow} expected, {verdict.lost_s * 1e3:.1f} ms of "
        f"{verdict.step_s * 1e3:.1f}, {verdict.explained:.0%} explained",
        flush=True,
    )
    return verdict.kind == "slow worker" and verdict.ranks == (slow,) and not found.problems


def _written(trace: Path, ranks: int, slow: int, folder: Path, chosen: range) -> int:
    """Bytes of some traces before they are packed."""
    copies = Copies.of(trace, ranks, slow)
    meetings = copies.meetings()
    return sum(copies.write(folder, rank, meetings) for rank in chosen)


def _decoded(file: Path) -> int:
    names = ("orjson", "msgspec.json", "json")
    module = import_module(next(one for one in names if find_spec(one.partition(".")[0])))
    loads = getattr(module, "loads", None) or module.decode
    return len(loads(gzip.decompress(file.read_bytes())))
