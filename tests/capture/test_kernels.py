"""FLOPs, bytes and kinds of what operations do."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from syncwall.describe.choice import Dtype  # noqa: E402
from syncwall.work.block import StepPhase  # noqa: E402
from syncwall.work.operations import (  # noqa: E402
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Offload,
)
from tests.capture.programs import (  # noqa: E402
    HEADS,
    KV_HEADS,
    LENGTH,
    WIDTH,
    language_loss,
    llama,
    named,
    recorded,
    train,
)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, dilation=2),
        nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


class Bilinear(nn.Module):  # type: ignore[misc]
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(12, 6))

    def forward(self, x):
        y = torch.einsum("bsi,ij->bsj", x, self.weight)
        return torch.baddbmm(torch.zeros(1, device=y.device), y, y.transpose(1, 2)) @ y


MODELS = {
    "conv net": (conv_net, (2, 3, 32, 32)),
    "products": (Bilinear, (4, 10, 12)),
    "linear": (lambda: nn.Linear(12, 7), (9, 12)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), (2, 5, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_flops_are_those_that_pytorch_counts_on_real_tensors(name):
    make, shape = MODELS[name]
    counter = FlopCounterMode(display=False)
    with counter:
        make()(torch.randn(shape)).sum().backward()
    counted = counter.get_flop_counts()["Global"]
    fused = sum(n for op, n in counted.items() if "attention" in str(op))

    def loss(model):
        return model(torch.randn(shape, device="cuda")).sum()

    rank = recorded(lambda: train(make().cuda(), loss))
    flops = sum(call.what.flops for call in rank if isinstance(call.what, Gemm | Convolution))
    assert flops == pytest.approx(sum(counted.values()) - fused, rel=1e-3)


def test_a_convolution_of_groups_multiplies_within_each():
    """The counter of PyTorch has too much for the gradient of such a weight."""

    def loss(model):
        return model(torch.randn(2, 8, 6, 6, device="cuda")).sum()

    rank = recorded(lambda: train(nn.Conv2d(8, 16, 3, groups=8).cuda(), loss))
    (forward, weight) = [c.what for c in rank if isinstance(c.what, Convolution)]
    assert weight == replace(forward, is_backward=True)
    assert forward.flops == 2 * (2 * 4 * 4) * 16 * 9


def test_attention_is_one_kernel_as_on_cuda():
    rank = recorded(lambda: train(llama().bfloat16(), language_loss))
    forward, backward = (
        next(c.what for c in rank if isinstance(c.what, CoreAttention) and c.phase is phase)
        for phase in (StepPhase.FORWARD, StepPhase.BACKWARD)
    )
    assert (forward.batch, forward.heads, forward.kv_heads) == (2, HEADS, KV_HEADS)
    assert (forward.q_len, forward.kv_len, forward.head_dim) == (LENGTH, LENGTH, WIDTH // HEADS)
    assert forward.is_causal
    assert backward == forward.backward


@pytest.mark.parametrize(
    ("arguments", "name", "is_causal"),
    [
        ({"is_causal": True}, "aten._scaled_dot_product_flash_attention", True),
        ({}, "aten._scaled_dot_product_flash_attention", False),
        ({"attn_mask": "mask"}, "aten._scaled_dot_product_efficient_attention", False),
    ],
)
def test_the_kernel_of_attention_is_what_cuda_would_take(arguments, name, is_causal):
    def program():
        weight = nn.Parameter(torch.zeros(8, device="cuda", dtype=torch.bfloat16))
        given = dict(arguments)
        if "attn_mask" in given:
            given["attn_mask"] = torch.ones(16, 16, dtype=torch.bool, device="cuda")
        optimizer = torch.optim.SGD([weight])
        for _ in range(2):
            x = torch.zeros(2, 4, 16, 8, device="cuda", dtype=torch.bfloat16) * weight
            functional.scaled_dot_product_attention(x, x, x, **given).sum().backward()
            optimizer.step()

    found = {
        call.name: call.what.is_causal for call in recorded(program) if isinstance(call.what, CoreAttention)
    }
    assert found == {name: is_causal, f"{name}_backward": is_causal}


def test_rms_norm_is_one_kernel_that_keeps_its_input_only():
    def loss(model):
        return model(torch.randn(8, 64, device="cuda")).sum()

    rank = recorded(lambda: train(nn.RMSNorm(64).cuda(), loss))
    forward = named(rank)["aten._fused_rms_norm"]
    assert "aten._fused_rms_norm_backward" in named(rank)
    assert forward.kind == "norm"
    assert forward.bytes == 4 * (8 * 64 + 64 + 8 * 64 + 2 * 8)


def test_the_gradient_of_a_weight_is_marked():
    rank = recorded(lambda: train(llama().bfloat16(), language_loss))
    gemms = [c.what for c in rank if isinstance(c.what, Gemm)]
    assert sum(gemm.is_weight_gradient for gemm in gemms) * 3 == len(gemms)
    assert all(gemm.k == 2 * LENGTH for gemm in gemms if gemm.is_weight_gradient)
    assert {gemm.dtype for gemm in gemms} == {Dtype.BF16}


def test_grouped_products_are_shared_out_among_the_groups():
    def program():
        weights = nn.Parameter(torch.zeros(4, 32, 48, device="cuda", dtype=torch.bfloat16))
        optimizer = torch.optim.SGD([weights])
        for _ in range(2):
            x = torch.zeros(64, 32, device="cuda", dtype=torch.bfloat16)
            ends = torch.zeros(4, dtype=torch.int32, device="cuda")
            torch._grouped_mm(x, weights, ends).square().sum().backward()
            optimizer.step()

    gemms = [call.what for call in recorded(program) if isinstance(call.what, Gemm)]
    assert [gemm.flops for gemm in gemms] == [2 * 64 * 32 * 48] * 2
    assert [gemm.count for gemm in gemms] == [4, 4]


def test_bytes_are_what_is_read_and_written_once():
    def program():
        table = nn.Parameter(torch.zeros(1000, 16, device="cuda"))
        optimizer = torch.optim.SGD([table])
        for _ in range(2):
            index = torch.zeros(10, dtype=torch.int64, device="cuda")
            row = functional.embedding(index, table)
            (row + torch.zeros(16, device="cuda").expand(10, 16)).sum().backward()
            optimizer.step()

    calls = named(recorded(program))
    assert calls["aten.embedding"].bytes == 10 * 8 + 2 * 10 * 16 * 4
    assert calls["aten.add"].bytes == 4 * (160 + 16 + 160)
    assert isinstance(calls["aten.add"], Elementwise)


def test_a_batch_from_the_host_is_copied():
    def loss(model):
        return model(torch.randn(8, 16).to("cuda", non_blocking=True)).sum()

    copies = [
        c.what for c in recorded(lambda: train(nn.Linear(16, 2).cuda(), loss)) if isinstance(c.what, Offload)
    ]
    assert copies == [Offload(8 * 16 * 4)]


def test_autocast_of_cuda_multiplies_in_its_format():
    def loss(model):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(torch.randn(8, 16, device="cuda")).sum()

    gemms = [
        c.what for c in recorded(lambda: train(nn.Linear(16, 2).cuda(), loss)) if isinstance(c.what, Gemm)
    ]
    assert {gemm.dtype for gemm in gemms} == {Dtype.BF16}
