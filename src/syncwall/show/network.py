"""The network that a run needs, over numbers of GPUs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from syncwall.plan.network.needed import NetworkPlan, Requirement
from syncwall.plan.network.targets import Plain, Target
from syncwall.plan.reference import Reference
from syncwall.show.blocks import Block, Lines, Verdict, View, table
from syncwall.show.layout import layout_words, of_tokens, run_title, run_words, sample
from syncwall.show.numbers import byte_size, duration, percent, plural
from syncwall.show.prediction import chosen, prediction_title, prediction_words
from syncwall.show.wall import RECORDED_BATCH, gpu_count, several_gpus
from syncwall.units import Dimension
from syncwall.units import format as in_units

MEANS: Final = (
    "efficiency: step on an ideal network, of infinite bandwidth without latency, over step on this one; "
    "exposed: waits beyond the ideal, of its step"
)
_RULE_OF_THUMB: Final = 0.8
"""Of an advertised rate that is really reached, by ml-engineering's network chapter."""
_LEAST_SHARE: Final = 0.0005


def verdict(plan: NetworkPlan) -> list[str]:
    """What is needed, and whether the machine has it."""
    found = plan.counts
    counts = f"{found[0].gpus:,} to " * (len(found) > 1) + several_gpus(found[-1].gpus)
    if all(one.traffic is None for one in found):
        return [f"on {counts} nothing crosses the network between scale-up domains"]
    goal = f"{percent(found[0].limits.efficiency)} efficiency"
    wanted = {one.gpus: one.node_bytes_per_s(Target.EFFICIENCY) for one in found}
    if None in wanted.values():
        return [f"on {counts} no rate gives {goal}{_from(wanted)}; {_enough(found)}"]
    most = max(rate or 0.0 for rate in wanted.values())
    buy = f"buy {gigabits(most)} Gb/s a node, as advertised, for" if most else "any rate gives"
    return [f"on {counts} {buy} {goal}; {_enough(found)}"]


def _from(rates: dict[int, float | None]) -> str:
    """The count from which on no rate is enough, if some are for others."""
    missed = [gpus for gpus, rate in rates.items() if rate is None]
    return "" if len(missed) == len(rates) else f" from {min(missed):,} GPUs on"


def _enough(found: Sequence[Requirement]) -> str:
    """What the machine has, and for how many GPUs that is efficient enough."""
    good = [one.gpus for one in found if one.efficiency >= one.limits.efficiency]
    said = f"enough for {max(good):,} only" if good else "too little"
    have = f"{found[0].cluster.name} has {gigabits(nic_bytes_per_s(found[0]))} Gb/s"
    return f"{have}: {'enough' if len(good) == len(found) else said}"


def nic_bytes_per_s(one: Requirement) -> float:
    """What all NICs of a node have together today."""
    nics = one.cluster.node.nics
    return float(nics.rate_bytes_per_s) * nics.count if nics else 0.0


def gigabits(bytes_per_s: float) -> str:
    """A rate in Gb/s."""
    return three_figures(bytes_per_s * 8e-9)


def three_figures(number: float) -> str:
    """Three figures, or all before the point if there are more."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def target_words(target: Target, one: Requirement) -> str:
    """What must hold."""
    if target is Target.BUSY:
        return "busy no longer than computing"
    if target is Target.EFFICIENCY:
        return f"{percent(one.limits.efficiency)} efficient"
    return f"at most {percent(one.limits.exposed)} exposed"


def why(one: Requirement) -> str:
    """What uses the network most, and what is left where no rate is enough."""
    traffic = one.traffic
    if traffic is None:
        return "every group stands inside one scale-up domain"
    said = (
        f"at {several_gpus(one.gpus)} the network is mostly used by {traffic.kind}s of "
        f"{byte_size(traffic.bytes)} ({traffic.axis}, {traffic.ranks:,} ranks in "
        f"{plural(traffic.domains, 'domain')}); {duration(traffic.start_s)} of each is latency"
    )
    if one.nic_bytes_per_s.get(Target.EFFICIENCY) is None:
        share = percent(one.ideal.step_s / one.endless_step_s)
        said += f"; at any rate that latency leaves {share} efficiency"
    return said


def remains(one: Requirement) -> str:
    """What no network between nodes changes."""
    lost = [f"{name} {percent(s, 1)}" for name, s in one.wasted.items() if s >= _LEAST_SHARE]
    gpus = several_gpus(one.gpus)
    return f"what no network between nodes changes, at {gpus}: {', '.join(lost) or 'nothing'}"


def by_hand_words(plain: Plain) -> str:
    """The plain arithmetic of ml-engineering's network chapter."""
    advertised = gigabits(plain.node_bytes_per_s / _RULE_OF_THUMB)
    return (
        f"{byte_size(plain.node_bytes)} out of a node in {duration(plain.compute_s)} of "
        "computation at half the peak; at 80% reached "
        f"{advertised} Gb/s advertised (--reached 80%)"
    )


def layout_grows(found: Sequence[Requirement], start: Reference) -> str:
    """The layouts and batches of the first and of the last count."""
    first, last = found[0], found[-1]
    how = "the best by search" if start.layout_searched else "as stated"
    said = f"{layout_words(first.layout)} ({how})"
    batch = plural(last.layout.global_batch or 1, sample(start.run.model))
    if len(found) > 1:
        said += f" on {first.gpus:,} GPUs to {layout_words(last.layout)} on {gpu_count(last.gpus)}"
        batch = f"{first.layout.global_batch:,} to {batch}"
    return f"{said}; {batch}{of_tokens(start.run.model, start.run.seq)}"


