"""General kernels: what they are called is what a recording calls them, and they run."""
# ruff: noqa: E402 - what follows needs torch

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from syncwall.capture.kernels import word
from syncwall.cost.measured import ConvolutionPoint
from syncwall.measure.general import general_kernels
from syncwall.measure.kernel_times import KernelRow
from syncwall.measure.trials import Maker
from syncwall.work.operations import Convolution, CoreAttention, Elementwise, Gemm

pytestmark = pytest.mark.slow
KERNELS = list(general_kernels())


def smallest(kind):
    """The kernel of a type with the least to do."""
    found = [one for one in KERNELS if isinstance(one[0].what, kind)]
    return min(found, key=lambda one: one[0].what.flops + one[0].what.hbm_bytes)


@pytest.mark.parametrize("kind", [Gemm, CoreAttention, Convolution, Elementwise])
def test_a_kernel_runs_and_becomes_a_point(kind):
    kernel, make = smallest(kind)
    trial = make(Maker(torch.device("cpu"), torch.float32))
    trial.prepare()
    trial.run()
    row = KernelRow.of(kernel, [1e-3, 1e-3])
    assert row.operation == kind.measured_as
    if kind is Convolution:
        point = ConvolutionPoint.model_validate(row.shape | {"seconds": 1e-3})
        assert 2 * point.m * point.n * point.k == kernel.what.flops


def test_every_memory_bound_kernel_runs():
    made = Maker(torch.device("cpu"), torch.float32)
    least = min(k.what.bytes for k, _ in KERNELS if k.what.measured_as == "elementwise")
    for kernel, make in KERNELS:
        if isinstance(kernel.what, Elementwise) and kernel.what.bytes < 10 * least:
            trial = make(made)
            trial.prepare()
            trial.run()


def test_kinds_are_those_of_recordings():
    kinds = {k.what.kind.removesuffix(" backward") for k, _ in KERNELS if isinstance(k.what, Elementwise)}
    names = (
        "native_layer_norm",
        "native_batch_norm",
        "gelu",
        "_softmax",
        "clone",
        "index",
        "add",
        "max_pool2d",
        "_fused_adamw_",
    )
    assert {word(name) for name in names} == kinds
