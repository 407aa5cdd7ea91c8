"""How fast shared links are solved on one core: `python bench/contention.py`."""

import resource
import time
from collections.abc import Callable

import numpy as np

from syncwall.describe import lookup
from syncwall.network.collisions import drawn
from syncwall.network.fair import Usage, fair_rates, load_bound_s
from syncwall.network.routes import Ends, Routes
from syncwall.network.streams import place_groups, ring
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.links import fabric_named


def routes_of(gpus: int, kind: FabricKind) -> Routes:
    cluster = lookup.cluster("dgx-h100").using(gpus // 8)
    crossed = np.random.default_rng(0).permutation(cluster.nodes)
    return Routes(fabric_named(kind, cluster), "ecmp", Ends.of(cluster, crossed))


def timed(words: str, most_s: float, work: Callable[[], object]) -> None:
    start = time.process_time()
    work()
    taken = time.process_time() - start
    print(f"{words:55} {taken:7.2f} s   at most {most_s} s   {'ok' if taken < most_s else 'LATE'}")


def main() -> None:
    for gpus, draws, most_s in ((1024, 40, 2.0), (16_384, 20, 5.0)):

        def many(gpus: int = gpus, draws: int = draws) -> object:
            kind: FabricKind = "rail-optimised" if gpus < 2000 else "fat-tree-3"
            pairs = ring(place_groups(gpus, gpus // 8, 8, 8))
            return drawn(routes_of(gpus, kind), pairs, qps=4, draws=draws, seed=0)

        timed(f"{gpus:,} GPUs, 4 queue pairs, {draws} draws, with the fabric", most_s, many)
    routes = routes_of(102_400, "fat-tree-3")
    pairs = ring(place_groups(102_400, 12_800, 8, 8))
    usage: list[Usage] = []

    def build() -> None:
        found = routes.entries(pairs.source, pairs.target, np.random.default_rng(0), 8)
        usage.append(Usage.of(found.flow // 8, found.link, routes.links.rates))

    start = time.process_time()
    build()
    rates = fair_rates(usage[0], batch=0.01)
    taken = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{'102,400 GPUs x 8 flows, routes and fair shares':55} {taken:7.2f} s   at most 10 s")
    print(f"{'':55} {peak:7.2f} GB  at most 1 GB   slowest flow {rates.min() / 1e9:.2f} GB/s")
    timed("load bound of these", 0.1, lambda: load_bound_s(usage[0], 1e6))


if __name__ == "__main__":
    main()
