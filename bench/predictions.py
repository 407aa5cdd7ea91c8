"""Speed of predictions, one at a time and in arrays: `python bench/predictions.py`.

Calculon, a comparable simulator, evaluates about 110 configurations a second on one core.
"""

import time

import numpy as np

import syncwall as sw
from syncwall.answer.prediction import evaluate
from syncwall.describe.rules import possible

CHUNK, CHUNKS = 16_384, 8
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


def in_arrays() -> float:
    """Predictions a second, chunk by chunk, only layouts that can be."""
    model, cluster = sw.model("gpt3-175b"), sw.cluster("dgx-a100", nodes=GPUS // 8)
    random = np.random.default_rng(0)
    done, spent = 0, 0.0
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
        evaluate(model, cluster, layouts, SEQ)
        spent += time.perf_counter() - start
        done += CHUNK
    return done / spent


def main() -> None:
    small, large = one_at_a_time(1), one_at_a_time(125_000)
    print(f"one prediction, 8 GPUs           {small * 1e3:8.2f} ms")
    print(f"one prediction, 1,000,000 GPUs   {large * 1e3:8.2f} ms   ({large / small:.2f} x)")
    print(f"in arrays, one core              {in_arrays():8,.0f} predictions/s")


if __name__ == "__main__":
    main()
