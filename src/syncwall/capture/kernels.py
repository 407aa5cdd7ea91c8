"""What one operation of PyTorch does on a GPU: a `AnyTask` for each kernel that it runs.

Holds `tasks`. Everything that is no multiplication, attention or convolution is priced by the bytes
that it moves.
"""

from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from syncwall.capture.attention import ATTENTION
from syncwall.capture.multiplications import MULTIPLICATIONS, Arguments, number_format
from syncwall.capture.traffic import elementwise
from syncwall.work.block import AnyTask
from syncwall.work.operations import Kernel

_KNOWN = MULTIPLICATIONS | ATTENTION

_RECURRENT: dict[str, float] = {
    "aten::mkldnn_rnn_layer": 1.0,
    "aten::mkldnn_rnn_layer_backward": 2.0,
}
"""Layers of recurrent networks, and how often they multiply by their weights."""


def _recurrent_flops(args: Arguments) -> float:
    """Every step multiplies its input and the last state by a weight each."""
    steps = prod(args[0].shape[:2])
    return float(2.0 * steps * (args[1].numel() + args[2].numel()))


def tasks(
    operation: torch._ops.OpOverload, args: Arguments, kwargs: dict[str, Any], out: Any
) -> list[AnyTask]:
    """Kernels that an operation runs, in order."""
    known = _KNOWN.get(operation._schema.name)
    if known:
        return known(args)
    moved = elementwise(operation, args, kwargs, out)
    recurrent = _RECURRENT.get(operation._schema.name)
    if recurrent:
        dtype = number_format(args[0].dtype)
        return [Kernel(recurrent * _recurrent_flops(args), moved.bytes, dtype)]
    counted = flop_registry.get(operation._overloadpacket)
    if counted:
        flops = float(counted(*args, **kwargs, out_val=out))
        return [Kernel(flops, moved.bytes, number_format(args[0].dtype))]
    return [moved]
