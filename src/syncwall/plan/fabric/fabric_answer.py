"""The whole answer: every kind side by side, the one that is proposed, and a run on each.

Holds `OfferedFabric`, `FabricAnswer` and `plan_fabric`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from syncwall.answer.contention import Contention
from syncwall.answer.prediction import Prediction
from syncwall.network import Routing
from syncwall.network.graph import CutOffError
from syncwall.plan.choices import KINDS, FabricKind
from syncwall.plan.fabric.degraded_step import Degraded, Effect, FabricSteps
from syncwall.plan.fabric.options import Refusal, options, proposed, refusal
from syncwall.plan.fabric.question import Wiring
from syncwall.plan.fabric.sized import NOTHING, FabricTotal, PartRates, Sized
from syncwall.problems import InputError
from syncwall.public import Answer, Late, published


@published(
    "kind=sized.kind possible=sized.possible most_gpus=sized.most_gpus why_not",
    "tiers=built.tiers switches=built.switches switches_after_growth=built.grown_switches",
    "cables=built.cables optics bisection_share=built.bisection_share",
    "bisection_bytes_per_s=built.bisection_bytes_per_s hops=built.hops joins_all=built.joins_all",
    "losses=built.losses cost_usd power_w fabric=built.fabric",
    "step_s=effect.step_s slower=effect.slower forwarded=effect.forwarded",
)
@dataclass(frozen=True, slots=True)
class OfferedFabric:
    """A kind of fabric; null after `why_not` if not possible, from `step_s` on without a run."""

    sized: Sized
    why_not: Refusal | None
    """None if it is possible."""
    built: Sized | None = None
    """The same as `sized`; None if it is not possible, when counts mean nothing."""
    optics: int | None = None
    """Transceivers to buy now."""
    cost_usd: FabricTotal | None = None
    """None if no price is stated."""
    power_w: FabricTotal | None = None
    """None if no power is stated."""
    effect: Effect | None = None


@published(
    "verdict gpus chosen=chosen.kind wiring copper non_blocking_step_s=free_s fabrics degraded",
    chosen="The one to build; null if none is possible.",
)
@dataclass(frozen=True)
class FabricAnswer(Answer):
    """Every kind of fabric for one number of GPUs, and the one to build."""

    verb = "plan fabric"
    verdict = Late("show.fabric:verdict")
    wiring: Wiring
    """What is connected, and with what."""
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
    """The step of the run on a non-blocking network; None without a run."""
    effects: Mapping[FabricKind, Effect] = field(default_factory=dict)
    degraded: Degraded | None = None
    """The run on the chosen fabric with slow or dead parts, if any are named."""
    steps: Mapping[FabricKind, Contention] = field(default_factory=dict)
    """How the step on each fabric came about: routing, draws, busiest link."""

    @property
    def exit_code(self) -> int:
        """1 if no fabric connects so many GPUs."""
        return int(self.chosen is None)

    def __repr__(self) -> str:
        best = self.chosen.kind if self.chosen else "impossible"
        return f"<FabricAnswer {self.gpus:,} GPUs: {best}>"

    @property
    def possible(self) -> list[Sized]:
        """The fabrics that can be built."""
        return [one for one in self.found.values() if one.possible]

    @property
    def fabrics(self) -> list[OfferedFabric]:
        """All kinds that were asked for, the impossible ones too."""
        return [
            self._built(one) if one.possible else OfferedFabric(one, refusal(one))
            for one in self.found.values()
        ]

    def _built(self, one: Sized) -> OfferedFabric:
        rates, optics = (self.prices, self.powers), one.optics(self.copper)
        usd, watts = (each.bill(one, self.copper) if each.stated else None for each in rates)
        return OfferedFabric(one, None, one, optics, usd, watts, self.effects.get(one.kind))


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

    Its flows find their way by `routing` with `qps` queue pairs each. With `degraded` (parts by
    name, bytes a second each; 0 is dead) the run is also priced on the chosen one with these slow.
    """
    if degraded and prediction is None:
        raise InputError.of("--degraded says what a run loses: add --model NAME, or a run file")
    every = options(wiring, gpus)
    found = {one: every[one] for one in KINDS if kind in (None, one)}
    chosen = proposed(found, prices, copper)
    answer = FabricAnswer(wiring, gpus, found, chosen, copper, prices, powers, prediction)
    if prediction is None or chosen is None:
        return answer
    steps = FabricSteps(prediction, routing, qps)
    seen = {one.kind: steps.effect(one, exactly=bool(degraded) and one is chosen) for one in answer.possible}
    before = seen[chosen.kind][1]
    try:
        slow = steps.degraded(chosen, degraded, before) if degraded else None
    except InputError as error:
        stops = "the job stops: " if isinstance(error, CutOffError) else ""
        raise InputError.of(f"--degraded: {stops}{error}") from None
    return replace(
        answer,
        free_s=before.free_s,
        effects={name: effect for name, (effect, _) in seen.items()},
        steps={name: spread for name, (_, spread) in seen.items()},
        degraded=slow,
    )
