"""A canary for each thing of PyTorch that a recording replaces or rests on.

They fail where the PyTorch that is installed has it no more, goes past it, or behaves in another way;
`bash .ci/run versions` runs them on all versions that are supported.
"""

import dataclasses
import pkgutil
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses import FakeTensor, FakeTensorMode  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleavedZeroBubble  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.nn.attention import flex_attention  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from syncwall.capture import recorder  # noqa: E402
from syncwall.capture.kernels import ATTENTION, number_format  # noqa: E402
from syncwall.capture.patching import Shim, Shims  # noqa: E402
from syncwall.capture.recorder import recording  # noqa: E402
from syncwall.capture.reducer import Reducer  # noqa: E402
from syncwall.capture.shims import TABLES  # noqa: E402
from syncwall.capture.versions import CHANGES, has  # noqa: E402
from syncwall.describe.choice import Dtype  # noqa: E402
from syncwall.problems import InputError  # noqa: E402
from tests.capture.programs import only  # noqa: E402

ROWS = [row for table in TABLES for row in table.rows]
RESTS_ON = """
torch._C._current_autograd_node torch._C._swap_tensor_impl torch._C._distributed_c10d.FakeProcessGroup
torch.autograd._get_sequence_nr torch.compiler.set_stance torch.distributed.ProcessGroup.group_desc
torch.distributed.ProcessGroup.unbox torch.distributed._compute_bucket_assignment_by_size
torch.distributed.distributed_c10d._resolve_process_group torch.overrides._get_current_function_mode_stack
torch.overrides._len_torch_function_stack torch.overrides._pop_mode_temporarily
torch.testing._internal.distributed.fake_pg.FakeStore torch.utils._device.CURRENT_DEVICE
torch.utils._python_dispatch._disable_current_modes torch.utils.flop_counter.flop_registry
""".split()  # noqa: SIM905 - one below the other
"""Private names that are used, not replaced."""


def is_there(path: str) -> bool:
    owner, _, name = path.rpartition(".")
    try:
        return hasattr(pkgutil.resolve_name(owner), name)
    except (ImportError, AttributeError):
        return False


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.target)
def test_pytorch_has_what_is_replaced(row):
    assert callable(row.original) or row.name == "_foreach_supported_types"


@pytest.mark.parametrize("path", RESTS_ON)
def test_pytorch_has_what_recordings_rest_on(path):
    assert is_there(path)


@pytest.mark.parametrize("path", CHANGES)
def test_the_table_of_versions_says_what_this_one_has(path):
    assert is_there(path) == has(path)


# Whether PyTorch still goes through what is replaced: each program has to reach its targets.


def spied(row: Shim, seen: set[str]) -> Shim:
    """The same row, which notices that it was used."""

    def make(state: Any, original: Any) -> Any:
        instead = row.make(state, original)
        if not callable(instead):
            return instead

        name = "__new__" if "__new__" in vars(instead) else "__init__"
        called = getattr(instead, name) if isinstance(instead, type) else instead

        @wraps(instead, updated=())
        def used(*args: Any, **kwargs: Any) -> Any:
            seen.add(row.target)
            return called(*args, **kwargs)

        return type(instead.__name__, (instead,), {name: used}) if called is not instead else used

    return dataclasses.replace(row, make=make)


def spied_tables(seen: set[str]) -> list[Shims]:
    tables = []
    for table in TABLES:
        tables.append(Shims())
        tables[-1].rows = [spied(row, seen) for row in table.rows]
        tables[-1].surroundings = table.surroundings
    return tables


def step(model, *given, **options):
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    for _ in range(2):
        model(*given).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 16)).cuda()


def x():
    return torch.randn(8, 16, device="cuda")


def data_parallel() -> None:
    dist.init_process_group("nccl")
    model = DistributedDataParallel(layers(), device_ids=[0])
    model.register_comm_hook(None, fp16_compress_hook)
    step(model, x())
    model = DistributedDataParallel(nn.Linear(16, 16).cuda())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    step(DistributedDataParallel(nn.SyncBatchNorm(16).cuda()), x()[..., None])
    dist.destroy_process_group()


