"""The software of a run, as far as it changes its speed.

Holds `Software` and `USUAL_FRAMEWORK`. What is left open follows from the framework and its date.
"""

import re
from typing import Any, Final, Literal

from pydantic import field_validator
from pydantic_core import PydanticCustomError

from syncwall import catalogue
from syncwall.catalogue import Kind
from syncwall.describe.base import OPEN, Description, Open
from syncwall.describe.framework import AttentionKernel, Kernels, Month
from syncwall.problems import InputError

USUAL_FRAMEWORK: Final = "megatron-core"
"""What a run is taken to use if nobody says: most published runs of many GPUs do."""
_MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")


class Software(Description):
    """Framework, its date, and the kernels that run."""

    framework: Open[str] = OPEN
    """By catalogue name: `syncwall show frameworks`; None is priced as `USUAL_FRAMEWORK`."""
    date: Month | None = None
    """Month of its release, such as 2025-04; None for the newest."""
    attention: AttentionKernel | None = None
    """flash-3 also stands for cuDNN, flash-1 for Triton's; None for the framework's of its date."""
    kernels: Kernels | None = None
    """Element-wise work fused (torch.compile, Transformer Engine) or one by one (eager)."""
    graphs: Literal["none", "full"] = "none"
    """full: CUDA graphs of whole iterations, so that the host issues nothing."""
    fp8_scaling: Literal["tensor", "row"] = "tensor"
    """One scale for a tensor (or block), or one for each row, which costs more than it gains."""

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_month(cls, value: Any) -> Any:
        if value is None or (isinstance(value, str) and _MONTH.fullmatch(value)):
            return value
        message = f'"{value}" is not a month: write for example "2025-04"'
        raise PydanticCustomError("syncwall", "{message}", {"message": message})

    @field_validator("framework")
    @classmethod
    def _is_known(cls, name: Any) -> Any:
        if name is None:
            return name
        try:
            return catalogue.find(Kind.FRAMEWORK, name).stem
        except InputError as error:
            raise PydanticCustomError("syncwall", "{message}", {"message": str(error)}) from None
