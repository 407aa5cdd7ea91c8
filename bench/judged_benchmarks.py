"""Benchmarks judged against the model: `python bench/judged_benchmarks.py DIR [--json]`.

DIR holds the measured data; tables of nccl-tests whose machine is in the catalogue are judged as
`syncwall explain --cluster` does. A table is healthy unless the same machine was much faster with
the same ranks in another table (`DISTURBED`), or its source calls it broken. Healthy tables are
made faulty by scaling their own times as the fault would act (see `FAULTS`), not by the model.
Limits were fitted on the sources of one half only; the other half is held out. The shape of the
rule was chosen with both in view, and TCP acts as in the one public pair that its range is from.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import syncwall as sw
from bench.fit.collective_tables import MACHINES, csv_rows
from syncwall.explain.benchmarks.collective import KINDS, CollectiveBenchmark
from syncwall.explain.benchmarks.faults import FaultKind
from syncwall.explain.benchmarks.judged import Judgement, judged

KNOWN = {**MACHINES, "superbench_": "dgx-a100-40", "mlperf50_smc_b200": "dgx-b200",
         "oci_mi300x_": "mi300x-8", "cscs_": "alps"}  # fmt: skip
BROKEN = ("cscs_gh200_2n_ar_bad",)
"""NCCL on TCP sockets by mistake, says its source."""
DISTURBED = 1.25
"""Times the fastest table of the same machine, ranks and collective, at large sizes."""
LARGE, SMALL = 64 * 2**20, 64 * 2**10
SLOW_RANK = 1.6
"""A GPU at 0.63 of its clock: every step of a ring waits for it, whatever the size."""


@dataclass(frozen=True)
class Named:
    """A table and what is known of it."""

    source: str
    group: str
    machine: Any
    found: CollectiveBenchmark

    @property
    def peers(self) -> tuple[Any, ...]:
        """What makes two tables comparable."""
        return self.machine.name, self.found.kind, self.found.ranks, self.found.nodes

    def large(self) -> tuple[float, float] | None:
        """The largest size, and its seconds."""
        return float(self.found.sizes[-1]), float(self.found.seconds[-1])


def tables(directory: Path) -> list[Named]:
    """Every table of nccl-tests with a known machine and a collective that has a price."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in csv_rows(directory / "01_collectives" / "nccl_tests_rows.csv"):
        rows[row["source_id"]].append(row)
    return [_table(source, own) for source, own in rows.items() if source.startswith(tuple(KNOWN))]


def _table(source: str, rows: list[dict[str, str]]) -> Named:
    points = {float(r["size_bytes"]): float(r["oop_time_us"] or r["ip_time_us"]) for r in rows}
    sizes = sorted(size for size in points if size > 0)
    machine = sw.cluster(KNOWN[max((k for k in KNOWN if source.startswith(k)), key=len)])
    in_domain = machine.scale_up is not None and machine.scale_up.gpus > machine.node.gpus
    found = CollectiveBenchmark(
        source, KINDS[rows[0]["collective"]], int(rows[0]["nranks"]),
        None if in_domain else int(rows[0]["nodes"]),  # racks, not nodes, are counted there
        np.array(sizes), np.array([points[size] for size in sizes]) * 1e-6,
    )  # fmt: skip
    words = source.split("_")
    version = next((word for word in words if word.startswith("ofi1")), "")
    return Named(source, words[0] + version, machine, found)


def halves(all_: list[Named]) -> tuple[set[str], set[str]]:
    """Groups of sources that limits may be fitted on, and those that are held out."""
    groups = sorted({one.group for one in all_})
    return set(groups[::2]), set(groups[1::2])


def is_disturbed(one: Named, all_: list[Named]) -> bool:
    """True if a peer was much faster at most of the large sizes that both have."""
    for peer in all_:
        if peer.peers == one.peers and peer is not one:
            sizes = np.intersect1d(one.found.sizes, peer.found.sizes)
            sizes = sizes[sizes >= LARGE]
            mine, theirs = (_at(x.found, sizes) for x in (one, peer))
            if len(sizes) and np.quantile(mine / theirs, 0.25) > DISTURBED:
                return True
    return False


def _at(found: CollectiveBenchmark, sizes: Any) -> Any:
    return found.seconds[np.searchsorted(found.sizes, sizes)]


def _rate_slower(one: Named, times: float) -> Any:
    """All that is not latency takes `times` as long."""
    found = one.found
    start = found.seconds[0] if found.sizes[0] <= SMALL else 0.0
    return np.maximum(found.seconds, start + (found.seconds - start) * times)


def _nic_off(one: Named) -> Any:
    nics = one.machine.node.nics.count
    return _rate_slower(one, nics / (nics - 1))


FAULTS = {
    "one NIC off, traffic balanced": FaultKind.NIC,
    "one NIC off, another carries twice": FaultKind.NIC,
    "TCP fallback": FaultKind.TCP,
    "half NVLink": FaultKind.NVLINK,
    "one slow rank": FaultKind.RANK,
}


