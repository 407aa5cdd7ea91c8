"""Ring and tree all-reduce of a run, step by step.

Holds `collective`. The order of moves is that of `show.collective_steps`; the
time is what the prediction says for the real group, shared out over the steps that are drawn.
"""

from typing import Any, Final

import numpy as np

from syncwall.answer import Prediction
from syncwall.cost.algorithm_choices import NcclAlgorithm, algorithm_choices
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.nccl import bus_factor
from syncwall.describe.layout import Shard
from syncwall.web.answers.collective_steps import Move, after, parent_of, ring, steps_of, tree
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.answers.step_words import collective_events, collective_verdict
from syncwall.web.questions import MOST_BYTES, AskedCollective
from syncwall.work.block import Stream, groups
from syncwall.work.operations import Collective

TREE_CHUNKS: Final = 4
_SIZES: Final = tuple(2.0**power for power in range(10, 35))


def collective(asked: AskedCollective) -> dict[str, Any]:
    """Who sends what to whom, and how long the prediction says that it takes."""
    prediction = prediction_of(asked.run)
    run, layout = prediction.run, prediction.run.layout
    network = NcclNetwork(run.cluster, prediction.prices.fit.network)
    group = groups(layout)["dp"]
    path = network.path(group)
    size, what = (asked.size, "as asked") if asked.size else _usual(prediction)

    def found(bytes_: float) -> list[NcclAlgorithm]:
        if not bytes_:
            return []
        return algorithm_choices(network, run.cluster, "all-reduce", bytes_, group)

    here = found(size)
    ranks, domains = int(path.ranks), int(path.domains)
    answer: dict[str, Any] = {
        "workers": asked.workers,
        "ranks": ranks,
        "domains": domains,
        "shard": layout.shard.text,
        "dp": int(layout.dp or 1),
        "bytes": size,
        "what": what,
        "chosen": here[0].name if here else None,
        "chosen_s": here[0].seconds if here else None,
        "busbw_bytes_per_s": size * float(bus_factor("all-reduce", ranks)) / here[0].seconds
        if here
        else None,
        "ways": [{"name": w.name, "start_s": w.start_s, "seconds": w.seconds} for w in here],
        "ring": _drawn(ring(asked.workers), here, "Ring", 2 * (ranks - 1)),
        "tree": _drawn(tree(asked.workers, TREE_CHUNKS), here, "Tree", None)
        | {"parents": [None] + [parent_of(worker) for worker in range(1, asked.workers)]},
        "by_size": _by_size({one: found(one) for one in _SIZES}),
    }
    for way in ("ring", "tree"):
        answer[way]["events"] = collective_events(answer[way], answer, way)
    return answer | {"verdict": collective_verdict(answer)}


def _usual(prediction: Prediction) -> tuple[float, str]:
    """What is exchanged in one call of this run, and its name."""
    layout = prediction.run.layout
    sizes = [
        float(op.what.bytes)
        for block in prediction.work.stages[-1].last_backward
        if block.name != "output layer" and block.name.endswith("layer") and float(block.rounds) > 0
        for op in block.operations
        if op.stream is Stream.REDUCE and isinstance(op.what, Collective)
    ]
    layer = min(max(sizes, default=0.0), MOST_BYTES)
    bucket = float(layout.bucket_bytes)
    if layer <= 0:
        return min(bucket, MOST_BYTES), "a bucket of DDP; this run exchanges no gradients"
    if layout.shard == Shard.DDP and layer > bucket:
        return bucket, "a bucket of DDP"
    return layer, "the gradients of one layer"


def _drawn(
    moves: list[Move], here: list[NcclAlgorithm], algorithm: str, real: int | None
) -> dict[str, Any]:
    """Moves, with the time of the fastest way of `algorithm`; null where NCCL has none."""
    steps = steps_of(moves)
    own = next((way for way in here if way.algorithm == algorithm), None)
    return {
        "moves": [[m.step, m.source, m.target, m.chunk, m.adds] for m in moves],
        "steps": steps,
        "chunks": max(move.chunk for move in moves) + 1,
        "name": own.name if own else None,
        "seconds": own.seconds if own else None,
        "start_s": own.start_s if own else None,
        "step_s": own.seconds / steps if own else None,
        "real_steps": real,
        "held": _held(moves),
    }


def _held(moves: list[Move]) -> list[list[list[float]]]:
    """Parts in the sum that each worker has of each chunk, before every step and at the end."""
    chunks = max(move.chunk for move in moves) + 1
    workers = max(move.source for move in moves) + 1
    held = [[1.0] * chunks for _ in range(workers)]
    found = [held]
    for step in range(steps_of(moves)):
        held = after([move for move in moves if move.step == step], held)
        found.append(held)
    return found


def _by_size(found: dict[float, list[NcclAlgorithm]]) -> list[dict[str, Any]]:
    """Ring and tree against the size, and which way wins."""
    return [
        {
            "bytes": size,
            "ring_s": _best(here, "Ring"),
            "tree_s": _best(here, "Tree"),
            "chosen_s": here[0].seconds,
            "chosen": here[0].name,
        }
        for size, here in found.items()
        if here and np.isfinite(here[0].seconds)
    ]


def _best(here: list[NcclAlgorithm], algorithm: str) -> float | None:
    return next((way.seconds for way in here if way.algorithm == algorithm), None)
