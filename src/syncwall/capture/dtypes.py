"""Number formats of PyTorch in our words."""

import torch

from syncwall.describe.choice import Dtype

_KNOWN = {
    torch.float64: Dtype.FP64,
    torch.float32: Dtype.FP32,
    torch.bfloat16: Dtype.BF16,
    torch.float16: Dtype.FP16,
    torch.float8_e4m3fn: Dtype.FP8,
    torch.float8_e5m2: Dtype.FP8,
    torch.int8: Dtype.INT8,
    torch.uint8: Dtype.INT8,
    torch.complex64: Dtype.FP32,
    torch.complex128: Dtype.FP64,
}


def number_format(dtype: torch.dtype) -> Dtype:
    """Of tensors that are multiplied; fp32 may use TF32, which the device's price has to know."""
    return _KNOWN.get(dtype, Dtype.FP32)
