"""DDP, tensor parallelism, pipelines, experts, sequences: who sends what to whom, and when."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as funcol  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.pipelining import (  # noqa: E402
    PipelineStage,
    Schedule1F1B,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from syncwall.capture.recorder import recording  # noqa: E402
from syncwall.capture.script import merged_program  # noqa: E402
from syncwall.problems import InputError  # noqa: E402
from syncwall.work.block import StepPhase  # noqa: E402
from syncwall.work.operations import Collective, Gemm, Message  # noqa: E402
from tests.capture.programs import collectives, mlp, recorded, train  # noqa: E402


def loss(model):
    return model(torch.randn(8, 16, device="cuda")).sum()


def wide():
    return nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(8))).cuda()


def test_ddp_reduces_buckets_in_the_order_of_the_gradients():
    def program():
        model = DistributedDataParallel(wide(), device_ids=[0], bucket_cap_mb=3 * 1024 / 2**20)
        train(model, loss)

    rank = recorded(program)
    found = collectives(rank, "dp")
    assert [one.bytes for _, one in found] == [3 * 1024, 3 * 1024, 2 * 1024]
    assert {one.kind for _, one in found} == {"all-reduce"}
    at = [i for i, call in enumerate(rank.calls) if isinstance(call.what, Collective)]
    gemms = [i for i, call in enumerate(rank.calls) if isinstance(call.what, Gemm)]
    assert at[0] < gemms[-1]  # beside the rest of the backward pass
    waited = {number for call in rank for number in call.after if call.stream == "compute"}
    assert set(at) <= waited


def test_ddp_without_sync_reduces_with_the_last_micro_batch():
    def program():
        model = DistributedDataParallel(wide())
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(2):
            with model.no_sync():
                loss(model).backward()
            loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()

    found = collectives(recorded(program))
    assert sum(one.bytes for _, one in found) == 8 * 1024
    assert {call.micro_batch for call, _ in found} == {1}


def test_ddp_sends_its_buffers():
    def program():
        train(DistributedDataParallel(nn.Sequential(nn.BatchNorm1d(16), mlp()).cuda()), loss)

    kinds = [one.kind for _, one in collectives(recorded(program))]
    assert kinds.count("broadcast") == 2  # two number formats


def test_tensor_parallel_layers_communicate_over_their_dimension():
    def program():
        mesh = init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        train(parallelize_module(mlp().cuda(), mesh["tp"], plan), loss)

    rank = recorded(program)
    (output,) = [one for _, one in collectives(rank, "tp")]
    assert (output.kind, output.bytes) == ("all-reduce", 8 * 4 * 4)
    assert (output.group.ranks, output.group.stride) == (2, 1)
    assert {call.what.n for call in rank if isinstance(call.what, Gemm)} >= {16}


class Part(nn.Sequential):  # type: ignore[misc]
    """One stage of a pipeline."""

    def __init__(self):
        super().__init__(nn.Linear(16, 16), nn.ReLU())


def pipeline(virtual, micro_batches=4):
    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("pp", "dp"))
    group = mesh["pp"].get_group()
    rank, device = mesh["pp"].get_local_rank(), torch.device("cuda")
    parts = [Part().cuda() for _ in range(virtual)]
    stages = [
        PipelineStage(part, rank + 2 * i, 2 * virtual, device, group=group) for i, part in enumerate(parts)
    ]
    kwargs = {"loss_fn": lambda y, t: (y - t).square().sum()}
    if virtual == 1:
        schedule = Schedule1F1B(stages[0], micro_batches, **kwargs)
    else:
        schedule = ScheduleInterleaved1F1B(stages, micro_batches, **kwargs)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()])
    for _ in range(2):
        x = torch.randn(8, 16, device="cuda")
        target = {"target": x} if rank == 1 else {}
        schedule.step(*([x] if rank == 0 else []), **target)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("virtual", [1, 2])
def test_stages_of_a_pipeline_are_recorded_one_after_the_other(virtual):
    with recording(8) as first:
        pipeline(virtual)
    with recording(8, rank=4, handed_on=first.state.handed_on) as second:
        pipeline(virtual)
    assert first.pipeline_ranks == second.pipeline_ranks == (0, 4)
    whole = merged_program([first.program(), second.program()], 2)
    assert [(rank.rank, rank.alike) for rank in whole.ranks] == [(0, 4), (4, 4)]
    sent = [
        sorted(
            (c.what.sender, c.what.receiver, c.micro_batch, c.phase, c.what.bytes)
            for c in rank
            if isinstance(c.what, Message)
        )
        for rank in whole.ranks
    ]
    assert sent[0] == sent[1]  # whatever one sends, the other receives
    each = 2 * 16 * 4
    forward = [one for one in sent[0] if one[3] is StepPhase.FORWARD]
    assert forward.count((0, 4, 3, StepPhase.FORWARD, each)) == virtual
    assert len(forward) == 4 * (2 * virtual - 1)


def test_a_stage_whose_input_nobody_knows_is_refused():
    with (
        pytest.raises(InputError, match="--ranks 0,4"),
        recording(8, rank=4),
    ):
        pipeline(1)


class Experts(nn.Module):  # type: ignore[misc]
    """Tokens go to the ranks of their experts and back."""

    def __init__(self, group):
        super().__init__()
        self.group, self.inner = group, nn.Linear(16, 16, bias=False)

    def forward(self, x):
        x = funcol.all_to_all_single_autograd(x, None, None, self.group)
        return funcol.all_to_all_single_autograd(self.inner(x), None, None, self.group)


def test_tokens_go_to_experts_and_back_in_both_passes():
    def program():
        mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "ep"))
        train(Experts(mesh["ep"]).cuda(), loss)

    found = [one for _, one in collectives(recorded(program), "ep")]
    assert [(one.kind, one.bytes) for one in found] == [("all-to-all", 8 * 16 * 4)] * 3


def test_collectives_of_c10d_have_the_sizes_that_nccl_tests_prints():
    def program():
        weight = nn.Parameter(torch.zeros(8, device="cuda"))
        optimizer = torch.optim.SGD([weight])
        for _ in range(2):
            whole = torch.zeros(64, device="cuda")
            part = torch.zeros(8, device="cuda")
            dist.all_gather(list(whole.chunk(8)), part)
            dist.reduce_scatter(part, list(whole.chunk(8)))
            dist.all_to_all_single(whole, whole.clone())
            dist.broadcast(part, 0)
            dist.reduce(part, 0)
            dist.all_reduce(part, async_op=True).wait()
            weight.sum().backward()
            optimizer.step()

    found = {one.kind: one.bytes for _, one in collectives(recorded(program))}
    assert found == {
        "all-gather": 256,
        "reduce-scatter": 256,
        "all-to-all": 256,
        "broadcast": 32,
        "reduce": 32,
        "all-reduce": 32,
    }


def test_an_asynchronous_collective_is_awaited_where_the_program_waits():
    def program():
        weight = nn.Parameter(torch.zeros(8, device="cuda"))
        optimizer = torch.optim.SGD([weight])
        for _ in range(2):
            x = torch.zeros(8, device="cuda")
            work = dist.all_reduce(x, async_op=True)
            y = torch.zeros(8, device="cuda").sin()
            work.wait()
            (x + y + weight).sum().backward()
            optimizer.step()

    rank = recorded(program)
    names = [call.name for call in rank]
    reduced, sine, add = (names.index(name) for name in ("c10d.allreduce", "aten.sin", "aten.add"))
    assert rank.calls[sine].after == ()
    assert reduced in rank.calls[add].after


def test_messages_between_two_ranks():
    def program():
        weight = nn.Parameter(torch.zeros(8, device="cuda"))
        optimizer = torch.optim.SGD([weight])
        for _ in range(2):
            x, y = torch.zeros(8, device="cuda"), torch.zeros(4, device="cuda")
            both = [dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, y, 3)]
            for work in dist.batch_isend_irecv(both):
                work.wait()
            (y.sum() + weight.sum()).backward()
            optimizer.step()

    rank = recorded(program)
    assert [c.what for c in rank if isinstance(c.what, Message)] == [
        Message(32, 0, 1),
        Message(16, 3, 0),
    ]
    received = next(i for i, c in enumerate(rank.calls) if c.what == Message(16, 3, 0))
    total = next(call for call in rank if call.name == "aten.sum")
    assert received in total.after