def fully_sharded() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)).cuda()
    for part in (*model, model):
        fully_shard(part)
    step(model, x())
    step(dist.fsdp.FullyShardedDataParallel(nn.Linear(16, 16)), x())


def tensor_parallel() -> None:
    mesh = init_device_mesh("cuda", (4, 2), mesh_dim_names=("dp", "tp"))
    assert mesh["tp"].size() == 2
    assert (mesh["tp"].get_local_rank(), tuple(mesh.get_coordinate())) == (0, (0, 0))
    mesh._flatten("all")
    if has("torch.distributed.device_mesh.DeviceMesh._unflatten"):
        mesh["dp"]._unflatten(0, (2, 2), ("outer", "inner"))
    plan = {"0": ColwiseParallel()}
    step(parallelize_module(nn.Sequential(nn.Linear(16, 16)).cuda(), mesh["tp"], plan), x(), foreach=True)


def stages(rank: int, schedule: type, count: int) -> None:
    """One step of a rank of two, which has every other stage."""
    group, device = dist.new_group([0, 1]), torch.device("cuda")
    numbers = range(rank, count, 2)
    parts = [PipelineStage(nn.Linear(16, 16).cuda(), n, count, device, group=group) for n in numbers]
    made = schedule(parts if count > 2 else parts[0], 4, loss_fn=lambda y, t: (y - t).square().sum())
    made.step(*([x()] if rank == 0 else []), target=x())


def pipeline() -> None:
    stages(0, Schedule1F1B, 2)


def last_stage() -> None:
    with pytest.raises(InputError, match="earlier stages"):
        stages(1, Schedule1F1B, 2)


def zero_bubble() -> None:
    stages(0, ScheduleInterleavedZeroBubble, 4)


def refused() -> None:
    with pytest.raises(RuntimeError, match="--nproc-per-node 1"):
        torch.multiprocessing.spawn(print)


def collectives_of_c10d() -> None:
    whole, part = torch.zeros(64, device="cuda"), torch.zeros(8, device="cuda")
    chunks = list(whole.chunk(8))
    dist.all_reduce(part, async_op=True).wait()
    dist.all_gather(chunks, part)
    dist.reduce_scatter(part, chunks)
    dist.all_to_all_single(whole, whole.clone())
    dist.all_to_all(chunks, chunks)
    dist.broadcast(part, 0)
    dist.reduce(part, 0)
    dist.gather(part, chunks)
    dist.scatter(part, chunks)
    dist.barrier()
    group, device = dist.group.WORLD, torch.device("cuda")
    group._allgather_base(whole, part).wait()
    group.recv_anysource([part], 0).wait()
    group.barrier().wait()
    with dist.distributed_c10d._coalescing_manager(device=device, async_ops=True) as works:
        group._reduce_scatter_base(part, whole)
    works.wait()
    dist.Work.wait(group.allreduce([part]))
    given = {
        "allreduce_coalesced": ([part],),
        "allgather_coalesced": ([chunks], [part]),
        "allgather_into_tensor_coalesced": ([whole], [part]),
        "all_gather_single_coalesced": ([whole], [part]),
        "reduce_scatter_tensor_coalesced": ([part], [whole]),
        "reduce_scatter_single_coalesced": ([part], [whole]),
        "gather_into_tensor": (whole, part),
        "gather_single": (whole, part),
    }
    for name, tensors in given.items():
        if has(f"torch.distributed.ProcessGroup.{name}"):
            with pytest.raises((RuntimeError, NotImplementedError)):  # no version has them for fake tensors
                getattr(group, name)(*tensors)
    group.alltoall_base(whole, whole.clone(), [], []).wait()
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, part, 1), dist.P2POp(dist.irecv, part, 1)]):
        work.wait()
    dist.all_gather_object([None] * 8, 1)
    dist.gather_object(1, [None] * 8)
    dist.broadcast_object_list([1])
    torch.save({}, "/nowhere/file")
    dist.checkpoint.save({}, checkpoint_id="/nowhere")
    dist.checkpoint.async_save({}, checkpoint_id="/nowhere")


