"""The run that a plan starts from, however much of it was stated.

Holds `Reference`, `PlanInputs`, `reference`, `start_of` and `usual_batch`: GPUs, batch and layout
that nobody stated are chosen and reported.
"""

import json
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
from syncwall.describe.fsdp import FSDP
from syncwall.describe.job_file import run_part
from syncwall.describe.layout import PLAIN
from syncwall.describe.overrides import run_with
from syncwall.describe.settings import Settings
from syncwall.describe.state_formats import KEEPING, TRAINED
from syncwall.documents import read_document
from syncwall.plan.searched import best_run
from syncwall.plan.wires import PricedCase
from syncwall.problems import InputError

BATCH_TOKENS: Final = 2**22
"""Tokens of a step if neither the user nor the model's publication states them: about what GPT-3
175B (3.2 M) and Llama 2 (4 M) used."""
GPU_TOKENS: Final = 2**13
"""Tokens of a step for each GPU if nobody states a number of GPUs: 4 M tokens on 512 of them.
Published runs have 1,024 (Llama 3 405B on 16,384 GPUs) to 32,768."""
BATCH_SAMPLES: Final = 2048
"""Samples of a step of a stack, if nobody states them: those of Stable Diffusion 2 in the settings
of mosaicml/diffusion."""
GPU_SAMPLES: Final = 2**5
"""Samples of a step for each GPU, in the same case: its speeds are published for 16 to 256."""
_NO_LAYOUT: Final = {
    *KEEPING, *FSDP, "global_batch", "micro_batch", "precision", "gradient_dtype", "bucket",
    "overlap_gradients", "overlap_parameters", "overlap_tp", "overlap_pp", "outer_every",
}  # fmt: skip
"""Keys that leave the layout itself open."""
_BATCH: Final = "layout.global_batch"
_EVENLY: Final = 128
"""Published batches are rounded to a multiple of so many sequences, which replicas can share."""
_FARTHEST: Final = 15
"""Doublings of a node's GPUs that are tried if nobody states a number."""


@dataclass(frozen=True)
class Reference:
    """A complete run, predicted."""

    prediction: Prediction
    assumed: dict[str, str] = field(default_factory=dict)
    """What nobody stated, and the value taken for it."""
    layout_searched: bool = False

    @property
    def run(self) -> Run:
        """The run, with nothing open."""
        return self.prediction.run

    @property
    def case(self) -> PricedCase:
        """What is trained where, at the prices of the run."""
        return PricedCase.of(self.run, self.prediction.pricing)

    @property
    def replica_batch(self) -> int:
        """Sequences of one replica."""
        return int(self.run.layout.global_batch or 1) // int(self.run.layout.dp or 1)


@dataclass(frozen=True)
class PlanInputs:
    """What the user says: a run file, settings of a framework, flags; the later ones win."""

    file: Path | None
    flags: Mapping[str, str]
    settings: Settings | None = None
    measured: MachineMeasurements | None = None
    """What was measured on the machine."""
    site: Site = UNKNOWN_SITE
    """Known runs of the same cluster."""

    @property
    def stated(self) -> dict[str, Any]:
        """Every key that is stated, as flags are called."""
        settings = self.settings.layout if self.settings else {}
        inside = {f"layout.{key}": value for key, value in settings.items()}
        run = self.settings.run if self.settings else {}
        return {**_stated_in(self.file), **run, **inside, **self.flags}

    @property
    def has_batch(self) -> bool:
        """True if the global batch is stated, or follows from settings."""
        left = self.settings.left if self.settings else None
        follows = left is not None and (left.replica_batch or left.accumulated)
        return bool(follows) or self.stated.get("layout.global_batch") is not None

    @property
    def has_gpus(self) -> bool:
        """True if the number of nodes or of GPUs is stated."""
        return any(self.stated.get(key) is not None for key in ("nodes", "gpus"))

    @property
    def has_layout(self) -> bool:
        """True if the split of the model itself is stated, not only its batch and switches."""
        stated = self.stated
        keys = {name.removeprefix("layout.") for name in stated if name.startswith("layout.")}
        return self.settings is not None or "layout" in stated or not keys <= _NO_LAYOUT

    def run(self, **flags: str) -> Run:
        """The run with further flags, in which a dot is written as two underscores."""
        more = {name.replace("__", "."): text for name, text in flags.items()}
        return run_with(self.file, {**self.flags, **more}, self.settings)

    def bare(self) -> Run:
        """Model, machine and sequence, without a layout that the machine might be too small for."""
        flags = {name: text for name, text in self.flags.items() if not name.startswith("layout.")}
        settings = self.settings.bare() if self.settings else None
        return run_with(self.file, {**flags, "layout": "{}"}, settings)

    def pricing(self, run: Run) -> Pricing:
        """The prices of a run."""
        return Pricing.of(run, measured=self.measured, site=self.site)


RunLike = Run | Mapping[str, Any] | str | Path
"""A run; or its keys, as in a run file, or such a file: what they leave out is chosen."""


def start_of(
    run: RunLike, measured: MachineMeasurements | None = None, site: Site = UNKNOWN_SITE
) -> Reference:
    """Where a plan for `run` starts."""
    if isinstance(run, Run):
        prediction = predict(run, measured=measured, site=site)
        return Reference(prediction, prediction.assumed)
    keys = run if isinstance(run, Mapping) else {}
    file = None if isinstance(run, Mapping) else Path(run)
    return reference(PlanInputs(file, as_flags(keys), None, measured, site))


