"""The page "How a step works": an all-reduce step by step, a pipeline pass by pass, in words.

The data of each worker is cut into chunks; a move adds a chunk to what the receiver has, or takes
its place.

The order of moves is that of `show.collective_steps`; the time is what the prediction says for the
real group, shared out over the steps that are drawn.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np

from syncwall.answer import Prediction
from syncwall.cause import Cause
from syncwall.cost.algorithm_choices import NcclAlgorithm, algorithm_choices
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.nccl import bus_factor
from syncwall.describe.layout import Layout, Schedule, Shard
from syncwall.problems import InputError
from syncwall.show.layout import layout_words, schedule
from syncwall.show.numbers import percent, plural
from syncwall.timeline.step import HIDDEN_MESSAGES, WithoutWeights
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.answers.step import said_bytes, said_time
from syncwall.web.lessons.pipeline import (
    Order,
    Pass,
    Slot,
    bubble_of,
    least_micro_batches,
    most_kept,
    pipeline_orders,
    pipeline_slots,
)
from syncwall.web.lessons.team import pass_seconds
from syncwall.web.questions import MOST_BYTES, MOST_STAGES, AskedCollective, AskedPipeline
from syncwall.work.block import Stage, Stream, groups
from syncwall.work.operations import Collective


def collective_events(drawn: dict[str, Any], a: dict[str, Any], way: str) -> list[dict[str, Any]]:
    """One sentence a step, and one for the end."""
    each_s = drawn["step_s"] or 1.0
    found = [
        {
            "at_s": step * each_s,
            "phase": _collective_phase(step, drawn, a, way),
            "text": _ring_step(step, drawn, a) if way == "ring" else _tree_step(step, drawn),
        }
        for step in range(drawn["steps"])
    ]
    took = f" after {said_time(drawn['seconds'])}" if drawn["seconds"] else ""
    text = f"Every worker has the sum of all {a['workers']}{took}."
    return [*found, {"at_s": drawn["steps"] * each_s, "phase": 2, "text": text}]


def _collective_phase(step: int, drawn: dict[str, Any], a: dict[str, Any], way: str) -> int:
    if way == "ring":
        return 1 if step < a["workers"] - 1 else 2
    return 1 if not any(move[0] <= step and not move[4] for move in drawn["moves"]) else 2


def _ring_step(step: int, drawn: dict[str, Any], a: dict[str, Any]) -> str:
    half = a["workers"] - 1
    first = step < half
    number = f"Step {step + 1} of {drawn['steps']}"
    if first:
        does = "passes one chunk on to the next, which adds its own part to it"
        after = f"sums of {step + 2} parts" if step + 1 < half else "one chunk with the whole sum"
        text = f"{number}, reduce-scatter: every worker {does}; then each holds {after}."
    else:
        does = "passes a finished chunk on to the next, which keeps it"
        have = step - half + 2
        text = f"{number}, all-gather: every worker {does}; then each has {have} of {a['workers']}."
    if drawn["seconds"] and drawn["real_steps"]:
        size, took = a["bytes"] / a["ranks"], drawn["seconds"] / drawn["real_steps"]
        text += (
            f" The real ring has {a['ranks']:,} ranks: {drawn['real_steps']:,} steps of "
            f"{said_bytes(size)}, {said_time(took)} each."
        )
    return text


def _tree_step(step: int, drawn: dict[str, Any]) -> str:
    up = sum(1 for move in drawn["moves"] if move[0] == step and move[4])
    down = sum(1 for move in drawn["moves"] if move[0] == step and not move[4])
    parts = [f"{plural(up, 'chunk')} on the way up, added to what is there"] if up else []
    parts += [f"{plural(down, 'finished chunk')} on the way down from the root"] if down else []
    return f"Step {step + 1} of {drawn['steps']}: {', '.join(parts)}."


def collective_verdict(a: dict[str, Any]) -> str:
    """Which way NCCL is expected to take, and what the others would."""
    if a["chosen"] is None:
        return "This run has one data-parallel rank: there is nothing to sum up"
    others = [
        f"a {name} would take {said_time(a[name]['seconds'])}"
        for name in ("ring", "tree")
        if a[name]["seconds"] is not None and a[name]["name"] != a["chosen"]
    ]
    beside = f"; {', '.join(others)}" if others else ""
    return (
        f"{said_bytes(a['bytes'])} over {a['ranks']:,} ranks: NCCL is expected to take "
        f"{a['chosen']}, {said_time(a['chosen_s'])}{beside}"
    )


def pipeline_events(
    slots: Sequence[Slot], stages: int, micro: int, virtual: int
) -> tuple[list[dict[str, Any]], list[float]]:
    """What all stages do whenever one of them begins something, and when each phase begins.

    Filling ends with the first gradient of all, draining begins after the last forward pass of the
    rank that begins.
    """
    steady_s = min(s.start_s for s in slots if s.which in ("backward", "input"))
    drain_s = max(s.end_s for s in slots if s.rank == 0 and s.which == "forward")
    drain_s = max(drain_s, steady_s)
    names = ("Filling", "Forward and backward in turn", "Draining")
    found: list[dict[str, Any]] = []
    for at_s in sorted({slot.start_s for slot in slots}):
        if found and at_s - found[-1]["at_s"] < 1e-9 * max(at_s, 1e-9):
            continue
        phase = 1 if at_s < steady_s else 2 if at_s < drain_s else 3
        each = (_doing(slots, n, at_s, stages, micro, virtual) for n in range(stages))
        doing = ", ".join(f"stage {n + 1} {does}" for n, does in enumerate(each))
        found.append({"at_s": at_s, "phase": phase, "text": f"{names[phase - 1]}: {doing}."})
    end_s = max(slot.end_s for slot in slots)
    text = f"{_micro(micro)} passed forward and backward in {said_time(end_s)}: all that are drawn."
    return [*found, {"at_s": end_s, "phase": 3, "text": text}], [0.0, steady_s, drain_s]


_WHICH: Final = {"input": "input gradients", "weight": "weight gradients"}


def _doing(slots: Sequence[Slot], stage: int, at_s: float, stages: int, micro: int, virtual: int) -> str:
    for slot in slots:
        if slot.rank == stage and slot.start_s <= at_s < slot.end_s:
            number = slot.micro + slot.way * (micro // 2) + 1
            part = f" in part {slot.stage // stages + 1}" if virtual > 1 else ""
            return f"{_WHICH.get(slot.which, slot.which)} {number}{part}"
    return "waits"


def pipeline_verdict(a: dict[str, Any]) -> str:
    """What the bubble costs with the schedule of the run, and what the slow stage does."""
    if a["slow"] > 1:
        return (
            f"Stage {a['worker'] + 1} computes {a['slow']:g} times slower and sets the pace: "
            f"{_micro(a['drawn'])} take {said_time(a['span_s'])} instead of "
            f"{said_time(a['usual_s'])}"
        )
    own, plain_s = a["run"], a["plain_bubble_s"]
    bubble_s = own["bubble_s"] if own else plain_s
    work_s = a["microbatches"] * (max(a["forward_s"]) + max(a["backward_s"]))
    share = bubble_s / max(bubble_s + work_s, 1e-30)
    said = (
        f"{a['pp']} stages stand still for {said_time(bubble_s)} of a step while the pipeline "
        f"fills and drains: {percent(share, 1)} with {_micro(a['microbatches'])}"
    )
    if own and own["schedule"] != "1f1b":
        drawn = "" if a["schedule"] == own["schedule"] else ", as drawn,"
        said += f" and {own['schedule']}; plain 1F1B{drawn} would have {said_time(plain_s)}"
    return said


def _micro(count: int) -> str:
    return plural(count, "micro batch", "micro batches")


@dataclass(frozen=True, slots=True)
class Move:
    """One chunk goes from one worker to another."""

    step: int
    """Moves of one step happen at the same time."""
    source: int
    target: int
    chunk: int
    adds: bool
    """True if the receiver adds it to its own, False if it replaces its own."""


def ring(workers: int) -> list[Move]:
    """Reduce-scatter and all-gather around a ring: 2 (n - 1) steps with a chunk for each worker.

    After the first half every worker has the whole sum of one chunk; the second half passes the
    sums on. Source: Patarasuk and Yuan 2009.
    """
    found = []
    for step in range(2 * (workers - 1)):
        adds = step < workers - 1
        for source in range(workers):
            chunk = (source - step) % workers if adds else (source + workers - step) % workers
            found.append(Move(step, source, (source + 1) % workers, chunk, adds))
    return found


def tree(workers: int, chunks: int) -> list[Move]:
    """Sums go up a binary tree, then down again; chunks follow each other.

    Worker 0 is the root, 2 i + 1 and 2 i + 2 are below i. NCCL uses two such trees, each for half
    of the data, so that leaves of one are inside the other (Sanders 2009).
    """
    deepest = _depth(workers - 1)
    found = []
    for chunk in range(chunks):
        for worker in range(1, workers):
            above, depth = parent_of(worker), _depth(worker)
            found.append(Move(chunk + deepest - depth, worker, above, chunk, True))
            found.append(Move(chunk + deepest + depth - 1, above, worker, chunk, False))
    return sorted(found, key=lambda move: (move.step, move.chunk, move.source, move.target))


def parent_of(worker: int) -> int:
    """The worker above another one in the tree."""
    return (worker - 1) // 2


def after(moves: Iterable[Move], parts: Sequence[Sequence[float]]) -> list[list[float]]:
    """What every worker has after `moves`; `parts[worker][chunk]` before them."""
    held = [list(own) for own in parts]
    for _, together in groupby(moves, key=lambda move: move.step):
        sent = [(move, held[move.source][move.chunk]) for move in together]
        for move, value in sent:
            own = held[move.target][move.chunk] if move.adds else 0.0
            held[move.target][move.chunk] = own + value
    return held


def steps_of(moves: Sequence[Move]) -> int:
    """How many steps they take."""
    return max((move.step for move in moves), default=-1) + 1


def _depth(worker: int) -> int:
    return (worker + 1).bit_length() - 1


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


def _drawn(moves: list[Move], here: list[NcclAlgorithm], algorithm: str, real: int | None) -> dict[str, Any]:
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


MOST_MICRO: Final = 16
_KINDS: Final = ("forward", "input", "weight")


def pipeline(asked: AskedPipeline) -> dict[str, Any]:
    """Which stage works on which micro batch, where it waits, and the bubble that is predicted."""
    own = int(asked.run.run().layout.pp)
    plain = prediction_of(asked.plain())
    run = prediction_of(asked.run) if own > 1 else plain
    ordered = _ordered(run.run.layout)
    prediction = run if ordered else plain
    ordered = ordered or _ordered(plain.run.layout)
    if ordered is None:
        raise InputError.of("a pipeline needs at least one micro batch", key="layout")
    layout, work = prediction.run.layout, prediction.work
    stages = len(ordered)
    slow = min(asked.worker, stages) - 1
    passes = _Passes(prediction, stages, slow, asked.slow)
    once_s = float(prediction.prices.seconds(work.transfer))
    handover_s = once_s * (1.0 - HIDDEN_MESSAGES * layout.overlap_pp)
    slots = pipeline_slots(ordered, passes.seconds, handover_s)
    usual = pipeline_slots(ordered, _Passes(prediction, stages).seconds, handover_s)
    span_s = max(slot.end_s for slot in slots)
    events, starts = pipeline_events(slots, stages, _pipeline_drawn(layout, stages), passes.virtual)
    answer = {
        "stages": stages,
        "pp": int(layout.pp),
        "own_pp": own,
        "virtual": passes.virtual,
        "layout": layout_words(layout),
        "fits": prediction.fits,
        "microbatches": int(layout.microbatches),
        "drawn": _pipeline_drawn(layout, stages),
        "slow": asked.slow,
        "worker": slow,
        "forward_s": [passes.of_rank(rank)[0] for rank in range(stages)],
        "backward_s": [sum(passes.of_rank(rank)[1:]) for rank in range(stages)],
        "transfer_s": once_s,
        "handover_s": handover_s,
        "slots": [passes.told(slot) for slot in slots],
        "span_s": span_s,
        "bubble_s": [bubble_of(slots, stage) for stage in range(stages)],
        "predicted_bubble_s": float(prediction.ledger[Cause.BUBBLE]),
        "plain_bubble_s": float(plain.ledger[Cause.BUBBLE]),
        "usual_s": max(slot.end_s for slot in usual),
        "step_s": prediction.step_s,
        "schedule": schedule(layout),
        "run": _of_the_run(run) if own > 1 else None,
        "held": [most_kept(order) / passes.virtual for order in ordered],
        "gaps": [list(gap) for stage in range(stages) for gap in _gaps(slots, stage, span_s)],
        "events": events,
        "phases": starts,
    }
    return answer | {"verdict": pipeline_verdict(answer)}


def _ordered(layout: Layout) -> list[Order] | None:
    """What each rank that is drawn does; None if nobody has written an order down."""
    stages = min(int(layout.pp), MOST_STAGES)
    return pipeline_orders(
        layout.schedule, stages, _pipeline_drawn(layout, stages), int(layout.virtual_stages)
    )


def _pipeline_drawn(layout: Layout, stages: int) -> int:
    """Micro batches that are drawn: whole rounds of the schedule."""
    least, there = least_micro_batches(layout.schedule, stages), int(layout.microbatches)
    most = min(there, max(MOST_MICRO, least))
    each = stages if layout.schedule == Schedule.INTERLEAVED else 2 if least > 1 else 1
    return most // each * each


class _Passes:
    """Seconds of passes on ranks, as the prediction has them; rank `slow` is `times` slower."""

    def __init__(self, prediction: Prediction, stages: int, slow: int = 0, times: float = 1.0) -> None:
        layout = prediction.run.layout
        self.virtual = int(layout.stages_per_rank)
        self._dual = bool(layout.schedule == Schedule.DUALPIPE)
        self._drawn, self._stages = _pipeline_drawn(layout, stages), stages
        self._slow = slow
        self._usual, self._slowed = (
            [self._of(prediction, stage, by) for stage in prediction.work.stages] for by in (1.0, times)
        )

    def seconds(self, rank: int, one: Pass) -> float:
        """Of a pass; those of a rank are shared out evenly over its virtual stages."""
        of = self._on(rank, one.stage if self._dual else rank)
        return of[_KINDS.index(one.kind)] / self.virtual

    def of_rank(self, rank: int) -> tuple[float, ...]:
        """One micro batch on a rank: forward, gradients of the input, gradients of weights.

        In DualPipe half of them meet the stage at the other end.
        """
        other = self._stages - 1 - rank if self._dual else rank
        both = zip(self._on(rank, rank), self._on(rank, other), strict=True)
        return tuple((a + b) / 2 for a, b in both)

    def _on(self, rank: int, stage: int) -> tuple[float, float, float]:
        body, last = self._slowed if rank == self._slow else self._usual
        return last if stage == self._stages - 1 else body

    def told(self, slot: Slot) -> list[Any]:
        """Rank, pass, number of the micro batch, start, end, and which of its virtual stages."""
        micro = slot.micro + slot.way * (self._drawn // 2)
        part = slot.stage // self._stages
        return [slot.rank, slot.which, micro, slot.start_s, slot.end_s, part]

    @staticmethod
    def _of(prediction: Prediction, stage: Stage, slower: float) -> tuple[float, float, float]:
        forward_s, backward_s = pass_seconds(stage, prediction.prices, slower)
        input_s = pass_seconds(stage, WithoutWeights(prediction.prices), slower)[1]
        if not np.isfinite([forward_s, backward_s]).all():
            said = "a part of the step takes forever: is a speed zero?"
            raise InputError.of(said, key="cluster")
        return forward_s, input_s, max(backward_s - input_s, 0.0)


def _gaps(slots: list[Slot], stage: int, span_s: float) -> Iterator[tuple[int, float, float]]:
    """When `stage` has nothing to do."""
    now_s = 0.0
    for slot in slots:
        if slot.rank == stage:
            if slot.start_s > now_s:
                yield stage, now_s, slot.start_s
            now_s = slot.end_s
    if span_s > now_s:
        yield stage, now_s, span_s


def _of_the_run(own: Prediction) -> dict[str, Any]:
    """The run's own schedule and its bubble."""
    return {
        "schedule": schedule(own.run.layout),
        "bubble_s": float(own.ledger[Cause.BUBBLE]),
        "step_s": own.step_s,
    }
