"""The network that a run needs, over numbers of GPUs.

Holds `network_view`.
"""

from collections.abc import Callable, Iterator, Sequence

from syncwall.plan.network.needed import NetworkPlan, Requirement
from syncwall.plan.network.targets import Target
from syncwall.show.blocks import Block, Lines, Verdict, View, table
from syncwall.show.numbers import duration, percent
from syncwall.show.views.prediction import chosen
from syncwall.show.words import network as words
from syncwall.show.words.layout import run_title, run_words

_SOLVED = (Target.EFFICIENCY, Target.HIDDEN)


def network_view(answer: NetworkPlan) -> View:
    """Verdict, the table over GPU counts, why."""
    found, start, plain = answer.counts, answer.start, answer.counts[0].plain
    by_hand: list[Block] = []
    if plain and plain.node_bytes:
        by_hand.append(Lines("By hand", (words.by_hand(plain),)))
    about = f"{run_words(start.run)}: {duration(start.prediction.step_s)}"
    blocks = [
        Verdict(tuple(answer.verdict), about),
        *table(("number of GPUs", *(f"{one.gpus:,}" for one in found)), _rows(found)),
        Lines("Why", (words.why(found[-1]),)),
        Lines("Remains", (words.remains(found[-1]),)),
        *by_hand,
        Lines("Layout", (words.layout_grows(found, start),)),
        Lines("Means", (words.MEANS,)),
        *chosen(start.assumed),
    ]
    return View(f"The network for {run_title(start.run)}", tuple(blocks))


def _rows(found: Sequence[Requirement]) -> Iterator[list[str]]:
    """What is needed and what there is, section by section."""

    def needs(cell: Callable[[Requirement, Target], str], *targets: Target) -> Iterator[list[str]]:
        for target in targets:
            name = words.target_words(target, found[0])
            yield [name, *(cell(one, target) for one in found)]

    def row(name: str, cell: Callable[[Requirement], str]) -> list[str]:
        return [name, *map(cell, found)]

    yield ["between nodes, Gb/s of a node, as advertised"]
    yield from needs(lambda one, target: _rate(one.node_bytes_per_s(target)), *Target)
    yield row("as it is", lambda one: _rate(words.nic_bytes_per_s(one)))
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
    return words.figures(rate * unit) if rate else "any"


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
