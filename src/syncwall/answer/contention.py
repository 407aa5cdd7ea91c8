"""What sharing links does to a step.

Holds `Contention`, and `step_on_links`: the step with the hashes as they fall, drawn several times.
The median draw is the answer, so its causes add up to it.
"""

from dataclasses import dataclass, replace

import numpy as np

from syncwall.answer.pricing import Pricing, Timed
from syncwall.cause import Cause
from syncwall.cost.contended_network import AxisFlows, SharedLinks
from syncwall.describe import Run
from syncwall.network import Routing
from syncwall.problems import InputError
from syncwall.public import published
from syncwall.timeline.ledger import Ledger

UNPROVEN = "accuracy on real fabrics is unproven: no public data has the load of links beside step times"


@published(
    "fabric routing qps draws seed needed free_s p50_s p90_s busiest_link",
    "busiest_link_slower=slower accuracy",
)
@dataclass(frozen=True, slots=True)
class Contention:
    """A step on shared links beside the same on free ones."""

    fabric: str
    """As it was asked for."""
    routing: Routing
    """How flows find their way."""
    qps: int
    """Queue pairs of a connection."""
    draws: int
    """Draws of the hashes; 1 where nothing is drawn."""
    hashed: bool
    """True if chance decides over ways, and draws differ."""
    seed: int
    """Of these draws."""
    free_s: float
    """The step if no link were shared."""
    p50_s: float
    """Median of the step over the draws; the answer itself."""
    p90_s: float
    """P90 of it."""
    busiest: str
    """The link that slows the median draw most; empty if none does."""
    slower: float
    """How many times longer traffic over that link takes than over NICs alone."""
    flows: tuple[AxisFlows, ...]
    """What the axes send in the median draw, the slowest first."""

    @property
    def needed(self) -> bool:
        """True if shared links change the step at all."""
        return self.p90_s > self.free_s * (1.0 + 1e-9)

    @property
    def busiest_link(self) -> str | None:
        """The link that slows the median draw most."""
        return self.busiest or None

    @property
    def accuracy(self) -> str:
        """What is known of it on real fabrics."""
        return UNPROVEN


def step_on_links(run: Run, pricing: Pricing, shared: SharedLinks) -> tuple[Pricing, Timed, Contention]:
    """A settled run on `shared` links: prices of the median draw, its step, and the spread."""
    cluster = run.cluster
    if not shared.fits(cluster):
        places = len(shared.links.nodes if shared.order is None else shared.order)
        raise InputError.of(f"{cluster.nodes} nodes are asked for, the fabric has {places}")
    if cluster.node.nics and shared.links.nics_per_node != cluster.node.nics.count:
        raise InputError.of(
            f"nodes of {cluster.name} have {cluster.node.nics.count} NICs, those of the fabric "
            f"{shared.links.nics_per_node}"
        )

    def timed(draw: int | None) -> Timed:
        prices = replace(pricing, network=replace(shared, draw=draw))
        return prices.step(run.model, run.layout, run.seq, cluster)

    first = timed(0)
    asked = replace(shared, draw=0).flows()
    known: dict[tuple[float, ...], Timed] = {}
    each: list[Timed] = []
    for draw in range(shared.draws):
        here = replace(shared, draw=draw)
        # draws that slow every axis down alike are one step
        key = tuple(here.slower(one.pattern, one.ranks, one.stride, cluster) for one in asked)
        if key not in known:
            known[key] = timed(draw) if draw else first
        each.append(known[key])
    seconds = np.array([float(one.step_s) for one in each])
    median = int(np.argsort(seconds, kind="stable")[len(seconds) // 2])
    free, found = timed(None), each[median]
    drawn = replace(shared, draw=median)
    prices = replace(pricing, network=drawn)
    link, slower = drawn.busiest()
    spread = Contention(
        shared.name,
        shared.routing,
        shared.qps,
        shared.draws,
        shared.hashed,
        shared.seed,
        float(free.step_s),
        float(seconds[median]),
        float(np.quantile(seconds, 0.9, method="higher")),
        link,
        slower,
        drawn.flows(),
    )
    return prices, replace(found, ledger=_ledger(free.ledger, found)), spread


def _ledger(free: Ledger, found: Timed) -> Ledger:
    """The causes of the step on free links, and what the shared ones add."""
    added = float(found.step_s) - float(free.total)
    return found.ledger if added <= 0.0 else free.plus(Ledger({Cause.LINKS: added}))
