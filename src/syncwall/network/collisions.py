"""Flows that a hash puts on one link while others are idle.

Holds `most_on_a_link` (closed form) and `Drawn` with `drawn`, `one_draw` and `over_nics`
(Monte Carlo): how many times longer traffic takes over the network than over its NICs alone.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from syncwall.network.graph import Floats
from syncwall.network.routes import Routes, loads
from syncwall.network.streams import Pairs

EXACT = 1e-9
"""Slow-downs below this are rounding: none."""


def most_on_a_link(flows_per_link: float, links: int) -> tuple[float, float, float]:
    """Mean, P50 and P90 of the flows on the fullest of `links`, each flow on a random one.

    Poisson: P(most <= x) = F(x) ** links. Within 5 % of draws for 32 links a leaf, 10 % for 16.
    """
    term = total = exp(-flows_per_link)
    number, mean, median, ninth = 0, 0.0, -1, -1
    while True:
        below = total**links
        median = number if median < 0 and below >= 0.5 else median
        ninth = number if ninth < 0 and below >= 0.9 else ninth
        if 1.0 - below < 1e-12 or number > 10 * flows_per_link + 1000:
            return mean, float(median), float(ninth)
        mean += 1.0 - below
        number += 1
        term *= flows_per_link / number
        total += term


@dataclass(frozen=True)
class Drawn:
    """Slow-downs over NICs alone, one for each draw of the hashes."""

    factors: Floats
    busiest: tuple[int, ...]
    """Of each draw, the link that takes longest."""

    def quantile(self, share: float) -> float:
        """The slow-down that `share` of the draws do not exceed; a value that was drawn."""
        return float(np.quantile(self.factors, share, method="higher"))


def drawn(routes: Routes, pairs: Pairs, *, qps: int, draws: int, seed: int) -> Drawn:
    """Draw the ways of all flows `draws` times."""
    found = [one_draw(routes, pairs, qps=qps, seed=seed, number=number) for number in range(draws)]
    return Drawn(np.array([slower for slower, _ in found]), tuple(link for _, link in found))


def one_draw(
    routes: Routes, pairs: Pairs, *, qps: int, seed: int, number: int
) -> tuple[float, int]:
    """The slow-down of one draw, and the link that takes longest."""
    times = over_nics(routes, pairs, qps=qps, seed=seed, number=number)
    worst = int(times.argmax())
    slower = float(times[worst])
    return (slower if slower > 1.0 + EXACT else 1.0), worst


def over_nics(routes: Routes, pairs: Pairs, *, qps: int, seed: int, number: int) -> Floats:
    """Of one draw, the time that each link needs over that of the NICs alone."""
    links, each = routes.links, routes.flows(qps)
    if not len(pairs):
        return np.zeros(len(links.rates))
    draw = np.random.default_rng((seed, number))
    pairs, nics, most = routes.around_dead_nics(pairs)
    entries = routes.entries(pairs.source, pairs.target, draw, qps, nics)
    moved = loads(links, entries, np.repeat(pairs.part / each, each))
    alone_s = (most or moved[: 2 * links.nics].max()) / links.nic_bytes_per_s
    times = np.divide(moved, links.rates, out=np.zeros_like(moved), where=links.rates > 0)
    return np.asarray(times / alone_s, float)
