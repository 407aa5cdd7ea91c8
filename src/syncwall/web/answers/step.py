"""The page "How a step works": a data-parallel step, worker by worker, and its moments in words.

Workers are counted from 1 in words.

What is drawn is the last micro batch and the update, as `web.lessons.team` plays them with the
prices of the prediction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from math import ceil, isfinite
from typing import Any, Final

import numpy as np

from syncwall import units
from syncwall.answer import Prediction
from syncwall.cause import Cause
from syncwall.problems import InputError
from syncwall.show.layout import layout_words
from syncwall.show.numbers import byte_size, duration, percent, plural
from syncwall.timeline.step import reduction_window
from syncwall.timeline.streams import MEETING
from syncwall.units import Dimension
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.lessons.team import (
    DoneSegment,
    LastMicroBatch,
    WorkerWait,
    last_micro_batch,
    share_of,
    team_idle,
    team_seconds,
)
from syncwall.web.questions import AskedStep
from syncwall.work.block import Stream
from syncwall.work.operations import Collective
from syncwall.work.sharing import reduced_at_once


def events_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Moments in order, each with its phase (1 to 5) and a sentence."""
    found = [_dealt(answer), _forward(answer)]
    found += [_events_flight(one, answer) for one in answer["flights"]]
    found += [_backward(answer), _barrier(answer), _update(answer), _end(answer)]
    return sorted(found, key=lambda event: (event["at_s"], event["phase"]))


def phases_of(a: dict[str, Any]) -> list[dict[str, Any]]:
    """The five phases as a worker that is not slow lives through them."""
    worker, marks = _steady(a), a["marks"]
    ends = [0.0, *(marks[name][worker] for name in ("forward_s", "backward_s", "met_s", "end_s"))]
    names = ("Data partitioning", "Forward", "Backward", _barrier_name(a), "Update")
    starts = [0.0, 0.0, *ends[1:-1]]
    return [
        {"name": name, "start_s": start_s, "end_s": end_s, "seconds": end_s - start_s}
        for name, start_s, end_s in zip(names, starts, ends, strict=True)
    ]


def verdict_of(a: dict[str, Any]) -> str:
    """What the picture says, in one sentence."""
    share = a["shares"][_steady(a)]
    if a["lost_s"] > 0:
        usual, now = said_time(a["step_s"]), said_time(a["slow_step_s"])
        several = a["dp"] > 1
        who = f"Worker {a['worker'] + 1}" if several else "The only worker"
        all_ = f" for all {a['dp']:,} workers" if several else ""
        return f"{who} computes {a['slow']:g} times slower: the step takes {now} instead of {usual}{all_}"
    waits = share["wires_s"] / max(a["span_s"], 1e-30)
    if a["dp"] == 1 and a["cp"] == 1:
        return "One worker: nobody to exchange gradients with, nobody to wait for"
    if a["dp"] == 1:
        return (
            f"One worker, whose {a['cp']} ranks share every sequence: in the last micro batch they "
            f"wait {said_time(share['wires_s'])} of {said_time(a['span_s'])} ({percent(waits, 1)}) "
            "for each other's weights and gradients"
        )
    return (
        f"All {a['dp']:,} workers are equally fast: in the last micro batch each waits "
        f"{said_time(share['wires_s'])} of {said_time(a['span_s'])} ({percent(waits, 1)}) for the "
        "others' data"
    )


def _steady(a: dict[str, Any]) -> int:
    """The first worker that is not the slow one."""
    return 0 if a["worker"] else min(1, a["workers"] - 1)


def _event(at_s: float, phase: int, text: str, **more: Any) -> dict[str, Any]:
    return {"at_s": at_s, "phase": phase, "text": text, **more}


def _dealt(a: dict[str, Any]) -> dict[str, Any]:
    micro = f"micro batch {a['microbatches']} of {a['microbatches']}"
    before = ", the only one"
    if a["microbatches"] > 1:
        same = "do the same without the update" if a["at_once"] else "only add up gradients"
        before = f"; the ones before {same}"
    who = f"each of {a['dp']:,} workers" if a["dp"] > 1 else "the only worker"
    has = f"{plural(a['sequences_each'], 'sequence')} ({a['tokens_each']:,} tokens)"
    return _event(
        0.0,
        1,
        (
            f"Data partitioning: {who} has its own {has} of the step. Drawn is {micro}{before}. "
            "Reading data is taken as 0 s: loaders work ahead."
        ),
    )


