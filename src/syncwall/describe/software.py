"""The software of a run, as far as it changes its speed.

Holds `Software` and `USUAL_FRAMEWORK`. What is left open follows from the framework and its date.
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, field_validator
from pydantic_core import PydanticCustomError

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import OPEN, Description, Open
from syncwall.describe.framework import AttentionKernel, ExpertKernels, Graphs, Kernels, Month
from syncwall.problems import InputError

USUAL_FRAMEWORK: Final = "megatron-core"
"""What a run is taken to use if nobody says: most published runs of many GPUs do."""
_SCALINGS: Final = {
    "tensorwise": "tensor", "delayed": "tensor", "current": "tensor", "rowwise": "row",
    "blockwise": "block",
}  # fmt: skip
"""Other words for the same, of Transformer Engine, torchao and Megatron-LM."""
_MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")


def _scaling(value: Any) -> Any:
    return _SCALINGS.get(value, value) if isinstance(value, str) else value


class Software(Description):
    """Framework, its date, and the kernels that run."""

    framework: Open[str] = OPEN
    """Training framework, by catalogue name (`syncwall show frameworks`); megatron-core if not
    given."""
    date: Month | None = None
    """Month of its release, such as 2025-04; the newest if not given."""
    attention: AttentionKernel | None = None
    """Attention kernel (flash-3 also stands for cuDNN, flash-1 for Triton's); the framework's of
    its date if not given."""
    kernels: Kernels | None = None
    """Element-wise work fused (torch.compile, Transformer Engine) or one by one (eager); the
    framework's if not given."""
    expert_kernels: ExpertKernels | None = None
    """Experts as one group of multiplications, or in a loop that reads the tokens of each expert
    before it issues it (Hugging Face until 2025); the framework's of its date if not given."""
    graphs: Graphs | None = None
    """CUDA graphs, so that the host issues less: of the router and what it prepares, of attention
    too, or of full iterations; the framework's of its date if not given."""
    fp8_scaling: Annotated[Literal["tensor", "block", "row"], BeforeValidator(_scaling)] = "tensor"
    """One scale for a tensor (delayed or current scaling), for each block of 128 (DeepSeek-V3), or
    for each row and, for its other use, each column. Scales of mxfp8 and nvfp4 are part of the
    format."""

    launch_blocking: bool = False
    """CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel before it issues the next one."""

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
            return catalogue.find(CatalogueKind.FRAMEWORK, name).stem
        except InputError as error:
            raise PydanticCustomError("syncwall", "{message}", {"message": str(error)}) from None
