"""What stands behind the largest wait: the collective that takes longest.

Holds `Heaviest` and `heaviest`.
"""

from dataclasses import dataclass

from syncwall.answer.prediction import Prediction
from syncwall.cost.path import paths
from syncwall.work.operations import Collective


@dataclass(frozen=True, slots=True)
class Heaviest:
    """One call of one collective."""

    name: str
    kind: str
    bytes: float
    ranks: int
    domains: int
    """Scale-up domains (mostly nodes) that its ranks stand in."""
    seconds: float


def heaviest(prediction: Prediction, cause: str) -> Heaviest | None:
    """The longest collective of the last pipeline rank that books its waits under `cause`."""
    run = prediction.run
    where = paths(run.layout, run.cluster)
    stage = prediction.work.stages[-1]
    found = []
    for block in (*stage.forward, *stage.last_backward):
        for operation in block.operations:
            what = operation.what
            if operation.cause == cause and isinstance(what, Collective):
                seconds = float(prediction.prices.seconds(what))
                path = where[what.axis]
                ranks, domains = int(path.ranks), int(path.domains)
                size = float(what.bytes)
                found.append(Heaviest(block.name, what.kind, size, ranks, domains, seconds))
    return max((one for one in found if one.seconds > 0), key=lambda h: h.seconds, default=None)
