"""The whole answer: every kind side by side, the one that is proposed, and a run on each.

Holds `FabricAnswer` and `plan_fabric`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from syncwall.answer.prediction import Prediction
from syncwall.network import Routing
from syncwall.plan.choices import KINDS, FabricKind
from syncwall.plan.fabric.effect import Effect, effects
from syncwall.plan.fabric.options import options, proposed
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import NOTHING, PartRates, Sized
from syncwall.plan.fabric.slowed import Degraded, degraded_run
from syncwall.problems import InputError
from syncwall.public import Answer, Late
from syncwall.records import json_data


@dataclass(frozen=True)
class FabricAnswer(Answer):
    """Fabrics for one number of GPUs."""

    verb = "plan fabric"
    _record = Late("show.records.fabric:fabrics_record")
    wiring: Wiring
    gpus: int
    found: Mapping[FabricKind, Sized]
    """Every kind that was asked for, the impossible ones too."""
    chosen: Sized | None
    """The one to build; None if nothing is possible."""
    copper: tuple[str, ...] = ()
    """Cables without transceivers."""
    prices: PartRates = NOTHING
    """USD."""
    powers: PartRates = NOTHING
    """W."""
    prediction: Prediction | None = None
    """The training run on its cluster as it is."""
    free_s: float | None = None
    """Its step on a non-blocking network."""
    effects: Mapping[FabricKind, Effect] = field(default_factory=dict)
    degraded: Degraded | None = None
    """The run on the chosen fabric with slow parts, if any are named."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return json_data(self.verb, self._record)

    def __repr__(self) -> str:
        best = self.chosen.kind if self.chosen else "impossible"
        return f"<FabricAnswer {self.gpus:,} GPUs: {best}>"

    @property
    def possible(self) -> list[Sized]:
        """The fabrics that can be built."""
        return [one for one in self.found.values() if one.possible]


def plan_fabric(  # noqa: PLR0913 - what a fabric is asked by
    wiring: Wiring,
    gpus: int,
    *,
    kind: FabricKind | None = None,
    prediction: Prediction | None = None,
    copper: tuple[str, ...] = (),
    prices: PartRates = NOTHING,
    powers: PartRates = NOTHING,
    degraded: Mapping[str, float] | None = None,
    routing: Routing = "ecmp",
    qps: int = 1,
) -> FabricAnswer:
    """Every kind of fabric for `gpus` GPUs, or only `kind`; the step of a predicted run on each.

    With `degraded` (parts by name, bytes a second each) the run is also priced on the chosen one
    with these parts slow, its flows finding their way by `routing` with `qps` queue pairs each.
    """
    if degraded and prediction is None:
        raise InputError.of("--degraded says what a run loses: add --model NAME, or a run file")
    every = options(wiring, gpus)
    found = {one: every[one] for one in KINDS if kind in (None, one)}
    chosen = proposed(found)
    possible = [one for one in found.values() if one.possible]
    free_s: float | None = None
    seen: Mapping[FabricKind, Effect] = {}
    if prediction is not None and possible:
        free_s, seen = effects(prediction, possible)
    slow: Degraded | None = None
    if degraded and prediction is not None and chosen is not None:
        slow = degraded_run(prediction, chosen, degraded, routing, qps)
    return FabricAnswer(
        wiring, gpus, found, chosen, copper, prices, powers, prediction, free_s, seen, slow
    )
