"""The network that a run needs, on one screen and as plain data.

Holds `requirement_page`, `requirement_record` and `verdict`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.plan.network.needed import Requirement
from syncwall.plan.network.targets import Target
from syncwall.plan.reference import Reference
from syncwall.show.headed import Fitting, Headed, plain_table
from syncwall.show.layout_words import layout_words, run_words
from syncwall.show.numbers import duration
from syncwall.show.record import record
from syncwall.units import Dimension

RULE_OF_THUMB = 0.8
"""Of an advertised rate that is really reached, by ml-engineering's network chapter."""
_SOLVED = (Target.EFFICIENCY, Target.HIDDEN)


def requirement_page(found: Sequence[Requirement], start: Reference) -> RenderableType:
    """Verdict, the table over GPU counts, why."""
    parts: list[RenderableType] = [
        *(Headed("" if number else "Verdict", line) for number, line in enumerate(verdict(found))),
        Text(),
        Fitting(_table(found), _table(found, narrow=True)),
        Text(),
        *(Headed(head, said) for head, said in _lines(found, start)),
    ]
    return Group(*parts)


def verdict(found: Sequence[Requirement]) -> list[str]:
    """What is needed, and whether the machine has it."""
    counts = f"{found[0].gpus:,}" + (f" to {found[-1].gpus:,}" if len(found) > 1 else "")
    if all(one.traffic is None for one in found):
        return [f"on {counts} GPUs nothing crosses the network between scale-up domains"]
    goal = f"{found[0].limits.efficiency:.0%} efficiency"
    must = _span([one.must_reach_bytes_per_s for one in found])
    efficient = _span([one.node_bytes_per_s(Target.EFFICIENCY) for one in found])
    if must:
        first = f"a node must reach {must}, or communication takes longer than computation"
    else:
        first = "communication takes longer than computation at any rate"
        first += _from([one.gpus for one in found if one.must_reach_bytes_per_s is None], found)
    if efficient:
        second = f"{goal} needs {efficient} as advertised"
    else:
        missed = [o.gpus for o in found if o.node_bytes_per_s(Target.EFFICIENCY) is None]
        second = f"no rate gives {goal}{_from(missed, found)}"
    return [f"on {counts} GPUs {first}", f"{second}; {_enough(found)}"]


def _from(missed: list[int], found: Sequence[Requirement]) -> str:
    return "" if len(missed) == len(found) else f" from {min(missed):,} GPUs on"


def _span(rates: Sequence[float | None]) -> str | None:
    """From the least to the most; None if one of them is."""
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates):
        return None
    low, high = _figure(min(known) * 8e-9), _figure(max(known) * 8e-9)
    return f"{low} Gb/s" if low == high else f"{low} to {high} Gb/s"


def _enough(found: Sequence[Requirement]) -> str:
    """What the machine has, and for how many GPUs that is efficient enough."""
    nics, limits = found[0].cluster.node.nics, found[0].limits
    have = float(nics.rate_bytes_per_s) * nics.count if nics else 0.0
    good = [one.gpus for one in found if one.efficiency >= limits.efficiency]
    if len(good) == len(found):
        said = "enough"
    else:
        said = f"enough for {max(good):,} only" if good else "too little"
    return f"{found[0].cluster.name} has {_bits(have)}: {said}"


def _table(found: Sequence[Requirement], *, narrow: bool = False) -> Table:
    """A column for each count; a `narrow` one has neither GB/s nor factors on latency."""
    short = _short if narrow else str
    first = short("  between nodes, one way, advertised: Gb/s (GB/s)")
    counts = (f"{one.gpus:,} GPUs" for one in found)
    table = plain_table(first, *counts, gap=2 if narrow else 3)
    for name, cells, style in _rows(found):
        row = [short(text) for text in (f"  {name}", *cells)]
        table.add_row(*(Text(text, style) for text in row))
    return table


