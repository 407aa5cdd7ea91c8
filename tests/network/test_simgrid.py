"""Fair shares and their changes in time, flow by flow, as SimGrid finds them."""

from dataclasses import replace

import numpy as np
import pytest

from syncwall.describe import lookup
from syncwall.network import Routing
from syncwall.network.flows import Usage, fluid_s
from syncwall.network.routing import Ends, Routes
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.sized_links import fabric_named
from tests.network import simgrid_oracle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(simgrid_oracle.missing()), reason=simgrid_oracle.missing() or ""),
]
AT_ONCE = 10


def case(number: int) -> tuple[Usage, np.ndarray]:
    """Random flows of random sizes over a fat tree, rails, or a dragonfly; some links are slow."""
    draw = np.random.default_rng(number)
    kinds: tuple[FabricKind, ...] = ("fat-tree-2", "rail-optimised", "dragonfly")
    kind = kinds[number % 3]
    cluster = lookup.cluster("dgx-h100").using(int(draw.integers(24, 80)))
    links = fabric_named(kind, cluster, (float(draw.choice([1.0, 2.0])), 1.0))
    slow = draw.integers(0, len(links.rates), 5)
    rates = links.rates.copy()
    for link, factor in {int(link): float(draw.uniform(0.2, 1.0)) for link in slow}.items():
        rates[link] *= factor
    links = replace(links, rates=rates)
    routing: Routing = "valiant" if number % 6 == 5 else "ecmp"
    source, target = draw.choice(cluster.gpus, (2, int(draw.integers(10, 60))))
    apart = source // 8 != target // 8
    routes = Routes(links, routing, Ends.of(cluster, pxn=bool(number % 2)))
    found = routes.entries(source[apart], target[apart], draw, 1)
    pairs = np.unique(np.stack([found.flow, found.link]), axis=1)
    size = draw.integers(1, 1000, int(apart.sum())) * 10_000_000
    return Usage.of(pairs[0], pairs[1], links.rates), size.astype(float)


@pytest.mark.parametrize("first", range(0, 200, AT_ONCE))
def test_two_hundred_random_cases_end_when_simgrid_says(first):
    cases = [case(number) for number in range(first, first + AT_ONCE)]
    asked = []
    for usage, size in cases:
        used, link = np.unique(usage.link, return_inverse=True)
        ways = [link[usage.stream == flow].tolist() for flow in range(usage.streams)]
        asked.append({"rates": usage.rates[used].tolist(), "ways": ways, "bytes": size.tolist()})
    expected = simgrid_oracle.completion_s(asked)
    for (usage, size), ended_s in zip(cases, expected, strict=True):
        assert usage.streams >= 5
        np.testing.assert_allclose(fluid_s(usage, size), ended_s, rtol=1e-9)
