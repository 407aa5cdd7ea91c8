"""What PyTorch does otherwise on the CPU, recorded as CUDA would do it or noted."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor.experimental import context_parallel  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import flex_attention  # noqa: E402

from syncwall.capture.recorder import recording  # noqa: E402
from syncwall.work.operations import CoreAttention, Kernel  # noqa: E402
from syncwall.work.program import NoteKind  # noqa: E402
from tests.capture.programs import collectives, mlp, recorded, train  # noqa: E402


def noted(program, kind):
    with recording(4) as found:
        program()
    return {note.what: note for note in found.program().notes if note.kind is kind}


def test_a_recurrent_layer_has_its_flops_and_a_note():
    def loss(model):
        return model(torch.randn(8, 16, 32, device="cuda"))[0].sum()

    def program():
        train(nn.LSTM(32, 64, batch_first=True).cuda(), loss)

    weights = 4 * 64 * (32 + 64)
    kernels = [call.what.flops for call in recorded(program) if isinstance(call.what, Kernel)]
    assert kernels == [2 * 8 * 16 * weights, 4 * 8 * 16 * weights]
    assert "aten.mkldnn_rnn_layer" in noted(program, NoteKind.CPU_ONLY)


def test_an_operation_of_unknown_flops_is_noted_with_its_bytes():
    def loss(model):
        return torch.fft.rfft(model(torch.randn(8, 16, device="cuda"))).abs().sum()

    notes = noted(lambda: train(mlp().cuda(), loss), NoteKind.UNKNOWN)
    assert notes["aten._fft_r2c"].count == 1
    assert notes["aten._fft_r2c"].bytes == 8 * (4 * 4 + 3 * 8)


def test_shared_batch_norms_exchange_their_statistics():
    def program():
        model = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8))
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        train(model.cuda(), lambda m: m(torch.randn(2, 8, 4, 4, device="cuda")).sum())

    sent = [(one.kind, one.bytes) for _, one in collectives(recorded(program, 4))]
    assert sent == [("all-gather", 4 * 4 * 17), ("all-reduce", 4 * 16)]


@pytest.mark.parametrize(("name", "is_causal"), [("causal_mask", True), ("window", False)])
def test_flex_attention_is_attention(name, is_causal):
    def mask(b, h, q, k):
        return q >= k

    mask.__name__ = name

    def loss(model):
        x = model(torch.randn(2, 4, 16, 16, device="cuda").bfloat16())
        blocks = flex_attention.create_block_mask(mask, None, None, 16, 16)
        return flex_attention.flex_attention(x, x, x, block_mask=blocks).sum()

    rank = recorded(lambda: train(nn.Linear(16, 16).bfloat16().cuda(), loss))
    found = [call.what for call in rank if isinstance(call.what, CoreAttention)]
    assert [(one.is_causal, one.is_backward) for one in found] == [
        (is_causal, False),
        (is_causal, True),
    ]


def test_ring_attention_sends_keys_and_values_around():
    def program():
        mesh = init_device_mesh("cuda", (4,), mesh_dim_names=("cp",))
        model = nn.Linear(16, 16).bfloat16().cuda()
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(2):
            x = torch.randn(1, 2, 64, 16, device="cuda").bfloat16()
            with context_parallel(mesh, buffers=(x,), buffer_seq_dims=(2,)):
                y = model(x)
                functional.scaled_dot_product_attention(y, y, y, is_causal=True).sum().backward()
            optimizer.step()

    rank = recorded(program, 4)
    kinds = [one.kind for _, one in collectives(rank, "cp")]
    assert "all-gather" in kinds or "all-to-all" in kinds
    lengths = {call.what.q_len for call in rank if isinstance(call.what, CoreAttention)}
    assert max(lengths) == 64 // 4
