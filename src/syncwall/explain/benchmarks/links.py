"""Whether single links are as fast as the adapters of the machine, and as each other.

Holds `link_findings`, of iperf3 and perftest, and `suspect_findings`, of `syncwall measure links`.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from syncwall.describe import Cluster
from syncwall.explain.benchmarks.measured_file import MeasuredFile
from syncwall.explain.finding import Finding
from syncwall.measure.suspects import EXPECTED, SLOW
from syncwall.read.link_rates import LinkRate

_REACHED: Final = 0.9
"""Share of the line rate below which perftest is slow: 46 to 49 of 50 GB/s are usual on NDR (NCCL
maintainers in nccl-tests issue 290; nccl issue 2409: 392 of 400 Gb/s)."""
_ONE_STREAM: Final = 20e9 / 8
"""Bytes/s that one TCP connection reaches on one core of a server; more needs several."""
_MANY_AGAIN: Final = 100.0
"""Segments of each GB sent again, about one in 10,000, from which the path loses packets."""


def link_findings(rates: Sequence[LinkRate], machine: Cluster | None) -> Iterator[Finding]:
    """Links that are slower than their adapter, or than the other links in the same files."""
    nics = machine.node.nics if machine else None
    line = nics.rate_bytes_per_s if nics else None
    if machine is None and rates:
        yield Finding(
            "note", "rates of single links were only compared with each other",
            "nobody said what the adapters should reach",
            "name the machine: --cluster dgx-h100 (syncwall show clusters lists them)",
            rates[0].source,
        )  # fmt: skip
    for one in rates:
        if line is not None and machine is not None:
            yield from _against_line(one, line, machine.name)
        yield from _lost(one)
    for tool in dict.fromkeys(one.tool for one in rates):
        yield from _against_others([one for one in rates if one.tool == tool])


def suspect_findings(found: MeasuredFile) -> Iterator[Finding]:
    """Ranks and links that were slow beside the others."""
    for one in found.suspects:
        yield Finding(
            "wrong", one.what,
            "a collective over all ranks runs at the pace of its slowest link",
            f"take {one.host} out of the job, or compare its cables, PCIe link and clocks with "
            "those of another host: nvidia-smi topo -m, ibstat, ethtool",
            found.source,
        )  # fmt: skip


def _against_line(one: LinkRate, line: float, name: str) -> Iterator[Finding]:
    is_tcp = one.tool == "iperf3"
    share = EXPECTED if is_tcp else _REACHED
    expected = min(line, one.streams * _ONE_STREAM) if is_tcp else line
    if one.bytes_per_s >= share * expected:
        return
    half = "; half of it: one of two ports, or a link that trained down" * (
        0.4 < one.bytes_per_s / line < 0.6
    )
    yield Finding(
        "wrong",
        f"{one.who} reaches {_gb(one.bytes_per_s)} of {_gb(line)} ({one.tool})",
        f"an adapter of {name} should give {_gb(share * expected)} or more{half}",
        "ethtool or ibstat: speed and state of the port; MTU on both ends; "
        + ("more streams (iperf3 -P 8)" if is_tcp else "NUMA node of the test (numactl)"),
        one.source,
    )


def _lost(one: LinkRate) -> Iterator[Finding]:
    """Packets that had to be sent again."""
    if (one.retransmits_per_gb or 0.0) > _MANY_AGAIN:
        yield Finding(
            "suspect",
            f"{one.who}: {one.retransmits_per_gb:,.0f} segments of each GB were sent again",
            "a path that loses packets slows TCP down, and RDMA much more",
            "read drops and pause frames: ethtool -S, the switch's counters",
            one.source,
        )


def _against_others(rates: Sequence[LinkRate]) -> Iterator[Finding]:
    """The slowest beside the middle of at least three."""
    if len(rates) < 3:
        return
    usual = median(one.bytes_per_s for one in rates)
    for one in sorted(rates, key=lambda one: one.bytes_per_s)[:5]:
        if one.bytes_per_s < SLOW * usual:
            yield Finding(
                "wrong",
                f"{one.who} reaches {_gb(one.bytes_per_s)}, the others {_gb(usual)}",
                "a collective over all of them runs at the pace of the slowest",
                "swap cable and port with a good host's, and measure again",
                one.source,
            )


def _gb(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-9:.3g} Gb/s"
