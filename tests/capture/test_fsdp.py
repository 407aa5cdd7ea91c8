"""FSDP2: what is gathered and reduced when, on which stream, and how much memory it takes."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import (  # noqa: E402
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from syncwall.answer import predict  # noqa: E402
from syncwall.capture.recorder import recording  # noqa: E402
from syncwall.describe import lookup  # noqa: E402
from syncwall.problems import InputError  # noqa: E402
from syncwall.work.block import StepPhase  # noqa: E402
from syncwall.work.operations import CoreAttention, Gemm  # noqa: E402
from syncwall.work.program import HeldKind, NoteKind  # noqa: E402
from syncwall.work.program_variants import resized  # noqa: E402
from tests.capture.programs import (  # noqa: E402
    LAYERS,
    collectives,
    language_loss,
    llama,
    mlp,
    only,
    recorded,
    train,
)

POLICY = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def sharded(mesh=None, **kwargs):
    model = llama()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=POLICY, **kwargs)
    return fully_shard(model, mesh=mesh, mp_policy=POLICY, **kwargs)


@pytest.fixture(scope="module")
def rank():
    return recorded(lambda: train(sharded(), language_loss))


def step(model, optimizer):
    language_loss(model).backward()
    optimizer.step()
    optimizer.zero_grad()


def sizes(of):
    return sum(parameter.numel() for parameter in of.parameters())


def test_bytes_are_those_of_the_parameters(rank):
    model = llama("meta")
    layer = sizes(model.layers[0])
    root = sizes(model) - LAYERS * layer
    gathered = [one.bytes for _, one in collectives(rank, "shard") if one.kind == "all-gather"]
    reduced = [one.bytes for _, one in collectives(rank, "shard") if one.kind == "reduce-scatter"]
    assert gathered == [2 * root] + [2 * layer] * LAYERS * 2
    assert reduced == [4 * layer] * LAYERS + [4 * root]
    assert {(one.group.ranks, one.group.stride) for _, one in collectives(rank)} == {(8, 1)}


def test_layers_are_gathered_again_in_backward_before_they_are_needed(rank):
    backward = [call for call in rank if call.phase is StepPhase.BACKWARD]
    names = [call.name for call in backward]
    gathers = [i for i, name in enumerate(names) if name == "c10d._allgather_base"]
    first_of_last_layer = next(
        i for i, call in enumerate(backward) if call.place.module.startswith("layers.1.")
    )
    assert gathers[1] < first_of_last_layer  # the first layer's gather is issued meanwhile


def test_compute_waits_for_a_gather_and_the_gather_for_its_copy(rank):
    at = next(i for i, call in enumerate(rank.calls) if call.name == "c10d._allgather_base")
    gather, out = rank.calls[at], rank.calls[at + 1]
    assert rank.calls[at - 1].name == "fsdp.all_gather_copy_in"
    assert at - 1 in gather.after
    assert out.name == "fsdp.split_with_sizes_copy"
    assert at in out.after
    assert (rank.calls[at - 1].stream, out.stream) == ("all gather copy in", "compute")


def test_the_optimizer_waits_for_the_last_reduction(rank):
    last = max(i for i, call in enumerate(rank.calls) if "reduce_scatter" in call.name)
    optimizer = next(call for call in rank.calls[last:] if call.phase is StepPhase.FINISH)
    assert last in optimizer.after


@pytest.mark.parametrize("world_size", [8, 24])
def test_memory_is_that_of_the_tracker_of_pytorch(world_size):
    with recording(world_size) as found:
        model = sharded()
        optimizer = torch.optim.AdamW(model.parameters())
        step(model, optimizer)  # the tracker counts whole tensors while DTensor works out shapes
        tracker = FSDPMemTracker(model, optimizer)
        with tracker:
            step(model, optimizer)
        (tracked,) = tracker.get_tracker_snapshot("peak").values()
    held = only(found).held_bytes
    assert held == pytest.approx(tracked["Total"], rel=1e-3)


def test_memory_is_told_apart_by_what_it_is_for(rank):
    kinds = {one.kind for one in rank.held}
    assert {HeldKind.WEIGHTS, HeldKind.OPTIMIZER, HeldKind.ACTIVATIONS} <= kinds
    weights = sum(one.bytes for one in rank.held if one.kind is HeldKind.WEIGHTS)
    assert weights == pytest.approx(4 * sizes(llama("meta")) / 8, rel=0.01)
    assert any(one.module == "layers.0.attention.wq" for one in rank.held)


def test_padding_of_a_parameter_is_noted():
    with recording(24) as found:
        train(fully_shard(mlp().cuda()), lambda m: m(torch.randn(2, 16, device="cuda")).sum())
    notes = {note.what: note for note in found.program().notes if note.kind is NoteKind.PADDED}
    assert notes["2.weight (4, 32)"].bytes == 4 * 24 * 32
    assert notes["2.weight (4, 32)"].useful_bytes == 4 * 4 * 32


def test_replicas_reduce_what_the_shards_have_reduced():
    def program():
        mesh = init_device_mesh("cuda", (4, 8), mesh_dim_names=("dp_replicate", "dp_shard"))
        train(sharded(mesh), language_loss)

    rank = recorded(program, 32)
    reduced = [one.bytes for _, one in collectives(rank, "shard") if one.kind == "reduce-scatter"]
    replicas = [one for _, one in collectives(rank, "replica")]
    assert [one.bytes for one in replicas] == [size / 8 for size in reduced]
    assert {(one.kind, one.group.ranks, one.group.stride) for one in replicas} == {("all-reduce", 4, 8)}


def test_gradients_are_reduced_once_for_all_micro_batches():
    def program():
        model = sharded()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            for last in (False, True):
                model.set_requires_gradient_sync(last)
                language_loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()

    rank = recorded(program)
    reduced = [call for call, one in collectives(rank) if one.kind == "reduce-scatter"]
    assert [call.micro_batch for call in reduced] == [1] * (LAYERS + 1)


def test_checkpointing_repeats_the_forward_pass_but_not_its_last_multiplication():
    def program():
        model = sharded()
        for layer in model.layers:
            run = layer.forward
            layer.forward = lambda *args, run=run: checkpoint(run, *args, use_reentrant=False)
        train(model, language_loss)

    rank = recorded(program)
    again = [call.what for call in rank if call.phase is StepPhase.RECOMPUTE]
    assert sum(isinstance(what, Gemm) for what in again) == LAYERS * 6
    assert sum(isinstance(what, CoreAttention) for what in again) == LAYERS


def test_a_large_world_gives_the_same_calls():
    small = recorded(lambda: train(sharded(), language_loss), 8)
    large = recorded(lambda: train(sharded(), language_loss), 16384)
    assert [call.name for call in small] == [call.name for call in large]


@pytest.mark.parametrize("ranks", [2, 64, 512])
def test_a_resized_program_is_like_one_recorded_at_that_size(ranks):
    """Of 512 ranks most have no row of the narrow matrices: they are padded."""
    small, other = (_whole(world_size) for world_size in (16, ranks))
    found = resized(small, ranks)
    cluster = lookup.cluster("dgx-h100")
    steps = [predict(one, cluster=cluster).step_s for one in (found, other)]
    assert steps[0] == pytest.approx(steps[1], rel=0.005)
    sent = [
        [(one.kind, one.bytes, one.group.ranks) for _, one in collectives(program.ranks[0])]
        for program in (found, other)
    ]
    assert sent[0] == sent[1]
    assert found.tokens == other.tokens


def _whole(world_size):
    with recording(world_size) as made:
        train(sharded(), language_loss)
    return made.program()


def first_fsdp(strategy=ShardingStrategy.FULL_SHARD):
    model = llama()
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = ModuleWrapPolicy({type(model.layers[0])})
    return FullyShardedDataParallel(
        model, auto_wrap_policy=policy, mixed_precision=precision, sharding_strategy=strategy
    )


def sent(rank, kind):
    return [one.bytes for _, one in collectives(rank, "shard") if one.kind == kind]


def test_the_first_fsdp_sends_what_the_second_does(rank):
    other = recorded(lambda: train(first_fsdp(), language_loss))
    for kind in ("all-gather", "reduce-scatter"):
        assert sent(other, kind) == sent(rank, kind)


def test_the_first_fsdp_keeps_weights_where_only_gradients_are_sharded(rank):
    other = recorded(lambda: train(first_fsdp(ShardingStrategy.SHARD_GRAD_OP), language_loss))
    assert len(sent(other, "all-gather")) == LAYERS + 1
    assert sent(other, "reduce-scatter") == sent(rank, "reduce-scatter")


def test_the_first_fsdp_accumulates_without_communication(rank):
    def program():
        model = first_fsdp()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            with model.no_sync():
                language_loss(model).backward()
            language_loss(model).backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
            optimizer.zero_grad()

    assert sent(recorded(program), "reduce-scatter") == sent(rank, "reduce-scatter")


def test_the_first_fsdp_that_shards_nothing_is_refused():
    with pytest.raises(InputError, match="DistributedDataParallel"), recording(4):
        first_fsdp(ShardingStrategy.NO_SHARD)


@pytest.mark.parametrize("stated", ["ignored_modules", "ignored_states"])
def test_the_first_fsdp_leaves_out_what_it_is_told_to(stated):
    def program():
        model = llama()
        last = model.layers[-1].requires_grad_(False)
        given = [last] if stated == "ignored_modules" else list(last.parameters())
        sharded = FullyShardedDataParallel(
            model, auto_wrap_policy=ModuleWrapPolicy({type(last)}), **{stated: given}
        )
        train(sharded, language_loss)

    layer, whole = sizes(llama("meta").layers[0]), sizes(llama("meta"))
    gathered = sum(sent(recorded(program), "all-gather"))
    assert gathered == pytest.approx(4 * (2 * (LAYERS - 1) * layer + whole - LAYERS * layer), rel=0.01)