_SOLVED = (Target.EFFICIENCY, Target.HIDDEN)


def network_view(answer: NetworkPlan) -> View:
    """Verdict, the table over GPU counts, why."""
    if answer.start.prediction.is_recorded:
        return _recorded_view(answer)
    found, start, plain = answer.counts, answer.start, answer.counts[0].plain
    by_hand: list[Block] = []
    if plain and plain.node_bytes:
        by_hand.append(Lines("By hand", (by_hand_words(plain),)))
    about = f"{run_words(start.run)}: {duration(start.prediction.step_s)}"
    blocks = [
        Verdict(tuple(answer.verdict), about),
        *table(("number of GPUs", *(gpu_count(one.gpus) for one in found)), _rows(found)),
        Lines("Why", (why(found[-1]),)),
        Lines("Remains", (remains(found[-1]),)),
        *by_hand,
        Lines("Layout", (layout_grows(found, start),)),
        Lines("Means", (MEANS,)),
        *chosen(start.assumed),
    ]
    return View(f"The network for {run_title(start.run)}", tuple(blocks))


def _rows(found: Sequence[Requirement]) -> Iterator[list[str]]:
    """What is needed and what there is, section by section."""

    def needs(cell: Callable[[Requirement, Target], str], *targets: Target) -> Iterator[list[str]]:
        for target in targets:
            name = target_words(target, found[0])
            yield [name, *(cell(one, target) for one in found)]

    def row(name: str, cell: Callable[[Requirement], str]) -> list[str]:
        return [name, *map(cell, found)]

    yield ["between nodes, Gb/s of a node, as advertised"]
    yield from needs(lambda one, target: _rate(one.node_bytes_per_s(target)), *Target)
    yield row("as it is", lambda one: _rate(nic_bytes_per_s(one)))
    yield row("share that collectives reach", lambda one: percent(one.reached))
    yield ["the same, Gb/s of a GPU"]
    yield from needs(lambda one, target: _rate(one.gpu_bytes_per_s(target)), *Target)
    yield ["NICs like these in a node"]
    yield from needs(lambda one, target: _count(one.nics[target]), *Target)
    yield ["really reached, Gb/s of a node"]
    yield from needs(lambda one, _: _rate(one.must_reach_bytes_per_s), Target.BUSY)
    yield row("the same by plain arithmetic", _plain)
    yield ["inside a scale-up domain, GB/s of a GPU"]
    yield from needs(lambda one, t: _rate(one.scale_up_bytes_per_s.get(t), 1e-9), *_SOLVED)
    yield row("as it is", _scale_up)
    yield ["highest latency of a collective"]
    yield from needs(_latency, *_SOLVED)
    yield row("as it is", lambda one: duration(one.traffic.start_s) if one.traffic else "")


def _rate(rate: float | None, unit: float = 8e-9) -> str:
    """A rate in Gb/s, or with another `unit` in GB/s."""
    if rate is None:
        return "no rate"
    return three_figures(rate * unit) if rate else "any"


def _count(nics: int | None) -> str:
    return "no number" if nics is None else f"{nics}"


def _plain(one: Requirement) -> str:
    return _rate(one.plain.node_bytes_per_s) if one.plain else "–"


def _scale_up(one: Requirement) -> str:
    domain = one.cluster.scale_up
    return _rate(float(domain.rate_bytes_per_s), 1e-9) if domain else "none"


def _latency(one: Requirement, target: Target) -> str:
    factor = one.latency_factor.get(target)
    if one.traffic is None or factor is None or factor == float("inf"):
        return "any"
    return duration(one.traffic.start_s * factor)


def _recorded_view(answer: NetworkPlan) -> View:
    """Verdict, what a recorded program needs on each number of GPUs, and what was assumed."""
    limits, prediction = answer.limits, answer.start.prediction
    rows = [
        (
            gpu_count(one.gpus),
            duration(one.step_s),
            duration(one.ideal.step_s),
            percent(one.efficiency),
            percent(one.waits),
            *map(_nic, one.nic_bytes_per_s.values()),
        )
        for one in answer.counts
    ]
    needed = f"NIC for {percent(limits.efficiency)}", f"NIC for waits of {percent(limits.exposed)}"
    head = ("GPUs", "step", "ideal", "efficiency", "waits", *needed)
    nics = prediction.cluster.node.nics
    assert nics is not None
    have = f"{nics.count} of {_nic(float(nics.rate_bytes_per_s))} in a node, as the cluster has them"
    blocks = (
        Verdict((_recorded_verdict(answer.counts[0]),), prediction_words(prediction)),
        *table(head, rows, words=0),
        Lines("NICs", (have,)),
        Lines("Batch", (RECORDED_BATCH,)),
    )
    return View(f"The network that {prediction_title(prediction)} needs", blocks)


def _recorded_verdict(first: Requirement) -> str:
    need = first.nic_bytes_per_s[Target.EFFICIENCY]
    wanted = f"{percent(first.limits.efficiency)} efficiency on {first.gpus:,} GPUs"
    if need is None:
        return f"no NIC is fast enough for {wanted}: latency alone costs more"
    if not need:
        return f"{wanted} needs no network to speak of"
    return f"{wanted} needs NICs of {_nic(need)}; as it is {percent(first.efficiency)} is reached"


def _nic(rate: float | None) -> str:
    if rate is None:
        return "none"
    return in_units(rate, Dimension.BYTES_PER_S, unit="Gb/s", digits=3) if rate else "any"
