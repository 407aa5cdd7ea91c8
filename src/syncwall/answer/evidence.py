"""What stands behind the largest wait: the collectives that take most of its time.

Holds `Heaviest` and `heaviest`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.cost.path import path
from syncwall.work.block import Stage
from syncwall.work.operations import Collective

_ENDS: Final = (" gather", " input gradient", " sum", " scatter")
"""What `work.layer` adds to the names of exchanges before and after attention, MLP, ..."""


@dataclass(frozen=True, slots=True)
class Heaviest:
    """Collectives of one kind and size that a rank takes part in, in one step."""

    of: tuple[str, ...]
    """What they belong to: attention, MLP, weights, ..."""
    block: str
    """Where: dense layer, embedding, ..."""
    kind: str
    bytes: float
    """Of one call."""
    ranks: int
    domains: int
    """Scale-up domains (mostly nodes) that the ranks stand in."""
    calls: float
    """In a step; not whole where the layers of a stage are averages."""
    total_s: float
    """Seconds of a step, hidden or not."""

    @property
    def each_s(self) -> float:
        """Seconds of one call."""
        return self.total_s / self.calls


def heaviest(prediction: Prediction, cause: Cause) -> Heaviest | None:
    """Of the collectives that book waits under `cause`, those that take longest all together."""
    found: dict[tuple[object, ...], Heaviest] = {}
    for stage in prediction.work.stages:
        if stage.ranks > 0:
            for one in _calls(stage, prediction, cause):
                key = (stage.name, one.block, one.kind, one.bytes, one.ranks)
                found[key] = _together(found[key], one) if key in found else one
    return max(found.values(), key=lambda one: one.total_s, default=None)


def _calls(stage: Stage, prediction: Prediction, cause: Cause) -> Iterator[Heaviest]:
    """Every operation that sends anything and books its waits under `cause`."""
    for block, times in stage.in_a_step(prediction.work.microbatches):
        for operation in block.operations:
            what = operation.what
            if operation.cause is not cause or not isinstance(what, Collective):
                continue
            total_s = float(prediction.prices.seconds(what) * times)
            if total_s > 0:
                way, calls = path(what.group, prediction.cluster), float(what.calls)
                yield Heaviest(
                    (_subject(operation.name),),
                    block.name,
                    what.kind,
                    float(what.bytes) / calls,
                    int(way.ranks),
                    int(way.domains),
                    float(times) * calls,
                    total_s,
                )


def _subject(name: str) -> str:
    end = next((end for end in _ENDS if name.endswith(end)), "")
    return name.removesuffix(end)


def _together(first: Heaviest, second: Heaviest) -> Heaviest:
    return replace(
        first,
        of=tuple(dict.fromkeys((*first.of, *second.of))),
        calls=first.calls + second.calls,
        total_s=first.total_s + second.total_s,
    )
