"""Batch norms that share their statistics run on CUDA only: their kernels and messages here.

Forward, all ranks gather mean, variance and count of each channel; backward, they add up two sums
of each.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from syncwall.capture.shims.patch import need, replaced
from syncwall.capture.state import State


class _Exchanged(torch.autograd.Function):  # type: ignore[misc]
    """Leaves its input as it is and sends what statistics need."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, channels: int, group: Any) -> torch.Tensor:
        ctx.channels, ctx.group = channels, group
        mine = torch.empty(2 * channels + 1, device=tensor.device)
        every = torch.empty(dist.get_world_size(group), 2 * channels + 1, device=tensor.device)
        dist.all_gather_single(every, mine, group=group)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        sums = torch.empty(2 * ctx.channels, device=gradients[0].device)
        dist.all_reduce(sums, group=ctx.group)
        return gradients[0], None, None


@contextmanager
def in_force(_: State) -> Iterator[None]:
    """Statistics are exchanged around a batch norm."""
    norm = torch.nn.SyncBatchNorm
    need(DistributedDataParallel, "_passing_sync_batchnorm_handle")
    plain = need(torch.nn.modules.batchnorm._BatchNorm, "forward")

    def forward(self: Any, image: torch.Tensor) -> Any:
        if self.training:
            image = _Exchanged.apply(image, image.shape[1], self.process_group)
        return plain(self, image)

    with (
        replaced(norm, forward=forward),
        replaced(DistributedDataParallel, _passing_sync_batchnorm_handle=lambda *_: None),
    ):
        yield
