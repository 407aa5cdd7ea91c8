"""Where a step begins and ends, and that PyTorch is left as it was."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from torch.nn import functional  # noqa: E402

from syncwall.capture.recorder import Recorded, recording  # noqa: E402
from syncwall.capture.script import merged_program  # noqa: E402
from syncwall.problems import InputError  # noqa: E402
from syncwall.work.block import StepPhase  # noqa: E402
from syncwall.work.operations import Elementwise, Gemm  # noqa: E402
from tests.capture.programs import mlp, only, recorded, train  # noqa: E402


def loss(model):
    return model(torch.randn(8, 16, device="cuda")).sum()


def gemms(rank):
    return [call.what for call in rank if isinstance(call.what, Gemm)]


def test_one_step_is_recorded_however_many_there_are():
    one = recorded(lambda: train(mlp().cuda(), loss, steps=2))
    assert len(gemms(one)) == 5  # two forward, three backward: the input needs no gradient
    assert len(gemms(recorded(lambda: train(mlp().cuda(), loss, steps=4)))) == 5


def test_all_micro_batches_before_the_optimizer_belong_to_a_step():
    rank = recorded(lambda: train(mlp().cuda(), loss, passes=3))
    assert len(gemms(rank)) == 15
    assert {call.micro_batch for call in rank if isinstance(call.what, Gemm)} == {0, 1, 2}


def test_a_step_with_two_optimizers_ends_with_the_last():
    def program():
        first, second = mlp().cuda(), mlp().cuda()
        optimizers = [torch.optim.SGD(model.parameters()) for model in (first, second)]
        for _ in range(3):
            for model, optimizer in zip((first, second), optimizers, strict=True):
                loss(model).backward()
                optimizer.step()

    assert len(gemms(recorded(program))) == 10


def test_a_step_can_be_marked_by_hand():
    with recording(2) as found:
        model = mlp().cuda()
        for _ in range(2):
            loss(model).backward()
            found.step()
    assert len(gemms(only(found))) == 5


def test_a_script_is_left_when_its_second_step_is_complete():
    steps = []

    def script():
        model = mlp().cuda()
        optimizer = torch.optim.SGD(model.parameters())
        for step in range(100):
            loss(model).backward()
            steps.append(step)
            optimizer.step()

    with recording(2) as found:
        found.stop_after = True
        with pytest.raises(Recorded):
            script()
    assert steps == [0, 1]
    assert gemms(only(found))


def test_no_step_is_refused():
    with recording(2) as found:
        loss(mlp().cuda()).backward()
    with pytest.raises(InputError, match="two are needed"):
        found.program()


def test_pytorch_is_as_it_was_after_an_error():
    kept = [
        functional.scaled_dot_product_attention,
        torch.compile,
        torch.cuda.is_available,
        torch.cuda.Stream,
        dist.init_process_group,
        dist.ProcessGroup.allreduce,
        torch.UntypedStorage.resize_,
        torch.autocast.__init__,
        torch.utils.data.DataLoader.__init__,
    ]
    with pytest.raises(ZeroDivisionError), recording(2):
        1 / 0  # noqa: B018
    after = [
        functional.scaled_dot_product_attention,
        torch.compile,
        torch.cuda.is_available,
        torch.cuda.Stream,
        dist.init_process_group,
        dist.ProcessGroup.allreduce,
        torch.UntypedStorage.resize_,
        torch.autocast.__init__,
        torch.utils.data.DataLoader.__init__,
    ]
    assert after == kept
    assert not dist.is_initialized()
    assert torch.ones(2).sum().item() == 2.0


def test_the_optimizer_runs_over_lists_of_tensors_as_on_cuda():
    rank = recorded(lambda: train(mlp().cuda(), loss))
    finish = [call for call in rank if call.phase is StepPhase.FINISH]
    assert finish
    assert all(call.name.startswith("aten._foreach") for call in finish)
    assert {call.what.kind for call in finish if isinstance(call.what, Elementwise)} == {"optimizer"}


def test_asking_for_compilation_is_remembered():
    with recording(2) as found:
        train(torch.compile(mlp().cuda()), loss)
    assert found.program().compiled


@pytest.mark.parametrize("given", ["2.7.1+cpu", "3.0.0"])
def test_another_version_of_pytorch_is_refused(monkeypatch, given):
    monkeypatch.setattr(torch, "__version__", given)
    with pytest.raises(InputError, match=r"install 2\.8 to 2\.15"), recording(2):
        pass


def test_ranks_of_a_pipeline_become_one_program():
    with recording(4) as found:
        train(mlp().cuda(), loss)
    both = merged_program([found.program(), found.program()])
    assert [rank.alike for rank in both.ranks] == [2, 2]
