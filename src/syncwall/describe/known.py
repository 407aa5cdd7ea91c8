"""A run that was measured.

Holds `KnownRun` and `MeasuredSpeed`: a run file with one more key, `measured`.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from syncwall.describe.base import Description, Seconds, faults
from syncwall.describe.run import Run

_SHORTEST_S, _LONGEST_S = 1e-6, 1e6
PositiveRate = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class MeasuredSpeed(Description):
    """How fast a run was: one of the three rates."""

    step_s: Seconds | None = Field(None, alias="step")
    """Seconds of an optimizer step, the median of many."""
    tokens_per_s: PositiveRate | None = None
    """Of all GPUs together."""
    tokens_per_s_per_gpu: PositiveRate | None = None
    same_build: bool = False
    """True if the runs asked for will be of the same build on the same machines: what this run
    shows is then taken over nearly whole."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        stated = (self.step_s, self.tokens_per_s, self.tokens_per_s_per_gpu)
        if sum(value is not None for value in stated) != 1:
            raise ValueError("write one of `step`, `tokens_per_s` and `tokens_per_s_per_gpu`")
        return self


class KnownRun(Run):
    """A training run with its measured speed."""

    measured: MeasuredSpeed

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if not _SHORTEST_S <= self.measured_s <= _LONGEST_S:
            reason = f"a step of {self.measured_s:g} s is impossible"
            raise faults([(("measured",), reason)])
        return self

    @property
    def measured_s(self) -> float:
        """Measured seconds of a step."""
        if self.measured.step_s is not None:
            return self.measured.step_s
        rate = self.measured.tokens_per_s or (self.measured.tokens_per_s_per_gpu or 0) * self.gpus
        return self.tokens_per_step / rate