def kernels_of_cuda() -> None:
    heads = torch.randn(1, 2, 16, 8, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    mask = flex_attention.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 16, 16, device="cuda")
    flex_attention.flex_attention(heads, heads, heads, block_mask=mask)
    functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum().backward()
    functional.dropout(nn.RMSNorm(8).cuda()(heads.float()))
    torch.rms_norm(heads, (8,))
    model = nn.Linear(16, 16).cuda()
    model.compile()
    step(torch.compile(model), x())


def tensors_without_data() -> None:
    model = nn.Linear(2, 2).to("cuda")
    assert f"{model.weight.sum():.1f}" == "1.0"
    assert torch.tensor([1, 2], device="cuda").to(torch.int32).mul(2).tolist() == [1, 1]
    copy = nn.Parameter(torch.zeros(2, device="cuda")).__deepcopy__({})
    copy.untyped_storage().resize_(0)
    with torch.device("cuda"), torch.autocast("cuda", torch.bfloat16):
        assert torch.is_autocast_enabled()
        assert functional.linear(torch.zeros(2, 2), model.weight).dtype == torch.bfloat16
    torch.utils.swap_tensors(torch.zeros(2), torch.zeros(2))
    drawn = torch.randn(2, device="cuda", generator=torch.Generator("cuda"))
    drawn.record_stream(torch.cuda.current_stream())
    with pytest.raises(FileNotFoundError):
        torch.load("/nowhere/file", map_location="cuda")
    model.weight.grad = torch.zeros(2, 2, device="cuda")
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert [len(one) for one in torch.utils.data.DataLoader(list(range(6)), 3, num_workers=4)] == [3, 3]


def questions() -> None:
    """What programs ask the device themselves."""
    made = {"set_stream": (torch.cuda.current_stream(),), "stream": (None,), "StreamContext": (None,)}
    for row in ROWS:
        if row.target.startswith(("torch.cuda.", "torch.cpu.", "torch.accelerator.")):
            getattr(row.owner, row.name)(*made.get(row.name, ()))


def sums_of_lists() -> None:
    lists = [[torch.ones(2, device="cuda")], [torch.ones(2, device="cuda")], [torch.ones(2, device="cuda")]]
    given = {"lerp_": [*lists[:2], 0.5], "pow": [lists[0], 2.0], "pow_": [lists[0], 2.0]}
    single = ("sqrt", "neg", "sign", "zero", "reciprocal")
    for row in ROWS:
        name = row.name.removeprefix("_foreach_")
        if row.target.startswith("torch._foreach_"):
            count = 1 if name.strip("_") in single else 3 if name.startswith("addc") else 2
            getattr(torch, row.name)(*given.get(name, lists[:count]))


PROGRAMS = (
    data_parallel, fully_sharded, tensor_parallel, pipeline, last_stage, zero_bubble, refused,
    collectives_of_c10d, kernels_of_cuda, tensors_without_data, questions, sums_of_lists,
)  # fmt: skip


@pytest.fixture(scope="module")
def reached() -> dict[str, Any]:
    """What all programs together went through, and how each of them ended."""
    seen: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "TABLES", spied_tables(seen))
        return {"seen": seen, **{one.__name__: ended(one) for one in PROGRAMS}}


def ended(program: Callable[[], None]) -> BaseException | None:
    try:
        with recording(8, rank=int(program is last_stage)):
            program()
    except Exception as error:  # noqa: BLE001 - shown by the program's own test
        return error
    return None


@pytest.mark.parametrize("name", [one.__name__ for one in PROGRAMS])
def test_programs_run_through_what_is_replaced(name, reached):
    if reached[name] is not None:
        raise reached[name]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.target)
def test_pytorch_goes_through_what_is_replaced(row, reached):
    is_reached = row.target in reached["seen"] or row.name == "_foreach_supported_types"
    assert is_reached, "a program of this file has to reach it"


# How what is used behaves.


def gathered(whole, part):
    gather = (
        dist.all_gather_single if has("torch.distributed.all_gather_single") else dist.all_gather_into_tensor
    )
    return gather(whole, part, async_op=True)


def scattered(whole, part):
    is_new = has("torch.distributed.reduce_scatter_single")
    return (dist.reduce_scatter_single if is_new else dist.reduce_scatter_tensor)(part, whole, async_op=True)


