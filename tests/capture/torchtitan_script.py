"""examples/capture/llama_fsdp2.py with the RMSNorm that torchtitan had until 2025.

PyTorch has one kernel for it since 2.9; before, `nn.RMSNorm` was composed of those below.
"""

import runpy
from pathlib import Path

import torch
from torch import nn


class ComposedRMSNorm(nn.RMSNorm):  # type: ignore[misc]
    """The mean of squares in 32 bits, its root, and two products."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As PyTorch 2.6 composes it."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).type_as(x) * self.weight


nn.RMSNorm = ComposedRMSNorm
example = Path(__file__).parents[2] / "examples" / "capture" / "llama_fsdp2.py"
runpy.run_path(str(example), run_name="__main__")
