"""How long the network between scale-up domains is in use in one step.

Holds `busy_s`, `Traffic` and `heaviest`. Overlap does not matter here: what is hidden counts too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from syncwall.plan.wires import Timed
from syncwall.work.block import Block, Stage
from syncwall.work.operations import Collective


def busy_s(timed: Timed) -> Any:
    """Seconds of a step in which a rank's group uses the network; of the class that does most."""
    each = [_stage_s(stage, timed) for stage in timed.work.stages]
    longest: Any = 0.0
    for stage, seconds in zip(timed.work.stages, each, strict=True):
        longest = np.maximum(longest, seconds * (stage.ranks > 0))
    return longest + _messages_s(timed)


@dataclass(frozen=True, slots=True)
class Traffic:
    """One collective, or message between stages, that crosses the network."""

    kind: str
    axis: str
    bytes: float
    ranks: int
    domains: int
    start_s: float
    """Latency of one call: what it takes longer than on a network without any."""


def heaviest(timed: Timed, without_latency: Timed) -> Traffic | None:
    """The collective or message that uses the network longest in a step (one layout).

    `without_latency` is the same step on a network that has none.
    """
    whats = [
        (what, float(timed.prices.seconds(what) * times))
        for stage in timed.work.stages
        if np.any(stage.ranks > 0)
        for what, times in _collectives(stage, timed)
        if np.any(what.bytes > 0)
    ]
    messages_s = float(_messages_s(timed))
    if not whats and not messages_s:
        return None
    what, longest_s = max(whats, key=lambda pair: pair[1], default=(None, 0.0))
    if what is None or messages_s > longest_s:
        return _message(timed, without_latency)
    path, calls = timed.ways[what.axis], float(what.calls)
    start_s = float(timed.prices.seconds(what) - without_latency.prices.seconds(what))
    return Traffic(
        what.kind, what.axis, float(what.bytes) / calls, int(path.ranks), int(path.domains),
        start_s / calls / float(what.share),
    )  # fmt: skip


def _message(timed: Timed, without_latency: Timed) -> Traffic:
    """A message from one stage to the next."""
    what, path = timed.work.transfer, timed.ways["pp"]
    start_s = timed.prices.seconds(what) - without_latency.prices.seconds(
        without_latency.work.transfer
    )
    return Traffic(
        "message", "pp", float(what.bytes), int(path.ranks), int(path.domains), float(start_s)
    )


def _stage_s(stage: Stage, timed: Timed) -> Any:
    total: Any = 0.0
    for what, times in _collectives(stage, timed):
        far = timed.ways[what.axis].domains > 1
        total = total + np.where(far, timed.prices.seconds(what), 0.0) * times
    return total


def _collectives(stage: Stage, timed: Timed) -> Iterator[tuple[Collective, Any]]:
    """Those of a stage that may cross the network, and how often each is done in a step."""
    micro = timed.work.microbatches
    parts: list[tuple[tuple[Block, ...], Any]] = [
        (stage.forward, micro), (stage.backward, micro - 1), (stage.last_backward, 1),
        (stage.finish, 1),
    ]  # fmt: skip
    for blocks, times in parts:
        for block in blocks:
            for operation in block.operations:
                what = operation.what
                if isinstance(what, Collective) and np.any(timed.ways[what.axis].domains > 1):
                    yield what, times * block.rounds


def _messages_s(timed: Timed) -> Any:
    """Messages between stages: forward and backward, for every micro batch and chunk."""
    far = (timed.ways["pp"].domains > 1) & (timed.layout.pp > 1)
    once = timed.prices.seconds(timed.work.transfer)
    crossings = 2.0 * timed.work.microbatches * timed.layout.virtual_stages
    return np.where(far, once * crossings, 0.0)