ASYNCHRONOUS = {
    "all-reduce": lambda whole, part: dist.all_reduce(part, async_op=True),
    "all-gather": gathered,
    "reduce-scatter": scattered,
    "all-to-all": lambda whole, part: dist.all_to_all_single(whole, whole.clone(), async_op=True),
    "broadcast": lambda whole, part: dist.broadcast(part, 0, async_op=True),
}


@pytest.mark.parametrize("kind", ASYNCHRONOUS)
def test_waiting_for_a_collective_is_recorded(kind):
    with recording(8) as found:
        weight = nn.Parameter(torch.zeros(8, device="cuda"))
        optimizer = torch.optim.SGD([weight])
        for _ in range(2):
            whole, part = torch.zeros(64, device="cuda"), torch.zeros(8, device="cuda")
            work = ASYNCHRONOUS[kind](whole, part)
            aside = part.sin()
            work.wait()
            (whole.view(8, 8) + part + aside + weight).sum().backward()
            optimizer.step()
    rank = only(found)
    sent = next(i for i, call in enumerate(rank.calls) if getattr(call.what, "kind", "") == kind)
    after = {call.name: call.after for call in rank}
    assert sent not in after["aten.sin"]
    assert sent in next(call.after for call in rank if call.name == "aten.add")


@pytest.mark.parametrize("name", ATTENTION)
def test_arguments_of_attention_are_where_they_are_read(name):
    """`is_causal` by its place; the backward pass has the gradient before query, key and value."""
    if not hasattr(torch.ops.aten, name.partition("::")[2]):
        pytest.skip("not in this version")
    names = [one.name for one in getattr(torch.ops.aten, name.partition("::")[2]).default._schema.arguments]
    places = [
        one.cell_contents for one in ATTENTION[name].__closure__ or () if isinstance(one.cell_contents, int)
    ]
    at = places[0] if places else 11 if "backward" in name else 8
    assert names[at] == "is_causal"
    assert names[int("backward" in name) :][:3] == ["query", "key", "value"]


def test_ddp_gives_its_reducer_what_it_reads_there(monkeypatch):
    made: list[Reducer] = []

    class Noticed(Reducer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr("syncwall.capture.shims.parallel.Reducer", Noticed)
    with recording(8):
        DistributedDataParallel(
            layers(), bucket_cap_mb=3, find_unused_parameters=True, gradient_as_bucket_view=True
        )
        (one,) = made
        assert (one.bucket_bytes, one.finds_unused, one.keeps_views) == (3 << 20, True, True)
        assert (len(one.parameters), one.group, one.first_bytes) == (6, dist.group.WORLD, 3 << 20)


@pytest.mark.parametrize("convolves", [False, True])
def test_switches_of_tf32_are_read(convolves):
    switch = torch.backends.cudnn if convolves else torch.backends.cuda.matmul
    before = switch.allow_tf32
    try:
        for allowed in (True, False):
            switch.allow_tf32 = allowed
            assert number_format(torch.float32, convolves=convolves) is (
                Dtype.TF32 if allowed else Dtype.FP32
            )
    finally:
        switch.allow_tf32 = before


def test_autograd_numbers_its_nodes_as_forward_calls_made_them():
    weight = torch.ones(2, requires_grad=True)
    made = weight * 2
    number = torch.autograd._get_sequence_nr() - 1
    nodes = []
    made.register_hook(lambda _: nodes.append(torch._C._current_autograd_node()))
    weight.register_hook(lambda _: nodes.append(torch._C._current_autograd_node()))
    made.sum().backward()
    assert made.grad_fn._sequence_nr() == number
    assert nodes[-1].name() in {"torch::autograd::AccumulateGrad", "MulBackward0"}


def test_storages_have_an_address_and_an_end():
    with FakeTensorMode():
        tensor = torch.empty(4)
        view = tensor.view(2, 2)
        ends: list[int] = []
        assert isinstance(tensor, FakeTensor)
        assert tensor.constant is None
        assert view.untyped_storage()._cdata == tensor.untyped_storage()._cdata
        weakref.finalize(tensor.untyped_storage(), ends.append, 1)
        del tensor
        assert not ends
        del view
        assert ends
