"""A team's step in as many pieces as a person can see.

Holds `chunks_of` (computation, neighbouring layers as one) and `flights_of` (what workers exchange,
neighbouring collectives as one).
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import ceil
from typing import Any, Final

import numpy as np

from syncwall.answer import Prediction
from syncwall.timeline.team import MEETING, Done, Watched
from syncwall.work.block import Stream
from syncwall.work.operations import Collective

MOST_CHUNKS: Final = 32
"""Pieces of a pass."""
MOST_FLIGHTS: Final = 24
"""Journeys of weights, or of gradients, in a pass."""
_KINDS: Final = {Stream.GATHER: "weights", Stream.REDUCE: "gradients", Stream.EXPERT: "tokens"}
_LAYERS: Final = ("dense layer", "expert layer")


def chunks_of(prediction: Prediction, seen: Watched) -> list[dict[str, Any]]:
    """Computation: layers of a pass by name, with the start and end on each worker."""
    done = [one for one in seen.team.done if one.segment.stream is Stream.COMPUTE]
    numbers = _Numbers(prediction, seen.team.done)
    found = []
    for part in ("forward", "backward", "update"):
        rounds = [
            list(of) for _, of in groupby((one for one in done if one.part == part), key=_place)
        ]
        layers = sum(of[0].block in _LAYERS for of in rounds)
        each = ceil(layers / (MOST_CHUNKS - 4)) if layers else 1
        for together in _grouped(rounds, each):
            pieces = [one for of in together for one in of]
            found.append({"part": part, **numbers.said(pieces), **_times(pieces)})
    return found


def flights_of(prediction: Prediction, seen: Watched) -> list[dict[str, Any]]:
    """What moves between workers; a collective has one start and one end for all of them."""
    numbers = _Numbers(prediction, seen.team.done)
    found = []
    for part in ("forward", "backward", "update"):
        for stream in MEETING:
            moved = [
                one for one in seen.team.done if one.part == part and one.segment.stream is stream
            ]
            each = ceil(len(moved) / MOST_FLIGHTS) if moved else 1
            for start in range(0, len(moved), each):
                pieces = moved[start : start + each]
                found.append(_flight(part, stream, pieces) | numbers.said(pieces))
    return sorted(found, key=lambda flight: flight["start_s"])


def _flight(part: str, stream: Stream, pieces: Sequence[Done]) -> dict[str, Any]:
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


def _times(pieces: Sequence[Done]) -> dict[str, Any]:
    return {
        "starts": pieces[0].starts.tolist(),
        "ends": pieces[-1].ends.tolist(),
        "computing": np.sum([one.ends - one.starts for one in pieces], axis=0).tolist(),
    }


def _grouped(rounds: Sequence[list[Done]], each: int) -> Iterable[list[list[Done]]]:
    """Up to `each` neighbouring layers together; everything else by itself."""
    group: list[list[Done]] = []
    for of in rounds:
        is_layer = of[0].block in _LAYERS
        if group and (not is_layer or len(group) >= each or group[0][0].block != of[0].block):
            yield group
            group = []
        group.append(of)
        if not is_layer:
            yield group
            group = []
    if group:
        yield group


def _place(one: Done) -> tuple[str, int]:
    return one.block, one.round


class _Numbers:
    """Layers of the model by block and round."""

    def __init__(self, prediction: Prediction, done: Sequence[Done]) -> None:
        self._number: dict[tuple[str, str, int], int] = {}
        last = int(prediction.run.model.layers)
        for part, reverse in (("forward", False), ("backward", True)):
            places = dict.fromkeys(
                (one.block, one.round) for one in done if one.part == part and one.block in _LAYERS
            )
            first = max(last - len(places), 0)
            for index, (block, round_) in enumerate(places):
                number = last - index if reverse else first + index + 1
                self._number[part, block, round_] = number

    def said(self, pieces: Sequence[Done]) -> dict[str, Any]:
        """The name of what was done: a range of layers, or the block."""
        numbers = [self._number.get((one.part, one.block, one.round)) for one in pieces]
        known = [number for number in numbers if number is not None]
        if not known:
            blocks = dict.fromkeys(one.block for one in pieces)
            return {"name": " and ".join(blocks), "first": None, "last": None}
        first, last = known[0], known[-1]
        layers = f"layer {first}" if first == last else f"layers {first} to {last}"
        names = (layers if one.block in _LAYERS else f"the {one.block}" for one in pieces)
        return {"name": " and ".join(dict.fromkeys(names)), "first": first, "last": last}