def _forward(a: dict[str, Any]) -> dict[str, Any]:
    marks = a["marks"]["forward_s"]
    slow = _slower(a, "forward_s")
    tokens = f"{a['micro_batch']} × {a['seq']:,} tokens"
    parts = ""
    if a["cp"] > 1:
        each = f"{a['seq'] / a['cp']:,.0f} tokens of each sequence"
        parts = f"; each of {a['cp']} context-parallel ranks has {each} and gets the others' keys"
        parts += " and values"
    text = f"Forward: {tokens} pass every layer in {said_time(min(marks))}{slow}{parts}."
    return _event(0.0, 2, text)


def _events_flight(one: dict[str, Any], a: dict[str, Any]) -> dict[str, Any]:
    phase = {"forward": 2, "backward": 3, "update": 5}[one["part"]]
    if one["kind"] == "gradients" and one["start_s"] >= min(a["marks"]["backward_s"]):
        phase = 4
    who = _late(one, a)
    size, took = said_bytes(one["bytes"]), said_time(one["moving_s"])
    if one["kind"] == "weights":
        gather = f"the weights of {one['name']}, {size}, are gathered from {_all(a)} in {took}"
        text = f"{_PHASES[phase]}: {gather}{_beside(one, a)}{who}."
    elif one["kind"] == "gradients":
        text = (
            f"{_PHASES[phase]}: gradients of {one['name']} are ready; {_calls(one, a)} "
            f"({one['operation']}, {size}) for {took}{_beside(one, a)}{who}."
        )
    else:
        text = f"{_PHASES[phase]}: tokens of {one['name']} go to their experts and back, {took}{who}."
    return _event(one["start_s"], phase, text)


def _backward(a: dict[str, Any]) -> dict[str, Any]:
    marks = a["marks"]
    took = min(e - s for s, e in zip(marks["forward_s"], marks["backward_s"], strict=True))
    leaving = any(one["kind"] == "gradients" for one in a["flights"])
    how = (
        ", and gradients leave as soon as they are ready"
        if leaving and a["overlap"]
        else ", and every layer waits until its gradients have been exchanged"
        if leaving
        else ""
    )
    text = f"Backward: layers in reverse order in {said_time(took)}{_slower(a, 'backward_s')}{how}."
    return _event(min(marks["forward_s"]), 3, text)


def _barrier(a: dict[str, Any]) -> dict[str, Any]:
    """From the first worker that is through with its backward pass until all have the sum."""
    ended, met = a["marks"]["backward_s"], a["marks"]["met_s"]
    if not _exchanged(a):
        return _event(max(ended), 4, "No barrier: this layout exchanges no gradients here.")
    left = max(met) - max(ended)
    exposed = f"{said_time(left)} of the exchange" if left > 0 else "none of the exchange"
    waits = max(ended) - min(ended)
    late = f" The others wait {said_time(waits)} for worker {a['worker'] + 1}." if waits > 0 else ""
    what = "the gradients of its shard" if _shards(a) else "all gradients"
    who = "worker" if a["dp"] > 1 else "rank"
    text = f"{_barrier_name(a)}: no {who} can go on without the sum of {what} over {_all(a)}"
    return _event(min(ended), 4, f"{text}; {exposed} is not hidden.{late}")


def _barrier_name(a: dict[str, Any]) -> str:
    """After what adds up gradients: all-reduces with DDP, reduce-scatters with sharding."""
    return f"{' and '.join(_exchanged(a))} barrier".capitalize() if _exchanged(a) else "No barrier"


def _exchanged(a: dict[str, Any]) -> list[str]:
    """Kinds of collectives that gradients take."""
    of = (one["operation"] for one in a["flights"] if one["kind"] == "gradients")
    return list(dict.fromkeys(each for name in of for each in name.split(" and ") if each))


def _shards(a: dict[str, Any]) -> bool:
    """True if each worker updates a part of the weights only."""
    return bool(a["shard"] != "ddp" and a["dp"] * a["cp"] > 1)


def _all(a: dict[str, Any]) -> str:
    """Who adds up gradients: ranks that share a sequence hold the same weights, too."""
    if a["cp"] == 1:
        return "all workers"
    ranks = f"all {a['dp'] * a['cp']:,} ranks with the same weights"
    return f"{ranks} (dp {a['dp']:,} × cp {a['cp']})" if a["dp"] > 1 else f"{ranks} (cp {a['cp']})"


