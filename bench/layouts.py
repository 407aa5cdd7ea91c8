"""How many layouts a second pass through `Layout` and its rules: `python bench/layouts.py`."""

import time

import numpy as np

import syncwall as sw
from syncwall.describe.layout import Schedule
from syncwall.describe.rules import broken_rules, possible

COUNT = 1_000_000
GPUS, SEQ = 1024, 2048


def main() -> None:
    model = sw.model("gpt3-175b")
    random = np.random.default_rng(0)
    columns = {
        "tp": 2 ** random.integers(0, 5, COUNT),
        "pp": 2 ** random.integers(0, 6, COUNT),
        "cp": 2 ** random.integers(0, 3, COUNT),
        "virtual_stages": random.integers(1, 4, COUNT),
        "schedule": random.choice([Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED], COUNT),
        "micro_batch": 2 ** random.integers(0, 4, COUNT),
        "shard": random.integers(0, 4, COUNT),
    }
    start = time.perf_counter()
    layouts = sw.Layout.arrays(**columns, global_batch=1536).resolved(GPUS)
    allowed = possible(model, layouts, SEQ, GPUS)
    arrays_s = time.perf_counter() - start

    start = time.perf_counter()
    one = sw.Layout(tp=8, pp=8, global_batch=1536)
    for _ in range(1000):
        broken_rules(model, one.resolved(GPUS), SEQ, GPUS)
    single_s = (time.perf_counter() - start) / 1000
    print(
        f"arrays   {COUNT / arrays_s:12,.0f} layouts/s   ({allowed.sum():,} of {COUNT:,} possible)"
    )
    print(f"singly   {1 / single_s:12,.0f} layouts/s")


if __name__ == "__main__":
    main()
