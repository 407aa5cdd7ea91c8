"""Speed of predictions, one at a time and in arrays: `python bench/predictions.py`.

Calculon, a comparable simulator, evaluates about 110 configurations a second on one core.
"""

import time

import numpy as np

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.describe.rules import possible

CHUNK, CHUNKS = 32_768, 6
GPUS, SEQ, BATCH = 1024, 2048, 1536


def one_at_a_time(nodes: int, repeats: int = 30) -> float:
    """Seconds of one prediction."""
    run = sw.Run(
        model="llama-3.1-8b",
        cluster=sw.cluster("dgx-h100", nodes=nodes),
        layout=sw.Layout(shard="fsdp"),
    )
    sw.predict(run)
    start = time.perf_counter()
    for _ in range(repeats):
        sw.predict(run)
    return (time.perf_counter() - start) / repeats


def in_arrays() -> tuple[float, float]:
    """Predictions a second: over all chunks, and in the quickest one (the machine undisturbed)."""
    model, cluster = sw.model("gpt3-175b"), sw.cluster("dgx-a100", nodes=GPUS // 8)
    random, pricing = np.random.default_rng(0), Pricing.on(cluster)
    spent: list[float] = []
    for _ in range(CHUNKS):
        layouts = sw.Layout.arrays(
            tp=2 ** random.integers(0, 4, CHUNK),
            pp=2 ** random.integers(0, 5, CHUNK),
            micro_batch=2 ** random.integers(0, 3, CHUNK),
            shard=random.integers(0, 4, CHUNK),
            sp=random.integers(0, 2, CHUNK),
            recompute=random.integers(0, 4, CHUNK),
            overlap_gradients=random.integers(0, 2, CHUNK).astype(bool),
            global_batch=np.full(CHUNK, BATCH),
        ).resolved(GPUS)
        allowed = possible(model, layouts, SEQ, GPUS)
        assert allowed.any()
        start = time.perf_counter()
        pricing.step(model, layouts, SEQ, cluster)
        spent.append(time.perf_counter() - start)
    return CHUNK * len(spent) / sum(spent), CHUNK / min(spent)


def main() -> None:
    small, large = one_at_a_time(1), one_at_a_time(125_000)
    print(f"one prediction, 8 GPUs           {small * 1e3:8.2f} ms")
    print(f"one prediction, 1,000,000 GPUs   {large * 1e3:8.2f} ms   ({large / small:.2f} x)")
    mean, best = in_arrays()
    print(f"in arrays, one core              {mean:8,.0f} predictions/s   (quickest {best:,.0f})")


if __name__ == "__main__":
    main()
