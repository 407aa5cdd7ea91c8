"""Wrappers of PyTorch around a model: DDP, FSDP2, DTensor, pipelines and synchronized batch norms.

Each does something at set-up that needs values or other ranks; that is left out or done here.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import stage
from torch.distributed.tensor import DTensor

from syncwall.capture.fake_devices import without_modes
from syncwall.capture.patching import Shims, answering, replaced, wrapper
from syncwall.capture.reducer import Logger, Reducer
from syncwall.capture.routing import local
from syncwall.capture.state import RecordingState
from syncwall.capture.tape import RecordedStream
from syncwall.capture.versions import has
from syncwall.problems import InputError
from syncwall.work.block import StepPhase
from syncwall.work.program import HeldKind, Note, NoteKind, ShardedUnit, SourceLocation

PARALLEL = Shims()

_DDP = "torch.nn.parallel.distributed"
_FSDP = "torch.distributed.fsdp._fully_shard"
_PARAM = f"{_FSDP}._fsdp_param.FSDPParam"
_GROUP = f"{_FSDP}._fsdp_param_group"
_STAGE = "torch.distributed.pipelining.stage"
_SCHEDULE = "torch.distributed.pipelining.schedules._PipelineSchedule"
_GATHER = "torch.distributed.all_gather_single"
_COMPRESSED = {"fp16_compress": torch.float16, "bf16_compress": torch.bfloat16}
_ELEMENTWISE = (
    "add add_ sub sub_ mul mul_ div div_ lerp_ addcmul addcmul_ addcdiv addcdiv_ sqrt sqrt_ neg "
    "neg_ maximum_ sign zero_ copy_ reciprocal_ pow pow_ clamp_max_"
)


# DDP's reducer in C++ reads values, which fake tensors do not have: one in Python stands in.
# Parameters are neither compared with those of other ranks nor sent to them.
PARALLEL.replaces(
    {
        "torch.distributed.Reducer": lambda *_: Reducer,
        "torch.distributed.Logger": lambda *_: Logger,
        f"{_DDP}._verify_param_shape_across_processes": answering(lambda _: True),
        f"{_DDP}._sync_module_states": answering(lambda _: None),
    }
)


@PARALLEL.wraps(f"{_DDP}.DistributedDataParallel.__init__")
def _ddp(
    state: RecordingState,
    original: Any,
    self: Any,
    module: torch.nn.Module,
    *args: Any,
    **kwargs: Any,
) -> None:
    kwargs["device_ids"] = kwargs["output_device"] = None
    state.mode.data_parallel = "dp"
    for tensor in [*module.parameters(), *module.buffers()]:
        state.on_device(tensor)
    with state.tape.paused():
        original(self, module, *args[2:], **kwargs)


@PARALLEL.wraps("torch.distributed._broadcast_coalesced")
def _broadcast_coalesced(
    _: RecordingState, __: Any, group: Any, tensors: list[torch.Tensor], *___: object
) -> None:
    """Together, as one flat tensor a dtype."""
    for dtype in {tensor.dtype for tensor in tensors}:
        alike = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.reshape(-1) for tensor in alike])
        dist.broadcast(flat, dist.get_global_rank(group, 0), group=group)
        parts = flat.split([tensor.numel() for tensor in alike])
        shaped = [part.view_as(t) for part, t in zip(parts, alike, strict=True)]
        torch._foreach_copy_(alike, shaped)


@PARALLEL.wraps("torch.distributed._register_comm_hook")
def _register_hook(state: RecordingState, _: Any, reducer: Reducer, __: object, hook: Any) -> None:
    name = getattr(hook, "__name__", "")
    reducer.compress = next((d for word, d in _COMPRESSED.items() if word in name), None)
    if reducer.compress is None:
        state.tape.note(NoteKind.NOT_RECORDED, f"DDP communication hook {name}")


@PARALLEL.wraps("torch.distributed._register_builtin_comm_hook")
def _register_builtin_hook(_: RecordingState, __: Any, reducer: Reducer, hook: Any) -> None:
    reducer.compress = torch.float16 if "FP16" in str(hook) else None


class _Chunks:
    """Equal parts of a tensor along a dimension, made when asked for; the last may be empty.

    `fully_shard` cuts each parameter into as many chunks as there are ranks and keeps one: at
    16,384 ranks that is most of the time. Only the first and its own chunk are ever looked at.
    """

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self.tensor, self.dim = tensor, dim
        self.size = -(-tensor.size(dim) // num_chunks)

    def __getitem__(self, index: int) -> torch.Tensor:
        start = index * self.size
        length = min(self.size, self.tensor.size(self.dim) - start)
        if length <= 0:
            return self.tensor.new_empty(0)
        return self.tensor.narrow(self.dim, start, length)


PARALLEL.replaces({f"{_FSDP}._fsdp_param._chunk_with_empty": lambda *_: _Chunks})


@PARALLEL.wraps(f"{_GROUP}.FSDPCommContext.lazy_init")
def _named_streams(state: RecordingState, original: Any, self: Any, device: torch.device) -> None:
    original(self, device)
    for name, value in vars(self).items():
        if isinstance(value, RecordedStream):
            value.name = state.tape.new_stream(name.removesuffix("_stream").replace("_", " "))


@PARALLEL.wraps(f"{_PARAM}._init_sharded_param")
def _sharded(state: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    state.on_device(self._sharded_param_data)
    state.mode.data_parallel = state.mode.data_parallel or "shard"
    state.storages.are([local(self.sharded_param)], HeldKind.WEIGHTS)
    state.sharded.append(self)


@PARALLEL.wraps(f"{_FSDP}._fsdp_init._move_states_to_device", everywhere=True)
def _move(state: RecordingState, original: Any, params: Any, buffers: Any, device: torch.device) -> None:
    original(params, buffers, device)
    for tensor in [*params, *buffers]:
        state.on_device(tensor)


@PARALLEL.wraps(f"{_PARAM}.init_all_gather_outputs")
def _gathered(state: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    name = state.places.name(self._module_info.module)
    state.storages.are(self.all_gather_outputs, HeldKind.GATHERED, name)


@PARALLEL.wraps(f"{_GROUP}.foreach_all_gather")
def _all_gather(state: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    result = original(*args, **kwargs)
    if result is not None:
        state.storages.are([result.all_gather_output], HeldKind.GATHERED)
        state.buffers[state.storages.number(result.all_gather_output)] = _unit(args[0])
    return result


@PARALLEL.wraps(f"{_GROUP}.foreach_reduce")
def _reduce(state: RecordingState, original: Any, fsdp_params: Any, *args: Any, **kwargs: Any) -> Any:
    unit = _unit(fsdp_params)
    result = original(fsdp_params, *args, **kwargs)
    state.buffers[state.storages.number(result[0])] = unit
    return result


def _unit(params: Iterable[Any]) -> ShardedUnit:
    """What is gathered or reduced together."""
    sizes = []
    for param in params:
        rows = param._orig_size[param.fsdp_placement.dim]
        sizes.append((rows, param._orig_size.numel() // max(rows, 1)))
    return ShardedUnit(tuple(sizes))


def padding(state: RecordingState) -> Iterator[Note]:
    """What FSDP2 sends for nothing: a first dimension that the ranks do not divide is padded."""
    for param in state.sharded:
        ranks = getattr(param.mesh_info, "shard_mesh_size", 1)
        padded = param.padded_sharded_param_size.numel() * ranks
        own = param._orig_size.numel()
        if padded > own:
            item = (param.param_dtype or param.orig_dtype).itemsize
            module = state.places.name(param._module_info.module)
            name = f"{param._param_fqn or param._module_info.param_name} {tuple(param._orig_size)}"
            sent, useful = float(padded * item), float(own * item)
            yield Note(NoteKind.PADDED, name, SourceLocation(module), bytes=sent, useful_bytes=useful)


@PARALLEL.wraps(
    "torch.distributed.tensor._sharding_prop.ShardingPropagator._propagate_tensor_meta_non_cached"
)
def _propagate(state: RecordingState, original: Any, *args: Any, **kwargs: Any) -> Any:
    """DTensor works out shapes by running operations on whole tensors: no work of a rank."""
    with state.tape.paused():
        return original(*args, **kwargs)


def _foreach(_: RecordingState, original: Any, name: str, first: Any, *args: Any, **kwargs: Any) -> Any:
    """Lists of equally sharded tensors are handled as lists of local ones.

    DTensor works out for every list of parameters again how a sum or product of them is sharded,
    which takes longer than all else that a recording does. Element by element there is nothing to
    work out.
    """
    lists = [first, *(value for value in args if isinstance(value, (list, tuple)))]
    lists = [values for values in lists if isinstance(values[0], torch.Tensor)]
    are_alike = all(
        all(isinstance(tensor, DTensor) for tensor in tensors)
        and len({tensor.placements for tensor in tensors}) == 1
        for tensors in zip(*lists, strict=True)
    )
    if not are_alike:
        return original(first, *args, **kwargs)
    made = original(_local(first), *(_local(value) for value in args), **kwargs)
    if name.endswith("_"):
        return first
    return [DTensor(part, like._spec, requires_grad=False) for part, like in zip(made, first, strict=True)]


def _local(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_local(one) for one in value]
    return value._local_tensor if isinstance(value, DTensor) else value


PARALLEL.replaces({f"torch._foreach_{name}": wrapper(_foreach, name) for name in _ELEMENTWISE.split()})


# Pipeline stages vote, and send each other descriptions of tensors, before the first step; the
# values never arrive here. What a stage hands on is kept for the recordings of later ones.
@PARALLEL.wraps(f"{_STAGE}.PipelineStage._prepare_forward_infra")
def _prepare_forward(state: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    state.pipeline = tuple(dist.get_process_group_ranks(self.group))
    return original(self, *args, **kwargs)


@PARALLEL.wraps(f"{_STAGE}.PipelineStage._shape_inference")
def _shape_inference(state: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Before there were votes, stages sent each other tensors on the device `meta`."""

    def send(metas: list[Any], **_: object) -> None:
        with without_modes():
            _hand_on(state, self, tuple(torch.empty_like(one, device="meta") for one in metas[0]))

    def receive(metas: list[Any], **_: object) -> None:
        metas[:] = [_from_before(state, self, self.stage_index - 1)]

    with replaced(dist, send_object_list=send, recv_object_list=receive):
        return original(self, *args, **kwargs)