def _short(text: str) -> str:
    """`text` without what stands in brackets behind it, or a factor."""
    return text.partition(" (")[0].partition(", x ")[0]


def _rows(found: Sequence[Requirement]) -> Iterator[tuple[str, list[str], str]]:
    """Label, cells and style of every row."""
    first = found[0]
    for target in Target:
        name = f"  {_name(target, first)}, a node"
        yield name, [_rate(one.node_bytes_per_s(target)) for one in found], ""
        yield "    for each GPU", [_rate(one.gpu_bytes_per_s(target)) for one in found], "dim"
    yield "  as it is, a node", [_today(one) for one in found], ""
    yield "    share of it that collectives reach", [f"{one.reached:.0%}" for one in found], "dim"
    yield "  NICs like these, for each of the three", [_nics(one) for one in found], ""
    yield "really reached, a node: Gb/s (GB/s)", [], "bold"
    yield f"  {_name(Target.BUSY, first)}", [_rate(one.must_reach_bytes_per_s) for one in found], ""
    yield "  the same by plain arithmetic", [_plain(one) for one in found], ""
    yield "inside a scale-up domain, a GPU: Gb/s (GB/s)", [], "bold"
    for target in _SOLVED:
        rates = [one.scale_up_bytes_per_s.get(target) for one in found]
        yield f"  {_name(target, first)}", [_rate(rate) for rate in rates], ""
    yield "  as it is", [_scale_up_today(one) for one in found], ""
    yield "longest start of a collective", [], "bold"
    for target in _SOLVED:
        yield f"  {_name(target, first)}", [_latency(one, target) for one in found], ""
    yield "  as it is", [duration(o.traffic.start_s) if o.traffic else "" for o in found], ""


def _name(target: Target, one: Requirement) -> str:
    if target is Target.BUSY:
        return "busy no longer than computing"
    if target is Target.EFFICIENCY:
        return f"{one.limits.efficiency:.0%} efficient"
    return f"at most {one.limits.exposed:.0%} exposed"


def _rate(rate: float | None) -> str:
    if rate is None:
        return "none is enough"
    return f"{_figure(rate * 8e-9)} ({_figure(rate * 1e-9)})" if rate else "any"


