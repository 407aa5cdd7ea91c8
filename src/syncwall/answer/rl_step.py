"""A step of reinforcement learning, by phase: generation, log-probabilities, updates, weights.

Holds `predict_rl`, `RlPrediction`, `RlPhase`, `RlPart` and `PUBLISHED_ERRORS`. Updates are those
that `predict` has for the run, log-probabilities the forward part of the same step; the rate of
generation is stated. What runs on the host between phases (rewards, packing, sleeping and waking
engines) is not counted.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.pricing import Timed
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Run
from syncwall.describe.faults import faults_of
from syncwall.describe.files import run_and
from syncwall.describe.rl_and_islands import RlStep
from syncwall.problems import InputError
from syncwall.public import Answer, published
from syncwall.timeline.ledger import Ledger
from syncwall.work.operations import Collective, Group
from syncwall.work.transformer_step import forward_only, transformer_step


class RlPart(StrEnum):
    """What a step of reinforcement learning consists of."""

    GENERATION = "generation"
    LOGPROBS = "log-probabilities"
    TRAINING = "training"
    SYNC = "weight sync"


PUBLISHED_STEPS: Final = 8
"""GRPO steps of NeMo-RL 0.3 on H100 that these predictions were laid beside."""
PUBLISHED_SOURCE: Final = "https://github.com/NVIDIA-NeMo/RL/issues/959"
PUBLISHED_ERRORS: Final = {RlPart.TRAINING: (-0.36, -0.10), RlPart.LOGPROBS: (-0.33, 0.34)}
"""Predicted over measured time of these steps, less one: the lowest and the highest, nothing tuned
to them. `tests/answer/test_rl_step.py` has the rows and computes the errors."""
PUBLISHED_REFITS_S: Final = (4, 26)
"""Seconds that their weight sync took, with engines that sleep and wake."""


@dataclass(frozen=True)
class RlPhase:
    """A phase of the step."""

    part: RlPart
    seconds: float
    gpus: int
    """That are busy with it."""
    ledger: Ledger | None = None
    """Seconds by cause; None for what is stated or one transfer."""

    @property
    def is_predicted(self) -> bool:
        """False for generation: its rate is stated."""
        return self.part is not RlPart.GENERATION

    @property
    def as_published_s(self) -> tuple[float, float] | None:
        """Seconds if the prediction is as far off as that of published steps, from the least to the
        most; None for what none is known of.
        """
        if self.part not in PUBLISHED_ERRORS:
            return None
        low, high = PUBLISHED_ERRORS[self.part]
        return self.seconds / (1.0 + high), self.seconds / (1.0 + low)


@published(
    "phase=phase.part seconds=phase.seconds share gpus=phase.gpus",
    "is_predicted=phase.is_predicted as_published_s=phase.as_published_s ledger_s=phase.ledger",
)
@dataclass(frozen=True)
class RlPhaseShare:
    """A phase of the step, and how much of it."""

    phase: RlPhase
    share: float
    """Of the step; phases that run beside each other have more than one in all."""


@published()
@dataclass(frozen=True)
class PublishedErrors:
    """How far such predictions were off."""

    steps: int = PUBLISHED_STEPS
    """Published steps that were predicted."""
    source: str = PUBLISHED_SOURCE
    """Where they are published."""
    errors: Mapping[RlPart, tuple[float, float]] = field(default_factory=PUBLISHED_ERRORS.copy)
    """Predicted over measured seconds, less one: the lowest and the highest, by phase."""


@published(
    "step_s as_published_s gpus idle tokens_per_s_per_gpu fits phases=_shares published=_errors rl",
    "update=update.step run=update.run",
    update="One optimizer update, as `predict` has it for `run`.",
    run="The run of an update: its batch is the samples of one, packed.",
)
@dataclass(frozen=True)
class RlPrediction(Answer):
    """What to expect of a step."""

    verb = "predict rl"
    rl: RlStep
    update: Prediction
    """One optimizer update; its sequences are the samples, packed."""
    phases: tuple[RlPhase, ...]

    @property
    def _shares(self) -> list[RlPhaseShare]:
        """The phases in their order."""
        return [RlPhaseShare(one, one.seconds / self.step_s) for one in self.phases]

    @property
    def _errors(self) -> PublishedErrors:
        """How far predictions of published steps were off."""
        return PublishedErrors()

    @cached_property
    def seconds(self) -> dict[RlPart, float]:
        """Of each phase."""
        return {one.part: one.seconds for one in self.phases}

    @property
    def step_s(self) -> float:
        """All phases, one after the other unless `one_step_off`."""
        return self._step_s(self.seconds)

    @property
    def as_published_s(self) -> tuple[float, float]:
        """The step if every phase is as far off as those of published steps; at least, as
        what a refit takes beside its bytes is not in it.
        """
        bounds = {one.part: one.as_published_s or (one.seconds,) * 2 for one in self.phases}
        least, most = ({part: both[n] for part, both in bounds.items()} for n in (0, 1))
        return self._step_s(least), self._step_s(most)

    def _step_s(self, taken: dict[RlPart, float]) -> float:
        trained_s = taken[RlPart.LOGPROBS] + taken[RlPart.TRAINING]
        if self.rl.one_step_off:
            return max(taken[RlPart.GENERATION], trained_s) + taken[RlPart.SYNC]
        return taken[RlPart.GENERATION] + trained_s + taken[RlPart.SYNC]

    @property
    def gpus(self) -> int:
        """With those that only generate."""
        return self.update.run.gpus + (self.rl.generator_gpus or 0)

    @property
    def idle(self) -> float:
        """Share of the time of all GPUs in which they wait for the others' phase."""
        busy_s = sum(one.seconds * one.gpus for one in self.phases)
        return 1.0 - busy_s / (self.step_s * self.gpus)

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens of all samples over the time of the step and all GPUs."""
        return self.rl.samples * self.rl.sample_tokens / self.step_s / self.gpus

    @property
    def fits(self) -> bool:
        """True if training has enough memory; that of the generator is not counted."""
        return self.update.fits

    def __repr__(self) -> str:
        run, fits = self.update.run, "fits" if self.fits else "does not fit"
        return (
            f"<RlPrediction {run.model.name} on {self.gpus} {run.cluster.device.name}: "
            f"step {self.step_s:.4g} s, idle {self.idle:.1%}, {fits}>"
        )


@takes_catalogue
def predict_rl(
    run: Run | str | Path,
    rl: RlStep | str | Path | None = None,
    *,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> RlPrediction:
    """A step of `rl` whose policy trains as `run`; both may be files, or one: a run file with `rl`.

    Sequences of the run are samples packed one after the other, kept apart by a mask; its batch is
    replaced by what an update needs. `measured` and `site` as in `predict`.

    Examples:
        >>> import syncwall as sw
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1, seq=4096,
        ...              layout=sw.Layout(pp=2))
        >>> rl = sw.RlStep(prompts=64, generations=32, prompt_tokens=150, response_tokens=795,
        ...                mini_batches=4, tokens_per_s_per_gpu=3509)
        >>> found = sw.predict_rl(run, rl)
        >>> found
        <RlPrediction llama-3.1-8b on 8 h100-sxm: step ... s, idle ...%, fits>
        >>> abs(sum(found.seconds.values()) - found.step_s) < 1e-9
        True
    """
    run, rl = run_and(RlStep, run, rl)
    update = predict(_update(run, rl), measured=measured, site=site)
    done = update.run
    forward, passes = _forward(update, rl), rl.logprob_passes
    generators = rl.generator_gpus or done.gpus
    generated_s = rl.samples * rl.response_tokens / (rl.tokens_per_s_per_gpu * generators)
    return RlPrediction(
        rl,
        update,
        (
            RlPhase(RlPart.GENERATION, generated_s, generators),
            RlPhase(
                RlPart.LOGPROBS,
                passes * float(forward.step_s),
                done.gpus,
                Ledger().plus(forward.ledger, passes).without_zeros(),
            ),
            RlPhase(
                RlPart.TRAINING,
                rl.mini_batches * update.step_s,
                done.gpus,
                Ledger().plus(update.ledger, rl.mini_batches),
            ),
            RlPhase(RlPart.SYNC, _sync_s(update, rl), done.gpus + (rl.generator_gpus or 0)),
        ),
    )


def _update(run: Run, rl: RlStep) -> Run:
    """The run with the samples of one update as its batch."""
    if rl.sample_tokens > run.seq:
        raise InputError.of(
            f"samples of {rl.sample_tokens:,} tokens do not fit into sequences of {run.seq:,}: "
            f"write `seq` of {rl.sample_tokens:,} or more"
        )
    sequences = _sequences(run, rl.samples * rl.sample_tokens / rl.mini_batches)
    with _refused("the samples of an update cannot be its batch"):
        return run.changed(global_batch=sequences, document_tokens=rl.sample_tokens)


def _forward(update: Prediction, rl: RlStep) -> Timed:
    """One forward pass over all samples of the step."""
    run, pricing = update.run, update.pricing
    micro = rl.logprob_micro_batch or run.layout.micro_batch
    sequences = _sequences(run, rl.samples * rl.sample_tokens, micro)
    layout = run.layout.model_copy(update={"micro_batch": micro, "global_batch": sequences})
    work = transformer_step(pricing.setting.padded(run.model), layout, run.seq)
    return pricing.timed(forward_only(work), run.cluster)


def _sequences(run: Run, tokens: float, micro_batch: int | None = None) -> int:
    """Sequences that hold so many tokens, in whole micro batches of every replica."""
    each = run.layout.dp * (micro_batch or run.layout.micro_batch or 1)
    return max(-int(-tokens // (run.seq * each)), 1) * each


def _sync_s(update: Prediction, rl: RlStep) -> float:
    """Weights gathered from all ranks that share a copy, then sent to GPUs that only generate."""
    run, layout = update.run, update.run.layout
    whole = float(run.model.parameters) * rl.weights_dtype.size_bytes
    shared = min(layout.model_ranks * (layout.shard_degree if layout.shard == 3 else 1), run.gpus)
    gather = Collective("all-gather", whole, Group("shard", shared))
    gathered_s = float(update.prices.seconds(gather)) if shared > 1 else 0.0
    if rl.generator_gpus is None:
        return gathered_s
    gpus = run.gpus + rl.generator_gpus
    sent = Collective("broadcast", whole, Group("dp", gpus))
    with _refused(f"the machine cannot have {gpus:,} GPUs, with `generator_gpus`"):
        together = run.cluster.with_gpus(gpus)
    return gathered_s + float(update.pricing.prices(together).seconds(sent))


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """InputError, with `what` cannot be, for a description that follows and is not possible."""
    try:
        yield
    except ValidationError as error:
        raise InputError.of(f"{what}: {faults_of(error, Run)[0][1]}") from None