@PARALLEL.wraps(f"{_SCHEDULE}._warmup_p2p", f"{_SCHEDULE}._initialize_pipeline_distributed_state")
def _warmup(_: RecordingState, __: Any, ___: Any, stages: list[Any], *____: object) -> None:
    for one in stages:
        given = getattr(one, "_user_meta", None)
        is_static = given is not None and bool(given.inputs) and bool(given.outputs)
        modes = stage.InferenceMode
        one._inference_mode = modes.STATIC if is_static else modes.DYNAMIC


@PARALLEL.wraps(f"{_STAGE}.PipelineStage._send_meta")
def _send_meta(state: RecordingState, _: Any, self: Any, meta: Any, dst_stage: int) -> None:
    if dst_stage > self.stage_index:
        _hand_on(state, self, meta.forward_metas)


@PARALLEL.wraps(f"{_STAGE}.PipelineStage._recv_meta")
def _recv_meta(state: RecordingState, _: Any, self: Any, src_stage: int) -> Any:
    if src_stage > self.stage_index:
        return stage._StageBackwardMeta(backward_metas=stage._derive_grad_metas(self._stage_meta.outputs))
    return stage._StageForwardMeta(forward_metas=_from_before(state, self, src_stage))


def _hand_on(state: RecordingState, sender: Any, metas: Any) -> None:
    state.handed_on[sender.stage_index] = metas
    state.sent.add(sender.stage_index)