def as_flags(keys: Mapping[str, Any]) -> dict[str, str]:
    """Keys of a run as flags of the command line; JSON is YAML."""
    flat: dict[str, str] = {}
    for key, value in keys.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": json.dumps(inner) for name, inner in value.items()}
        else:
            flat[key] = json.dumps(value)
    return flat


def reference(inputs: PlanInputs) -> Reference:
    """The run of `inputs`, completed and predicted."""
    stated = inputs.stated
    if "model" not in stated or "cluster" not in stated:
        raise InputError.of("write --model NAME and --cluster NAME, or a run file")
    bare, assumed = inputs.bare(), dict[str, str]()
    if not inputs.has_batch:
        batch, why = usual_batch(bare.model, bare.seq)
        if inputs.has_gpus and inputs.has_layout:
            batch, why = _shared(inputs, batch, why)
        assumed["global_batch"] = f"{batch:,} ({why})"
        inputs = replace(inputs, flags={**inputs.flags, "layout.global_batch": str(batch)})
    found = _searched if not inputs.has_layout else _placed
    if inputs.has_gpus:
        prediction = found(inputs)
    else:
        prediction = _sized(inputs, bare, found)
        each, words = _of_a_gpu(bare.model)
        assumed["gpus"] = f"{prediction.run.gpus:,} (about {each:,} {words} of a step each)"
    return Reference(prediction, {**assumed, **prediction.assumed}, not inputs.has_layout)


def usual_batch(model: Model, seq: int) -> tuple[int, str]:
    """Sequences of `seq` tokens in a step if nobody states them, and why."""
    published = model.train_batch_tokens
    if published is None and model.stack is not None:
        return BATCH_SAMPLES, f"assumed: {BATCH_SAMPLES:,} samples"
    if published is None:
        tokens, why = BATCH_TOKENS, "assumed: 4 million tokens"
    else:
        tokens, why = round(published), f"as published for {model.name}"
    sequences = max(1, round(tokens / seq))
    if sequences < 2 * _EVENLY:
        return 1 << round(log2(sequences)), why
    return round(sequences / _EVENLY) * _EVENLY, why


def _shared(inputs: PlanInputs, batch: int, why: str) -> tuple[int, str]:
    """`batch`, or the nearest one that the layout which was stated can share out; and why."""
    try:
        inputs.run(layout__global_batch=str(batch))
    except InputError:
        unit = int(inputs.run(layout__global_batch="null").layout.global_batch or 1)
        return max(
            1, round(batch / unit)
        ) * unit, f"a multiple of {unit:,}, so that replicas get equal parts"
    return batch, why


def _stated_in(file: Path | None) -> dict[str, Any]:
    """Keys of a run file, as flags are called."""
    value = run_part(read_document(file)).value if file else {}
    if not isinstance(value, dict):
        return {}
    inner = value.get("layout")
    layout = inner if isinstance(inner, dict) else {}
    return {**value, **{f"layout.{key}": item for key, item in layout.items()}}


def _placed(inputs: PlanInputs) -> Prediction:
    """The run as it was stated, on the GPUs that were stated."""
    run = inputs.run()
    return predict(run, inputs.pricing(run))


def _searched(inputs: PlanInputs) -> Prediction:
    """The run in the best layout on the GPUs that were stated."""
    run = inputs.run(layout__global_batch="null")  # one that nothing must divide yet
    stated = (*TRAINED, *FSDP, "bucket_bytes", "outer_every")
    pinned = {name: getattr(run.layout, name) for name in stated}
    pinned |= {name: getattr(run.layout, name) for name in PLAIN if not is_open(run.layout, name)}
    pricing, batch = inputs.pricing(run), _whole(inputs.stated["layout.global_batch"])
    best = best_run(PricedCase.of(run, pricing), run.cluster, batch, pinned)
    if best is None:
        raise InputError.of(
            f"no layout fits into the memory of {run.gpus:,} GPUs: use more --nodes"
        )
    return predict(best, pricing)


def _sized(inputs: PlanInputs, bare: Run, found: Callable[[PlanInputs], Prediction]) -> Prediction:
    """The run on a believable number of GPUs, or on the next one on which it fits."""
    batch = _whole(inputs.stated["layout.global_batch"]) if inputs.stated.get(_BATCH) else 1
    node = bare.cluster.gpus_per_node
    each, _ = _of_a_gpu(bare.model)
    doublings = max(0, round(log2(batch * bare.seq / each / node)))
    tried = [*range(doublings, _FARTHEST), *reversed(range(doublings))]
    refusals: list[InputError] = []
    largest: Prediction | None = None
    for power in tried:
        try:
            one = found(replace(inputs, flags={**inputs.flags, "gpus": str(node * 2**power)}))
        except InputError as error:
            refusals.append(error)
            continue
        if one.fits:
            return one
        largest = largest or one
    if largest is not None:
        return largest
    raise min(refusals, key=lambda error: len(error.problems))


def _of_a_gpu(model: Model) -> tuple[int, str]:
    """How much of a step each GPU has if nobody says how many there are, and of what."""
    return (GPU_TOKENS, "tokens") if model.stack is None else (GPU_SAMPLES, "samples")


def _whole(batch: Any) -> int:
    try:
        return max(1, int(str(batch)))
    except ValueError:
        raise InputError.of(f'--layout.global-batch: "{batch}" is not a whole number') from None
