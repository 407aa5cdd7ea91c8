"""How fast a run really was, as people say it.

Holds `MeasuredSpeed`, the key `measured` of a run file: a mapping, or one line such as "9.1 s",
"5100 tok/s/gpu" or "38% mfu".
"""

import re
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from syncwall import units
from syncwall.describe.base import Description, Ratio, Seconds
from syncwall.describe.ranges import RANGES
from syncwall.units import Dimension

_MOST: Final = RANGES[Dimension.TOKENS][1]
PositiveRate = Annotated[float, Field(gt=0, le=_MOST, strict=True, allow_inf_nan=False)]
_NUMBER: Final = r"(?P<number>\d[\d,_]*\.?\d*(?:e[+-]?\d+)?)\s*(?P<scale>[kM]?)\s*"
_RATE: Final = re.compile(
    _NUMBER + r"(?:tok(?:en)?s?(?:/s|ps))\s*(?P<each>/\s*gpu)?", re.IGNORECASE
)
_MFU: Final = re.compile(_NUMBER + r"(?P<percent>%?)\s*mfu", re.IGNORECASE)
_SCALES: Final = {"": 1.0, "k": 1e3, "m": 1e6}
_WAYS: Final = ("step_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu")


class MeasuredSpeed(Description):
    """How fast a run was, in one of four ways."""

    step_s: Seconds | None = Field(None, alias="step")
    """Seconds of an optimizer step, the median of many."""
    tokens_per_s: PositiveRate | None = None
    """Of all GPUs together."""
    tokens_per_s_per_gpu: PositiveRate | None = None
    mfu: Ratio | None = None
    """Model FLOPs utilization: causal, without recomputation, of the dense 16-bit peak."""
    same_build: bool = False
    """True if the runs asked for will be of the same build on the same machines: what this run
    shows is then taken over nearly whole."""

    @model_validator(mode="before")
    @classmethod
    def _from_a_line(cls, value: Any) -> Any:
        """A line such as 5100 tok/s/gpu as a mapping; a text that is no rate is a time."""
        return _said(str(value)) if isinstance(value, str | int | float) else value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if sum(getattr(self, way) is not None for way in _WAYS) != 1:
            raise ValueError(
                "write one of `step`, `tokens_per_s`, `tokens_per_s_per_gpu` and `mfu`"
            )
        return self

    def seconds(self, tokens: float, gpus: float, at_peak_s: float = float("nan")) -> float:
        """Seconds of a step of `tokens` that takes `at_peak_s` at an MFU of 1."""
        if self.step_s is not None:
            return self.step_s
        if self.mfu is not None:
            return at_peak_s / self.mfu
        return tokens / (self.tokens_per_s or (self.tokens_per_s_per_gpu or 0.0) * gpus)


def _said(text: str) -> dict[str, Any]:
    if found := _MFU.fullmatch(text.strip()):
        return {"mfu": _number(found) / (100.0 if found["percent"] else 1.0)}
    if found := _RATE.fullmatch(text.strip()):
        return {"tokens_per_s_per_gpu" if found["each"] else "tokens_per_s": _number(found)}
    try:
        units.parse(text, Dimension.SECONDS)
    except ValueError:
        message = f'"{text[:40]}" is not a speed: write "9.1 s", "5100 tok/s/gpu" or "38% mfu"'
        raise PydanticCustomError("syncwall", "{message}", {"message": message}) from None
    return {"step": text}


def _number(found: re.Match[str]) -> float:
    plain = found["number"].replace(",", "").replace("_", "")
    return float(plain) * _SCALES[found["scale"].lower()]
