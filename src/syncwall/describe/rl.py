"""A step of reinforcement learning (GRPO, PPO without a critic) around the training of a run.

Holds `RlStep`: what is generated, how often it is read again, and where. How fast a GPU generates
is stated, not predicted.
"""

from typing import ClassVar, Self

from pydantic import model_validator

from syncwall.describe.base import (
    NotNegative,
    Positive,
    PositiveNumber,
    Sequences,
    SequenceTokens,
)
from syncwall.describe.choice import Dtype
from syncwall.describe.files import Section


class RlStep(Section):
    """Rollouts, log-probabilities, updates and the weights sent back, of one step."""

    section: ClassVar[str] = "rl"

    prompts: Sequences
    """Prompts of a step."""
    generations: Positive = 1
    """Responses to each prompt (the group of GRPO)."""
    prompt_tokens: SequenceTokens
    """Mean tokens of a prompt."""
    response_tokens: SequenceTokens
    """Mean tokens of a response."""
    tokens_per_s_per_gpu: PositiveNumber
    """Response tokens that a GPU generates in a second, over the whole of the generation."""
    mini_batches: Positive = 1
    """Optimizer updates that share the samples of a step."""
    logprob_passes: NotNegative = 2
    """Forward passes over all samples before the updates: of the policy, and of the reference."""
    logprob_micro_batch: Positive | None = None
    """Sequences of a micro batch of these passes (NeMo-RL's logprob_batch_size); as in training if
    not given."""
    generator_gpus: Positive | None = None
    """GPUs that only generate, besides those of the run; those of the run in turn if not given."""
    one_step_off: bool = False
    """Separate GPUs generate the next samples while the run trains on these."""
    weights_dtype: Dtype = Dtype.BF16
    """Format in which weights are sent to the generator."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.one_step_off and self.generator_gpus is None:
            raise ValueError("`one_step_off` needs GPUs that only generate: write `generator_gpus`")
        if self.mini_batches > self.samples:
            raise ValueError(f"{self.samples:,} samples are not enough for so many `mini_batches`")
        return self

    @property
    def samples(self) -> int:
        """Responses of a step."""
        return self.prompts * self.generations

    @property
    def sample_tokens(self) -> int:
        """Mean tokens of a prompt with its response."""
        return self.prompt_tokens + self.response_tokens
