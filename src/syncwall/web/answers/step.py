"""The numbers of the page "How a step works": a data-parallel step, worker by worker.

Holds `team_step`. What is drawn is the last micro batch and the update, as `web.lessons.team` plays
them with the prices of the prediction. `chunks_of` (computation, neighbouring layers as one) and
`flights_of` (what workers exchange, neighbouring collectives as one): a team's step in as many
pieces as a person can see.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from math import ceil
from typing import Any, Final

import numpy as np

from syncwall.answer import Prediction
from syncwall.cause import Cause
from syncwall.problems import InputError
from syncwall.show.layout import layout_words
from syncwall.timeline.step import reduction_window
from syncwall.timeline.streams import MEETING
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.answers.step_events import events_of, phases_of, verdict_of
from syncwall.web.lessons.team import (
    DoneSegment,
    LastMicroBatch,
    WorkerWait,
    idle_of,
    last_micro_batch,
    seconds_of,
    share_of,
)
from syncwall.web.questions import AskedStep
from syncwall.work.block import Stream
from syncwall.work.operations import Collective
from syncwall.work.sharing import reduced_at_once

MOST_CHUNKS: Final = 32
"""Pieces of a pass."""
MOST_FLIGHTS: Final = 24
"""Journeys of weights, or of gradients, in a pass."""
_KINDS: Final = {Stream.GATHER: "weights", Stream.REDUCE: "gradients", Stream.EXPERT: "tokens"}
_ENDS: Final = ("output layer", "prediction layer")
"""Blocks that are called layers and are not those of the model."""


def chunks_of(prediction: Prediction, seen: LastMicroBatch) -> list[dict[str, Any]]:
    """Computation: layers of a pass by name, with the start and end on each worker."""
    done = [one for one in seen.done if one.segment.stream is Stream.COMPUTE]
    numbers = _Numbers(prediction, seen.done)
    found = []
    for part in ("forward", "backward", "update"):
        rounds = [
            list(of) for _, of in groupby((one for one in done if one.part == part), key=_place)
        ]
        layers = sum(_is_layer(of[0]) for of in rounds)
        each = ceil(layers / (MOST_CHUNKS - 4)) if layers else 1
        for together in _grouped(rounds, each):
            pieces = [one for of in together for one in of]
            found.append({"part": part, **numbers.said(pieces), **_times(pieces)})
    return found


def flights_of(prediction: Prediction, seen: LastMicroBatch) -> list[dict[str, Any]]:
    """What moves between workers; a collective has one start and one end for all of them."""
    numbers = _Numbers(prediction, seen.done)
    found = []
    for part in ("forward", "backward", "update"):
        for stream in MEETING:
            moved = [one for one in seen.done if one.part == part and one.segment.stream is stream]
            each = ceil(len(moved) / MOST_FLIGHTS) if moved else 1
            for start in range(0, len(moved), each):
                pieces = moved[start : start + each]
                found.append(_flight(part, stream, pieces) | numbers.said(pieces))
    return sorted(found, key=lambda flight: flight["start_s"])


def _flight(part: str, stream: Stream, pieces: Sequence[DoneSegment]) -> dict[str, Any]:
    sent = [
        operation.what
        for one in pieces
        for operation, seconds in one.segment.pieces
        if isinstance(operation.what, Collective) and float(seconds) > 0
    ]
    ready = pieces[0].ready
    return {
        "part": part,
        "kind": _KINDS[stream],
        "operation": " and ".join(dict.fromkeys(what.kind for what in sent)),
        "start_s": float(pieces[0].starts[0]),
        "end_s": float(pieces[-1].ends[0]),
        "pieces": [[float(one.starts[0]), float(one.ends[0])] for one in pieces],
        "moving_s": sum(float(one.ends[0] - one.starts[0]) for one in pieces),
        "bytes": float(sum(what.bytes for what in sent)),
        "calls": max(round(float(sum(what.calls for what in sent))), 1),
        "ready_s": ready.tolist(),
        "last_ready": int(ready.argmax()),
    }


def _times(pieces: Sequence[DoneSegment]) -> dict[str, Any]:
    return {
        "starts": pieces[0].starts.tolist(),
        "ends": pieces[-1].ends.tolist(),
        "computing": np.sum([one.ends - one.starts for one in pieces], axis=0).tolist(),
    }


def _grouped(rounds: Sequence[list[DoneSegment]], each: int) -> Iterable[list[list[DoneSegment]]]:
    """Up to `each` neighbouring layers together; everything else by itself."""
    group: list[list[DoneSegment]] = []
    for of in rounds:
        is_layer = _is_layer(of[0])
        if group and (not is_layer or len(group) >= each or group[0][0].block != of[0].block):
            yield group
            group = []
        group.append(of)
        if not is_layer:
            yield group
            group = []
    if group:
        yield group


def _is_layer(one: DoneSegment) -> bool:
    return one.block.endswith(" layer") and one.block not in _ENDS


def _place(one: DoneSegment) -> tuple[str, int]:
    return one.block, one.round


class _Numbers:
    """Layers of the model by block and round."""

    def __init__(self, prediction: Prediction, done: Sequence[DoneSegment]) -> None:
        self._number: dict[tuple[str, str, int], int] = {}
        last = int(prediction.run.model.layers)
        for part, reverse in (("forward", False), ("backward", True)):
            places = dict.fromkeys(
                (one.block, one.round) for one in done if one.part == part and _is_layer(one)
            )
            first = max(last - len(places), 0)
            for index, (block, round_) in enumerate(places):
                number = last - index if reverse else first + index + 1
                self._number[part, block, round_] = number

    def said(self, pieces: Sequence[DoneSegment]) -> dict[str, Any]:
        """The name of what was done: a range of layers, or the block."""
        numbers = [self._number.get((one.part, one.block, one.round)) for one in pieces]
        known = [number for number in numbers if number is not None]
        if not known:
            blocks = dict.fromkeys(one.block for one in pieces)
            return {"name": " and ".join(blocks), "first": None, "last": None}
        first, last = known[0], known[-1]
        layers = f"layer {first}" if first == last else f"layers {first} to {last}"
        names = (layers if _is_layer(one) else f"the {one.block}" for one in pieces)
        return {"name": " and ".join(dict.fromkeys(names)), "first": first, "last": last}


MOST_LAYERS: Final = 512
"""Of one pipeline stage; more cannot be told apart on a screen."""
MOST_IDLE: Final = 400
"""Idle times of a worker that are drawn, the longest; all are counted."""


_ELSE: Final = "host, accumulation, messages between stages, usual differences between ranks"


def team_step(asked: AskedStep) -> dict[str, Any]:
    """When each worker computes, exchanges and waits in the last micro batch of a step."""
    prediction = prediction_of(asked.changed())
    layout = prediction.run.layout
    refuse_too_many_layers(prediction)
    workers = min(asked.workers, int(layout.dp or 1))
    slow = min(asked.worker, workers) - 1
    slowness = [asked.slow if worker == slow else 1.0 for worker in range(workers)]
    seen = last_micro_batch(prediction.work.stages[-1], prediction.prices, slowness)
    if not np.isfinite(seen.end_s).all():
        raise InputError.of("a part of the step takes forever: is a speed zero?", key="cluster")
    drawn = chunks_of(prediction, seen)
    flights = flights_of(prediction, seen)
    idle = [idle_of(seen, worker) for worker in range(workers)]
    steady = 0 if slow else workers - 1
    kinds = sorted({steady, slow})  # all that are not slow are alike
    answer = {
        "workers": workers,
        "slow": asked.slow,
        "worker": slow,
        "marks": {
            name: getattr(seen, name).tolist()
            for name in ("forward_s", "backward_s", "met_s", "end_s")
        },
        "span_s": float(seen.end_s.max()),
        "chunks": drawn,
        "flights": flights,
        "idle": [_runs(idle[one], float(seen.end_s.max())) for one in kinds],
        "idle_of": [kinds.index(slow if worker == slow else steady) for worker in range(workers)],
        "shares": [asdict(share_of(seen, worker, pieces)) for worker, pieces in enumerate(idle)],
        **_of_the_run(prediction),
        **_lost(prediction, seen, slowness),
    }
    return answer | {
        "phases": phases_of(answer),
        "events": events_of(answer),
        "verdict": verdict_of(answer),
    }


def refuse_too_many_layers(prediction: Prediction) -> None:
    """InputError if a stage has more layers than can be played in reasonable time."""
    stage = prediction.work.stages[-1]
    rounds = sum(float(block.rounds) for block in stage.forward)
    if rounds > MOST_LAYERS:
        said_ = f"{rounds:,.0f} layers on a pipeline stage cannot be drawn; {MOST_LAYERS} can"
        raise InputError.of(said_, key="model")


def _of_the_run(prediction: Prediction) -> dict[str, Any]:
    run, layout = prediction.run, prediction.run.layout
    microbatches = int(layout.microbatches)
    return {
        "step_s": prediction.step_s,
        "fits": prediction.fits,
        "memory_bytes": prediction.memory_bytes,
        "memory_size_bytes": float(run.cluster.device.memory.size_bytes),
        "layout": layout_words(layout),
        "shard": layout.shard.text,
        "pp": int(layout.pp),
        "dp": int(layout.dp or 1),
        "cp": int(layout.cp),
        "gpus": int(run.gpus),
        "gpus_each": int(layout.model_ranks),
        "layers": int(run.model.layers),
        "microbatches": microbatches,
        "micro_batch": int(layout.micro_batch),
        "sequences_each": microbatches * int(layout.micro_batch),
        "tokens_each": microbatches * int(layout.micro_batch) * int(run.seq or 0),
        "seq": int(run.seq or 0),
        "bucket_bytes": float(layout.bucket_bytes),
        "overlap": bool(layout.overlap_gradients),
        "at_once": bool(reduced_at_once(layout)),
        "inside": " × ".join(
            f"{axis} {getattr(layout, axis)}" for axis in ("tp", "cp") if getattr(layout, axis) > 1
        ),
    }


def _lost(prediction: Prediction, seen: LastMicroBatch, slowness: list[float]) -> dict[str, Any]:
    """What the step is made of, and what the slow worker costs."""
    stage, prices = prediction.work.stages[-1], prediction.prices
    microbatches = float(prediction.work.microbatches)
    window = float(reduction_window(prediction.work))
    usual = seconds_of(stage, prices, [1.0] * len(slowness), window)
    slowed = seconds_of(stage, prices, slowness, window)
    lost_s = max(slowed.of_step(microbatches) - usual.of_step(microbatches), 0.0)
    before_s = (microbatches - 1) * usual.micro_s
    parts = {
        "the micro batches before": before_s,
        "this micro batch and the update": usual.final_s,
        Cause.BUBBLE: float(prediction.ledger[Cause.BUBBLE]),
    }
    rest = {_ELSE: prediction.step_s - sum(parts.values()), "waiting for the slow worker": lost_s}
    alone_s = seconds_of(stage, prices, [1.0] * len(slowness)).final_s
    return {
        "lost_s": lost_s,
        "hidden_s": alone_s - usual.final_s,
        "slow_step_s": prediction.step_s + lost_s,
        "parts_s": parts | rest,
    }


def _runs(pieces: list[WorkerWait], span_s: float) -> list[dict[str, Any]]:
    """Idle times between which nothing is computed, each as one, with its seconds by reason."""
    found: list[dict[str, Any]] = []
    for piece in pieces:
        if not found or found[-1]["end_s"] < piece.start_s:
            start = {"wires_s": 0.0, "worker_s": 0.0, "host_s": 0.0, "whom": None}
            found.append({"start_s": piece.start_s, **start})
        run = found[-1]
        run["end_s"] = piece.end_s
        run[f"{piece.why}_s"] += piece.seconds
        run["whom"] = piece.whom if piece.whom is not None else run["whom"]
    seen = [run for run in found if run["end_s"] - run["start_s"] > 2e-4 * span_s]
    longest = sorted(seen, key=lambda run: run["start_s"] - run["end_s"])[:MOST_IDLE]
    return sorted(longest, key=lambda run: run["start_s"])
