"""The kernels that a training program uses, as far as they change its speed.

Holds `Software`.
"""

from typing import Literal

from syncwall.describe.base import Description


class Software(Description):
    """Which kernels run."""

    attention: Literal["flash-3", "flash-2", "unfused"] = "flash-3"
    """flash-3 also stands for cuDNN; flash-2 is what PyTorch's own attention chose up to 2.8."""
    kernels: Literal["fused", "eager"] = "fused"
    """Element-wise work fused (torch.compile, Megatron, Transformer Engine) or one by one."""
