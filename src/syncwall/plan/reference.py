"""The run that a plan starts from, however much of it was stated.

Holds `Reference`, `PlanInputs`, `reference`, `start_of` and `usual_batch`: GPUs, batch and layout
that nobody stated are chosen and reported.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path
from typing import Any, Final

from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.pricing import Pricing
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Model, Run
from syncwall.describe.base import is_open
from syncwall.describe.layout import PLAIN
from syncwall.describe.run import default_batch, of_a_gpu
from syncwall.describe.stated import StatedRun
from syncwall.describe.switches import FSDP, KEEPING
from syncwall.plan.best_layout import best_run
from syncwall.plan.network_scaling import PricedCase
from syncwall.plan.space import held
from syncwall.problems import InputError, option

BATCH_TOKENS: Final = 2**22
"""Tokens of a step if neither the user nor the model's publication states them: about what GPT-3
175B (3.2 M) and Llama 2 (4 M) used."""
BATCH_SAMPLES: Final = 2048
"""Samples of a step of a stack, if nobody states them: those of Stable Diffusion 2 in the settings
of mosaicml/diffusion."""
_NO_LAYOUT: Final = {
    *KEEPING,
    *FSDP,
    "global_batch",
    "micro_batch",
    "precision",
    "gradient_dtype",
    "bucket",
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tp",
    "overlap_pp",
    "outer_every",
}
"""Keys that leave the layout itself open."""
_AXES: Final = ("tp", "pp", "cp", "ep", "etp")
_BATCH: Final = "layout.global_batch"
_EVENLY: Final = 128
"""Published batches are rounded to a multiple of so many sequences, which replicas can share."""
_FARTHEST: Final = 15
"""Doublings of a node's GPUs that are tried if nobody states a number."""


START: Final = (
    "left_open=start.assumed layout_searched=start.layout_searched "
    "step_s=start.prediction.step_s run=start.run"
)
"""What a plan publishes of the run that it starts from."""


@dataclass(frozen=True)
class Reference:
    """A complete run, or a recorded program, predicted."""

    prediction: Prediction
    assumed: dict[str, str] = field(default_factory=dict)
    """What nobody stated, and the value taken for it."""
    layout_searched: bool = False
    """True if the layout was found by search."""

    @property
    def run(self) -> Run:
        """The run, with nothing open."""
        return self.prediction.run

    @property
    def case(self) -> PricedCase:
        """What is trained where, at the prices of the run."""
        if self.prediction.is_recorded:
            return PricedCase.of_program(self.prediction)
        return PricedCase.of(self.run, self.prediction.pricing)

    @property
    def name(self) -> str:
        """Of the model, or what was recorded."""
        if self.prediction.is_recorded:
            return self.prediction.program.command
        return self.run.model.name

    @property
    def replica_batch(self) -> int:
        """Sequences of one replica."""
        return int(self.run.layout.global_batch or 1) // int(self.run.layout.dp or 1)


RunLike = Run | StatedRun | Mapping[str, Any] | str | Path
"""A run; or its keys, as in a run file, or such a file: what they leave out is chosen."""


@dataclass(frozen=True)
class PlanInputs:
    """What was stated of a run, and what is known of its machine."""

    stated: StatedRun
    measured: MachineMeasurements | None = None
    """What was measured on the machine."""
    site: Site = UNKNOWN_SITE
    """Known runs of the same cluster."""

    @property
    def has_layout(self) -> bool:
        """True if the split of the model itself is stated, not only its batch and switches."""
        stated = self.stated
        written = stated.settings is not None or "layout" in stated.file.keys
        return written or not set(stated.layout) <= _NO_LAYOUT

    def with_keys(self, **keys: Any) -> "PlanInputs":
        """With further keys, in which a dot is written as two underscores."""
        further = {name.replace("__", "."): value for name, value in keys.items()}
        return replace(self, stated=self.stated.with_keys(further))

    def pricing(self, run: Run) -> Pricing:
        """The prices of a run."""
        return Pricing.of(run, measured=self.measured, site=self.site)


def start_of(
    run: RunLike, measured: MachineMeasurements | None = None, site: Site = UNKNOWN_SITE
) -> Reference:
    """Where a plan for `run` starts."""
    if isinstance(run, Run):
        prediction = predict(run, measured=measured, site=site)
        return Reference(prediction, prediction.assumed)
    if isinstance(run, Mapping):
        run = StatedRun.of_keys(run)
    elif not isinstance(run, StatedRun):
        run = StatedRun.of_file(Path(run))
    return reference(PlanInputs(run, measured, site))