def _from_before(state: RecordingState, receiver: Any, src_stage: int) -> Any:
    """What an earlier stage hands on, as far as that is known."""
    known = [index for index in state.handed_on if index <= src_stage]
    if not known:
        raise InputError.of(
            f"pipeline stage {receiver.stage_index} receives what only recordings of earlier "
            f"stages know: --ranks {','.join(map(str, state.pipeline))}"
        )
    state.received[src_stage] = state.handed_on[max(known)]
    return state.received[src_stage]


@PARALLEL.wraps(
    *(
        f"{_STAGE}._PipelineStageBase.{name}"
        for name in ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")
    )
)
def _one_chunk(state: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls belong to the micro batch that is the first argument."""
    chunk = kwargs.get("fwd_chunk_id", kwargs.get("bwd_chunk_id", args[0] if args else 0))
    before = state.places.chunk
    state.places.chunk = chunk
    try:
        with nullcontext() if self.is_first else state.batch.not_counted():
            return original(self, *args, **kwargs)
    finally:
        state.places.chunk = before


def _messages(
    state: RecordingState,
    original: Any,
    phase: StepPhase,
    self: Any,
    chunk: int,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Messages that are made now and sent later belong to a micro batch and a pass."""
    made = original(self, chunk, *args, **kwargs)
    for message in made:
        state.mode.labels[state.storages.number(local(message.tensor))] = chunk, phase
    return made


for _way, _phase in (("fwd", StepPhase.FORWARD), ("bwd", StepPhase.BACKWARD)):
    PARALLEL.replaces(
        {
            f"{_STAGE}._PipelineStageBase.get_{_way}_{what}_ops": wrapper(_messages, _phase)
            for what in ("send", "recv")
        }
    )


class _Exchanged(torch.autograd.Function):  # type: ignore[misc]
    """Leaves its input as it is and sends what statistics need.

    Forward, all ranks gather mean, variance and count of each channel; backward, they add up two
    sums of each.
    """

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, channels: int, group: Any) -> torch.Tensor:
        ctx.channels, ctx.group = channels, group
        mine = torch.empty(2 * channels + 1, device=tensor.device)
        every = torch.empty(dist.get_world_size(group), 2 * channels + 1, device=tensor.device)
        gather = dist.all_gather_single if has(_GATHER) else dist.all_gather_into_tensor
        gather(every, mine, group=group)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        sums = torch.empty(2 * ctx.channels, device=gradients[0].device)
        dist.all_reduce(sums, group=ctx.group)
        return gradients[0], None, None


@PARALLEL.wraps("torch.nn.SyncBatchNorm.forward")
def _batch_norm(_: RecordingState, __: Any, self: Any, image: torch.Tensor) -> Any:
    """Batch norms that share their statistics run on CUDA only."""
    if self.training:
        image = _Exchanged.apply(image, image.shape[1], self.process_group)
    return torch.nn.modules.batchnorm._BatchNorm.forward(self, image)


PARALLEL.replaces(
    {f"{_DDP}.DistributedDataParallel._passing_sync_batchnorm_handle": answering(lambda _: None)}
)
