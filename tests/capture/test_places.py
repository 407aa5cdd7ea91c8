"""Modules and source lines, and where the host waits."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch import nn  # noqa: E402

from syncwall.capture.recorder import recording  # noqa: E402
from syncwall.work.block import StepPhase  # noqa: E402
from syncwall.work.operations import CoreAttention, Gemm  # noqa: E402
from syncwall.work.program import NoteKind  # noqa: E402
from tests.capture.programs import language_loss, llama, mlp, recorded, train  # noqa: E402

HERE = Path(__file__).name


def line(call):
    file, _, number = call.place.source.rpartition(":")
    return Path(file).name, Path(__file__).read_text().splitlines()[int(number) - 1].strip()


class Twice(nn.Module):  # type: ignore[misc]
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x):
        x = self.inner(x)
        return x.sin()


def loss(model):
    return model(torch.randn(8, 16, device="cuda")).sum()


def test_both_passes_name_the_module_and_the_line_of_the_forward_pass():
    rank = recorded(lambda: train(nn.Sequential(Twice(), Twice()).cuda(), loss))
    gemms = [call for call in rank if isinstance(call.what, Gemm)]
    assert [call.place.module for call in gemms] == [
        "0.inner",
        "1.inner",
        "1.inner",
        "1.inner",
        "0.inner",
    ]
    assert {line(call) for call in gemms} == {(HERE, "x = self.inner(x)")}
    sines = [call for call in rank if call.name in {"aten.sin", "aten.cos"}]
    assert {line(call) for call in sines} == {(HERE, "return x.sin()")}
    assert [call.place.module for call in sines] == ["0", "1", "1", "0"]


def test_layers_of_a_model_are_named_as_named_modules_does():
    names = dict(llama("meta").named_modules())
    rank = recorded(lambda: train(llama().bfloat16(), language_loss))
    found = {call.place.module for call in rank if isinstance(call.what, CoreAttention | Gemm)}
    assert "layers.1.feed_forward.w2" in found
    assert found <= set(names)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: bool((x > 0).any()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.tolist(),
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.cuda.Event().record().synchronize(),
    ],
    ids=["item", "cpu", "bool", "nonzero", "mask", "tolist", "synchronize", "event"],
)
def test_the_host_waits_where_it_asks_for_values(ask):
    def loss(model):
        y = model(torch.randn(8, 16, device="cuda"))
        ask(y.detach())
        return y.sum()

    rank = recorded(lambda: train(mlp().cuda(), loss))
    (wait,) = [call for call in rank if call.host_waits]
    assert wait.what is None
    assert rank.calls[wait.after[0]].stream == "compute"
    assert wait.place.source.startswith(("tests/", HERE))


def test_a_made_up_value_is_noted_with_its_line():
    def values(model):
        y = loss(model)
        assert y.item() == 1.0
        assert torch.isfinite(y).all()
        assert not torch.isnan(y).any()
        return y

    with recording(2) as found:
        train(mlp().cuda(), values)
    notes = [note for note in found.program().notes if note.kind is NoteKind.PLACEHOLDER]
    assert len(notes) == 3


def test_streams_wait_for_each_other_through_events():
    def program():
        model, side = mlp().cuda(), torch.cuda.Stream()
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(2):
            x = torch.randn(8, 16, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x.sin()
            torch.cuda.current_stream().wait_event(side.record_event())
            model(y).sum().backward()
            optimizer.step()

    rank = recorded(program)
    at = next(i for i, call in enumerate(rank.calls) if call.name == "aten.sin")
    random, sine, after = rank.calls[at - 1 : at + 2]
    assert (random.stream, after.stream) == ("compute", "compute")
    assert sine.stream not in {"compute", ""}
    assert sine.after == (at - 1,)
    assert after.after == (at,)
    assert sine.phase is StepPhase.FORWARD


def test_what_the_backward_pass_needs_is_kept():
    rank = recorded(lambda: train(nn.Sequential(Twice()).cuda(), loss))
    gemm = next(call for call in rank if isinstance(call.what, Gemm))
    sine = next(call for call in rank if call.name == "aten.sin")
    assert set(gemm.writes) <= rank.kept  # the sine's backward pass reads it
    assert not set(sine.writes) & rank.kept
    assert rank.tensor_bytes[gemm.writes[0]] == 8 * 16 * 4