def _figure(value: float) -> str:
    """Three figures, or all of a whole number that has more."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _today(one: Requirement) -> str:
    nics = one.cluster.node.nics
    return _rate(float(nics.rate_bytes_per_s) * nics.count) if nics else "none"


def _scale_up_today(one: Requirement) -> str:
    return _rate(float(one.cluster.scale_up.rate_bytes_per_s)) if one.cluster.scale_up else "none"


def _nics(one: Requirement) -> str:
    return " / ".join("-" if n is None else str(n) for n in one.nics.values()) or "none"


def _plain(one: Requirement) -> str:
    if one.plain is None:
        return "does not apply"
    return _rate(one.plain.node_bytes_per_s)


def _latency(one: Requirement, target: Target) -> str:
    factor = one.latency_factor.get(target)
    if factor is None or one.traffic is None:
        return "any"
    if factor == float("inf"):
        return "any"
    now = one.traffic.start_s
    return f"{duration(now * factor)}, x {factor:.3g}"


def _lines(found: Sequence[Requirement], start: Reference) -> list[tuple[str, str]]:
    """Why, what no network changes, and what was assumed."""
    first, last = found[0], found[-1]
    lines = [("Why", _why(last))]
    lost = [f"{name} {share:.1%}" for name, share in last.wasted.items() if share >= 0.0005]
    lines.append(("Rest", f"what no network between nodes changes, at {last.gpus:,} GPUs: "
                  f"{', '.join(lost) or 'nothing'}"))  # fmt: skip
    if first.plain and first.plain.node_bytes:
        plain = first.plain
        lines.append((
            "By hand",
            f"{_size(plain.node_bytes)} out of a node in {duration(plain.compute_s)} of "
            f"computation at half the peak; at {RULE_OF_THUMB:.0%} reached "
            f"{_bits(plain.node_bytes_per_s / RULE_OF_THUMB)} advertised (--reached 80%)",
        ))  # fmt: skip
    how = "the best by search" if start.layout_searched else "as stated"
    layout = f"{layout_words(first.layout)} ({how})"
    if len(found) > 1:
        layout += f" on {first.gpus:,} GPUs to {layout_words(last.layout)} on {last.gpus:,}"
    batch = f"{first.layout.global_batch:,}"
    ends = f" to {last.layout.global_batch:,}" if len(found) > 1 else ""
    lines.append(("Layout", f"{layout}; {batch}{ends} sequences of {start.run.seq:,}"))
    took = duration(start.prediction.step_s)
    lines.append(("Run", f"{run_words(start.run)}: {took}"))
    lines.append((
        "Means",
        "efficiency: step on an ideal network, of endless rate without latency, over step on this "
        "one; exposed: waits beyond the ideal, of its step",
    ))  # fmt: skip
    if start.assumed:
        said = ", ".join(f"{name} {value}" for name, value in start.assumed.items())
        lines.append(("Open", said))
    return lines


def _why(one: Requirement) -> str:
    """What uses the network most, and what is left where no rate is enough."""
    if one.traffic is None:
        return "every group stands inside one scale-up domain"
    traffic = one.traffic
    said = (
        f"at {one.gpus:,} GPUs the network is mostly used by {traffic.kind}s of "
        f"{_size(traffic.bytes)} ({traffic.axis}, {traffic.ranks:,} ranks in {traffic.domains:,} "
        f"domains); {duration(traffic.start_s)} of each is latency"
    )
    if one.nic_bytes_per_s.get(Target.EFFICIENCY) is None:
        share = one.ideal.step_s / one.endless_step_s
        said += f"; at any rate that latency leaves {share:.0%} efficiency"
    return said


def _bits(rate: float) -> str:
    return units.format(rate, Dimension.BYTES_PER_S, digits=3, unit="Gb/s")


def _size(count: float) -> str:
    return units.format(count, Dimension.BYTES, digits=3, unit="MB" if count < 1e9 else "GB")


def requirement_record(found: Sequence[Requirement], start: Reference) -> dict[str, Any]:
    """The same for `json.dumps`; rates one way, advertised unless named reached."""
    return {
        "verdict": verdict(found),
        "counts": [_count_record(one) for one in found],
        "left_open": start.assumed,
        "layout_searched": start.layout_searched,
        "step_s": start.prediction.step_s,
        "run": record(start.run),
    }


def _count_record(one: Requirement) -> dict[str, Any]:
    targets = list(one.nic_bytes_per_s)
    return {
        "gpus": one.gpus,
        "global_batch": one.layout.global_batch,
        "step_s": one.step_s,
        "ideal_step_s": one.ideal.step_s,
        "efficiency": one.efficiency,
        "efficiency_at_any_rate": one.ideal.step_s / one.endless_step_s,
        "reached_node_bytes_per_s": one.must_reach_bytes_per_s,
        "node_bytes_per_s": {str(t): one.node_bytes_per_s(t) for t in targets},
        "gpu_bytes_per_s": {str(t): one.gpu_bytes_per_s(t) for t in targets},
        "nic_bytes_per_s": {str(t): rate for t, rate in one.nic_bytes_per_s.items()},
        "nics": {str(t): count for t, count in one.nics.items()},
        "reached": one.reached,
        "scale_up_bytes_per_s": {str(t): rate for t, rate in one.scale_up_bytes_per_s.items()},
        "latency_factor": {
            str(t): None if factor == float("inf") else factor
            for t, factor in one.latency_factor.items()
        },
        "latency_s": one.traffic and one.traffic.start_s,
        "plain_node_bytes_per_s": one.plain and one.plain.node_bytes_per_s,
        "wasted": one.wasted,
        "limits": {"efficiency": one.limits.efficiency, "exposed": one.limits.exposed},
    }
