"""What a step of a run can be part of: reinforcement learning (GRPO, PPO without a critic)
and DiLoCo.

How fast a GPU generates is stated, not predicted.

Each island is a run of its own.
"""

from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from syncwall.describe.base import (
    BytesPerSecond,
    Delay,
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


OuterDtype = Literal["fp32", "bf16", "int8", "int4"]
OUTER_BYTES: Final[dict[str, float]] = {"fp32": 4.0, "bf16": 2.0, "int8": 1.0, "int4": 0.5}
"""Bytes of one outer gradient, without the scaling factors of blocks."""


class Islands(Section):
    """Equal groups of GPUs, and the outer step that joins them."""

    section: ClassVar[str] = "islands"

    count: Positive
    """Islands."""
    every: Positive
    """Steps between two meetings (H of DiLoCo)."""
    link_bytes_per_s: BytesPerSecond = Field(alias="link")
    """What an island sends in a second, one way, while it receives as much."""
    latency_s: Delay = Field(0.0, alias="latency")
    """Of one message from an island to the next."""
    outer_dtype: OuterDtype = "fp32"
    """Format in which outer gradients are sent."""
    overlap: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the steps between two meetings beside which outer gradients may be sent (Streaming
    DiLoCo); 0 if training stops for them."""
    parts: Positive = 1
    """Fragments of the model that meet one after the other, each every `every` steps."""