def reference(inputs: PlanInputs) -> Reference:
    """The run of `inputs`, completed and predicted."""
    bare, assumed = inputs.stated.without_layout().run(), dict[str, str]()
    if not inputs.stated.has_batch:
        batch, why = usual_batch(bare.model, bare.seq)
        if inputs.stated.has_gpus and inputs.has_layout:
            batch, why = _shared(inputs.stated, batch, why)
        assumed["global_batch"] = f"{batch:,} ({why})"
        inputs = inputs.with_keys(layout__global_batch=batch)
    found = searched if not inputs.has_layout else _placed
    if inputs.stated.has_gpus:
        prediction = found(inputs)
    else:
        prediction = _sized(inputs, bare, found)
        each, words = of_a_gpu(bare.model)
        assumed["gpus"] = f"{prediction.run.gpus:,} (about {each:,} {words} of a step each)"
    return Reference(prediction, {**assumed, **prediction.assumed}, not inputs.has_layout)


def usual_batch(model: Model, seq: int, gpus: int | None = None) -> tuple[int, str]:
    """Sequences of `seq` tokens in a step, if nobody states them, on `gpus` GPUs or any; and why."""
    published = model.train_batch_tokens
    if gpus is not None:
        batch, why = default_batch(model, seq, gpus)
    elif published is not None:
        batch, why = published / seq, f"as published for {model.name}"
    elif model.stack is not None:
        return BATCH_SAMPLES, f"assumed: {BATCH_SAMPLES:,} samples"
    else:
        batch, why = BATCH_TOKENS / seq, "assumed: 4 million tokens"
    sequences = max(1, round(batch))
    if sequences < 2 * _EVENLY:
        return 1 << round(log2(sequences)), why
    return round(sequences / _EVENLY) * _EVENLY, why


def _shared(stated: StatedRun, batch: int, why: str) -> tuple[int, str]:
    """`batch`, or the nearest one that the layout which was stated can share out; and why."""
    try:
        stated.with_keys({_BATCH: batch}).run()
    except InputError:
        unit = int(stated.with_keys({_BATCH: None}).run().layout.global_batch or 1)
        shared = max(1, round(batch / unit)) * unit
        return shared, f"a multiple of {unit:,}, so that replicas get equal parts"
    return batch, why


def _placed(inputs: PlanInputs) -> Prediction:
    """The run as it was stated, on the GPUs that were stated."""
    run = inputs.stated.run()
    return predict(run, inputs.pricing(run))


def searched(inputs: PlanInputs) -> Prediction:
    """The run in the best layout on the GPUs that were stated."""
    run = inputs.stated.with_keys({_BATCH: None}).run()  # a batch that nothing must divide yet
    pinned = held(run.layout)
    pinned |= {name: getattr(run.layout, name) for name in PLAIN if not is_open(run.layout, name)}
    pinned |= {name: getattr(run.layout, name) for name in _AXES if name in inputs.stated.layout}
    pricing, batch = inputs.pricing(run), _whole(inputs.stated.get(_BATCH))
    best = best_run(PricedCase.of(run, pricing), run.cluster, batch, pinned, narrow={})
    if best is None:
        raise InputError.of(
            f"no layout fits into the memory of {run.gpus:,} GPUs: use more {option('nodes')}"
        )
    return predict(best, pricing)


def _sized(inputs: PlanInputs, bare: Run, found: Callable[[PlanInputs], Prediction]) -> Prediction:
    """The run on a believable number of GPUs, or on the next one on which it fits."""
    batch = _whole(inputs.stated.get(_BATCH)) if _BATCH in inputs.stated else 1
    node = bare.cluster.gpus_per_node
    each, _ = of_a_gpu(bare.model)
    doublings = max(0, round(log2(batch * bare.seq / each / node)))
    tried = [*range(doublings, _FARTHEST), *reversed(range(doublings))]
    refusals: list[InputError] = []
    largest: Prediction | None = None
    for power in tried:
        try:
            one = found(inputs.with_keys(gpus=node * 2**power))
        except InputError as error:
            refusals.append(error)
            continue
        if one.has_headroom:
            return one
        largest = largest or one
    if largest is not None:
        return largest
    raise min(refusals, key=lambda error: len(error.problems))


def _whole(batch: Any) -> int:
    try:
        return max(1, int(str(batch)))
    except ValueError:
        raise InputError.of(f'"{batch}" is not a whole number', key=_BATCH) from None
