"""The whole space of layouts of GPT-3 175B on 1,024 A100, on one core: `python bench/search.py`.

Calculon's space for the same question has 11,698,528 configurations, at about 110 a second.
`--exhaustive N` also predicts N random layouts of the space one by one and compares.
"""

import argparse
import resource
import time
from typing import Any

import numpy as np

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.plan.grid import grids
from syncwall.plan.search import search
from syncwall.plan.space import Space
from syncwall.show.words.layout import layout_words

CALCULON = 11_698_528
NODES, SEQ, BATCH = 128, 2048, 1536


EVERY: dict[str, Any] = {"overlap_tp": (False, True), "overlap_parameters": (True, False)}
"""Calculon's space has them without what Megatron asks for beside them (sp, overlap_gradients)."""


def whole_space() -> None:
    model, cluster = sw.model("gpt3-175b"), sw.cluster("dgx-a100", nodes=NODES)
    began, busy = time.perf_counter(), time.process_time()
    found = search(model, cluster, seq=SEQ, global_batch=BATCH, pinned=EVERY)
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - busy
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    best = found.best(1)[0]
    print(f"layouts       {found.counted:>12,}   (Calculon's space: {CALCULON:,})")
    print(f"that fit      {found.fitting:>12,}")
    print(f"time          {wall_s:>10.1f} s   ({cpu_s:.1f} s of one core)")
    print(f"layouts/s     {found.counted / cpu_s:>12,.0f}")
    print(f"memory        {most:>8.2f} GiB")
    print(f"best          {best.step_s:>10.3f} s   {layout_words(best.layout)}")


def one_by_one(count: int) -> None:
    """Random layouts of the space, predicted singly; the largest difference."""
    model, cluster = sw.model("gpt3-175b"), sw.cluster("dgx-a100", nodes=NODES)
    random, pricing = np.random.default_rng(0), Pricing.on(cluster)
    worst = 0.0
    space = Space.of(model, SEQ, BATCH, sw.Software(), EVERY)
    pieces = [grid for grid in grids(space, cluster) if np.any(grid.allowed)]
    for grid in pieces:
        many = pricing.step(model, grid.layouts, SEQ, cluster)
        seconds = np.broadcast_to(many.step_s, grid.shape)
        places = np.argwhere(np.broadcast_to(grid.allowed, grid.shape))
        for place in random.choice(places, -(-count // len(pieces))):
            run = sw.Run(model=model, cluster=cluster, seq=SEQ, layout=grid.layout(place))
            worst = max(worst, abs(seconds[tuple(place)] / sw.predict(run).step_s - 1))
    print(f"singly        {count:>12,}   largest difference {worst:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exhaustive", type=int, default=0, metavar="N")
    wanted = parser.parse_args()
    whole_space()
    if wanted.exhaustive:
        one_by_one(wanted.exhaustive)


if __name__ == "__main__":
    main()