def _update(a: dict[str, Any]) -> dict[str, Any]:
    met, end = a["marks"]["met_s"], a["marks"]["end_s"]
    took = min(e - s for s, e in zip(met, end, strict=True))
    does = "every worker has the same sum and takes the same step of the optimizer"
    if _shards(a):
        who = "every worker" if a["cp"] == 1 else "every rank"
        does = f"{who} updates its own shard with the optimizer"
    elif a["dp"] == 1:
        does = "the only worker takes a step of the optimizer"
    return _event(max(met), 5, f"Update: {does}, {said_time(took)}.")


def _end(a: dict[str, Any]) -> dict[str, Any]:
    micro = plural(a["microbatches"], "micro batch", "micro batches")
    whole = f"The whole step of {micro} takes {said_time(a['step_s'])}"
    if a["lost_s"] > 0:
        slow = f"with worker {a['worker'] + 1} {a['slow']:g} times slower"
        whole += f", {said_time(a['slow_step_s'])} {slow}: all {a['dp']:,} workers lose "
        whole += said_time(a["lost_s"])
    return _event(a["span_s"], 5, f"{whole}.")


_DECIMAL = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_PHASES = {2: "Forward", 3: "Backward", 4: "Barrier", 5: "Update"}


def _calls(one: dict[str, Any], a: dict[str, Any]) -> str:
    if a["shard"] == "ddp" and one["calls"] > 1:
        return f"{one['calls']:,} buckets of up to {byte_size(a['bucket_bytes'])} travel"
    return "one bucket travels" if a["shard"] == "ddp" else "they travel layer by layer"


def _beside(one: dict[str, Any], a: dict[str, Any]) -> str:
    """What is computed meanwhile: on workers that are not slow, or else on the slow one."""
    middle = (one["start_s"] + one["end_s"]) / 2
    name = _computed(a, _steady(a), middle)
    if name:
        return f" while {name} {'are' if ' to ' in name else 'is'} computed"
    name = _computed(a, a["worker"], middle)
    return (
        f" while only worker {a['worker'] + 1} computes, {name}" if name else (" while nothing is computed")
    )


def _computed(a: dict[str, Any], worker: int, at_s: float) -> str:
    for chunk in a["chunks"]:
        if chunk["starts"][worker] <= at_s < chunk["ends"][worker]:
            return str(chunk["name"])
    return ""


def _late(one: dict[str, Any], a: dict[str, Any]) -> str:
    waits = max(one["ready_s"]) - min(one["ready_s"])
    if a["slow"] <= 1 or waits <= 0:
        return ""
    return f"; worker {one['last_ready'] + 1} is ready {said_time(waits)} after the first"


def _slower(a: dict[str, Any], mark: str) -> str:
    marks = a["marks"][mark]
    later = marks[a["worker"]] - min(marks)
    if a["slow"] <= 1 or later <= 0:
        return ""
    return f" (worker {a['worker'] + 1} is {said_time(later)} behind)"


def said_time(seconds: float) -> str:
    """Three figures of a time, whose unit stays beside them."""
    return duration(max(seconds, 0.0)).replace(" ", "\u00a0") if isfinite(seconds) else "no end"


def said_bytes(size: float) -> str:
    """Three figures of a size, in decimal units."""
    if not isfinite(size):
        return "no end of bytes"
    unit = next((unit for unit, least in _DECIMAL if size >= least), "B")
    return units.format(size, Dimension.BYTES, digits=3, unit=unit).replace(" ", "\u00a0")


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
        rounds = [list(of) for _, of in groupby((one for one in done if one.part == part), key=_place)]
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
    idle = [team_idle(seen, worker) for worker in range(workers)]
    steady = 0 if slow else workers - 1
    kinds = sorted({steady, slow})  # all that are not slow are alike
    answer = {
        "workers": workers,
        "slow": asked.slow,
        "worker": slow,
        "marks": {
            name: getattr(seen, name).tolist() for name in ("forward_s", "backward_s", "met_s", "end_s")
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
    usual = team_seconds(stage, prices, [1.0] * len(slowness), window)
    slowed = team_seconds(stage, prices, slowness, window)
    lost_s = max(slowed.of_step(microbatches) - usual.of_step(microbatches), 0.0)
    before_s = (microbatches - 1) * usual.micro_s
    parts = {
        "the micro batches before": before_s,
        "this micro batch and the update": usual.final_s,
        Cause.BUBBLE: float(prediction.ledger[Cause.BUBBLE]),
    }
    rest = {_ELSE: prediction.step_s - sum(parts.values()), "waiting for the slow worker": lost_s}
    alone_s = team_seconds(stage, prices, [1.0] * len(slowness)).final_s
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
