"""A step of reinforcement learning, by phase: generation, log-probabilities, updates, weights.

Holds `predict_rl`, `RlPrediction`, `RlPhase` and `RlPart`. Updates are those that `predict` has for
the run, log-probabilities the forward part of the same step; the rate of generation is stated. What
runs on the host between phases (rewards, packing, sleeping and waking engines) is not counted.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Run
from syncwall.describe.rl import RlStep
from syncwall.timeline.ledger import Ledger
from syncwall.work.forward_only import forward_only
from syncwall.work.operations import Collective, Group


class RlPart(StrEnum):
    """What a step of reinforcement learning consists of."""

    GENERATION = "generation"
    LOGPROBS = "log-probabilities"
    TRAINING = "training"
    SYNC = "weight sync"


@dataclass(frozen=True)
class RlPhase:
    """One of them."""

    part: RlPart
    seconds: float
    gpus: int
    """That are busy with it."""
    ledger: Ledger | None = None
    """Seconds by cause; None for what is stated or one transfer."""


@dataclass(frozen=True)
class RlPrediction:
    """What to expect of a step."""

    rl: RlStep
    update: Prediction
    """One optimizer update; its sequences are the samples, packed."""
    phases: tuple[RlPhase, ...]

    @cached_property
    def seconds(self) -> dict[RlPart, float]:
        """Of each phase."""
        return {one.part: one.seconds for one in self.phases}

    @property
    def step_s(self) -> float:
        """All phases one after the other, or what is generated beside the rest taken as one."""
        taken = self.seconds
        trained_s = taken[RlPart.LOGPROBS] + taken[RlPart.TRAINING]
        if self.rl.one_step_off:
            return max(taken[RlPart.GENERATION], trained_s) + taken[RlPart.SYNC]
        return taken[RlPart.GENERATION] + trained_s + taken[RlPart.SYNC]

    @property
    def gpus(self) -> int:
        """All that are paid for."""
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


def predict_rl(run: Run, rl: RlStep) -> RlPrediction:
    """A step of `rl` whose policy trains as `run`.

    Sequences of the run are samples packed one after the other, kept apart by a mask; its batch is
    replaced by what an update needs.

    Examples:
        >>> import syncwall as sw
        >>> from syncwall.answer.rl_step import predict_rl
        >>> from syncwall.describe.rl import RlStep
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1, seq=4096,
        ...              layout=sw.Layout(pp=2))
        >>> rl = RlStep(prompts=64, generations=32, prompt_tokens=150, response_tokens=795,
        ...             mini_batches=4, tokens_per_s_per_gpu=3509)
        >>> found = predict_rl(run, rl)
        >>> abs(sum(found.seconds.values()) - found.step_s) < 1e-9
        True
    """
    update = predict(_update(run, rl))
    done = update.run
    forward = update.pricing.timed(forward_only(update.work), done.cluster)
    passes = rl.logprob_passes * rl.mini_batches
    generators = rl.generator_gpus or done.gpus
    generated_s = rl.samples * rl.response_tokens / (rl.tokens_per_s_per_gpu * generators)
    return RlPrediction(rl, update, (
        RlPhase(RlPart.GENERATION, generated_s, generators),
        RlPhase(RlPart.LOGPROBS, passes * float(forward.step_s), done.gpus,
                Ledger().plus(forward.ledger, passes).without_zeros()),
        RlPhase(RlPart.TRAINING, rl.mini_batches * update.step_s, done.gpus,
                Ledger().plus(update.ledger, rl.mini_batches)),
        RlPhase(RlPart.SYNC, _sync_s(update, rl), done.gpus + (rl.generator_gpus or 0)),
    ))  # fmt: skip


def _update(run: Run, rl: RlStep) -> Run:
    """The run with the samples of one update as its batch, whole micro batches of every replica."""
    tokens = rl.samples * rl.sample_tokens / rl.mini_batches
    each = run.layout.dp * (run.layout.micro_batch or 1)
    sequences = max(-int(-tokens // (run.seq * each)), 1) * each
    document = min(rl.sample_tokens, run.seq)
    return run.changed(global_batch=sequences, document_tokens=document)


def _sync_s(update: Prediction, rl: RlStep) -> float:
    """Weights gathered from all ranks that share a copy, then sent to GPUs that only generate."""
    run, layout = update.run, update.run.layout
    whole = float(run.model.parameters) * rl.weights_dtype.size_bytes
    shared = min(layout.model_ranks * (layout.shard_degree if layout.shard == 3 else 1), run.gpus)
    gather = Collective("all-gather", whole, Group("shard", shared))
    gathered_s = float(update.prices.seconds(gather)) if shared > 1 else 0.0
    if rl.generator_gpus is None:
        return gathered_s
    together = run.cluster.with_gpus(run.gpus + rl.generator_gpus)
    sent = Collective("broadcast", whole, Group("dp", run.gpus + rl.generator_gpus))
    return gathered_s + float(update.pricing.prices(together).seconds(sent))