def faulty(all_: list[Named]) -> dict[str, Callable[[Named], Any]]:
    """How each of `FAULTS` acts on the times of a table."""
    by_name = {one.source: one for one in all_}
    good, bad = by_name["cscs_gh200_2n_ar"].found, by_name["cscs_gh200_2n_ar_bad"].found
    over_tcp = np.log(bad.seconds / _at(good, bad.sizes))

    def tcp(one: Named) -> Any:
        """The ratio that a real pair of tables has at each size."""
        sizes = np.log(one.found.sizes)
        return one.found.seconds * np.exp(np.interp(sizes, np.log(bad.sizes), over_tcp))

    acts = (_nic_off, lambda one: _rate_slower(one, 2.0), tcp, lambda one: _rate_slower(one, 2.0),
            lambda one: one.found.seconds * SLOW_RANK)  # fmt: skip
    return dict(zip(FAULTS, acts, strict=True))


def _concerns(kind: FaultKind, one: Named) -> bool:
    """Whether a fault can happen to the ranks of a table, and slow them down."""
    domain = one.machine.scale_up
    rack = domain is not None and domain.gpus > one.machine.node.gpus
    crosses = one.found.ranks > domain.gpus if rack else (one.found.nodes or 1) > 1
    nics = one.machine.node.nics
    if kind is FaultKind.NIC:
        return crosses and nics is not None and nics.count > 1
    return {FaultKind.TCP: crosses, FaultKind.NVLINK: not crosses}.get(kind, True)


def report(directory: Path) -> dict[str, Any]:
    """Counts, and the names of what went wrong."""
    every = tables(directory)
    fitted, held_out = halves(every)
    healthy = [x for x in every if x.source not in BROKEN and not is_disturbed(x, every)]
    disturbed = [x for x in every if x not in healthy and x.source not in BROKEN]
    lines: dict[str, dict[str, Any]] = {}
    for name, groups in (("fitted", fitted), ("held out", held_out), ("all", fitted | held_out)):
        own = [one for one in healthy if one.group in groups]
        lines[name] = {"false alarms": _count(own, lambda said: not said.is_slow)}
        for fault, act in faulty(every).items():
            kind = FAULTS[fault]
            lines[name][fault] = _count([x for x in own if _concerns(kind, x)], _names(kind), act)
        others = [x for x in disturbed if x.group in groups]
        lines[name]["disturbed and said slow"] = _count(others, lambda said: said.is_slow)
    ratios = {n: sorted(j.rate for x in healthy if x.group in g and (j := _judge(x)).rate)
              for n, g in (("fitted", fitted), ("held out", held_out))}  # fmt: skip
    return {"halves": [sorted(fitted), sorted(held_out)], "lines": lines, "ratios": ratios}


def _judge(one: Named) -> Judgement:
    said = judged(one.found, one.machine)
    assert said is not None, one.source
    return said


def _names(kind: FaultKind) -> Callable[[Judgement], bool]:
    return lambda said: said.is_slow and kind in said.faults


def _count(
    own: list[Named], right: Callable[[Judgement], bool], act: Callable[[Named], Any] | None = None
) -> dict[str, Any]:
    """How many were judged rightly, and which were not; of a fault, how often it stood first."""
    wrong, judged_, first = [], 0, 0
    for one in own:
        seconds = one.found.seconds if act is None else act(one)
        said = _judge(replace(one, found=replace(one.found, seconds=seconds)))
        judged_ += said.rate is not None
        if said.rate is not None and not right(said):
            causes = " / ".join(said.faults)
            wrong.append(f"{one.source} {said.rate:.2f} {said.small or 0:.2f} {causes}")
        first += right(replace(said, faults=said.faults[:1]))
    return {"judged": judged_, "right": judged_ - len(wrong), "first": first, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks judged against the model.")
    parser.add_argument("directory", type=Path, help="the measured data")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worst", type=int, default=3, help="tables to name of each line")
    arguments = parser.parse_args()
    found = report(arguments.directory)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for half, lines in found["lines"].items():
        for name, line in lines.items():
            share = line["right"] / max(line["judged"], 1)
            print(f"{half:9s} {name:36s} {line['right']:4d} of {line['judged']:4d} {share:7.1%}")
            for wrong in line["wrong"][: arguments.worst if half != "all" else 0]:
                print(f"{'':12s}{wrong}")
        named = [line for name, line in lines.items() if name in FAULTS]
        right, all_ = (sum(line[key] for line in named) for key in ("right", "judged"))
        first = sum(line["first"] for line in named)
        print(
            f"{half:9s} faults named: {right} of {all_} ({right / all_:.1%}), as the first {first}"
        )
    for half, ratios in found["ratios"].items():
        said = " ".join(f"{np.quantile(ratios, q):.2f}" for q in (0, 0.025, 0.5, 0.975, 1))
        print(f"{half}: measured over expected of healthy tables, 0 2.5 50 97.5 100%: {said}")


if __name__ == "__main__":
    main()
