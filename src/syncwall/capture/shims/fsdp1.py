"""FullyShardedDataParallel (FSDP1), recorded as `fully_shard` does the same: a note says so.

Each wrapped module is one unit: its weights are gathered before its forward and backward pass, and its
gradients reduced after. Only copies differ: FSDP1 gathers into one flat parameter that the weights are
views of, without padding each of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    OffloadPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import _Policy, _recursive_wrap

from syncwall.capture.patching import Shims
from syncwall.capture.routing import local
from syncwall.capture.state import RecordingState
from syncwall.problems import InputError
from syncwall.work.program import NoteKind

FSDP1 = Shims()

_RESHARDS: Final = (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD, None)
_ON_NODES: Final = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class _Wrapper(FullyShardedDataParallel):  # type: ignore[misc]
    """What the program holds: around a module that `fully_shard` has sharded."""

    _apply = torch.nn.Module._apply
    apply = torch.nn.Module.apply
    named_buffers = torch.nn.Module.named_buffers
    named_parameters = torch.nn.Module.named_parameters

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        gradients = [local(one.grad) for one in self.parameters() if one.grad is not None]
        norm: torch.Tensor = torch.nn.utils.get_total_norm(gradients, norm_type)
        dist.all_reduce(norm)
        torch._foreach_mul_(gradients, torch.clamp(max_norm / (norm + 1e-6), max=1.0))
        return norm

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self._fsdp_wrapped_module.set_requires_gradient_sync(False)
        yield
        self._fsdp_wrapped_module.set_requires_gradient_sync(True)

    def register_comm_hook(self, *_: object) -> None:
        raise InputError.of("a communication hook of FSDP1 cannot be recorded: take it out")


@FSDP1.wraps("torch.distributed.fsdp.FullyShardedDataParallel.__init__")
def _wrapped(state: RecordingState, original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    given = signature(original).bind_partial(self, *args, **kwargs).arguments
    strategy, policy = given.get("sharding_strategy"), given.get("auto_wrap_policy")
    if strategy is ShardingStrategy.NO_SHARD:
        raise InputError.of("FSDP1 with NO_SHARD cannot be recorded: use DistributedDataParallel")
    torch.nn.Module.__init__(self)
    self.__class__ = _Wrapper
    self._fsdp_wrapped_module = module = given["module"].to("cuda")
    stated = [*(given.get("ignored_modules") or ()), *(given.get("ignored_states") or ())]
    ignored = {part for one in stated if isinstance(one, torch.nn.Module) for part in one.modules()}
    kept = {one for one in stated if isinstance(one, torch.nn.Parameter)}
    kept |= {parameter for one in ignored for parameter in one.parameters()}
    offloads = getattr(given.get("cpu_offload"), "offload_params", False)
    of_units = {
        "mesh": given.get("device_mesh") or _mesh(state, given.get("process_group"), strategy),
        "mp_policy": _precision(given.get("mixed_precision")),
        "offload_policy": CPUOffloadPolicy() if offloads else OffloadPolicy(),
        "ignored_params": kept,
    }
    for one in _units(module, policy, ignored, kept) if policy is not None else ():
        fully_shard(one, reshard_after_forward=strategy in _RESHARDS, **of_units)
    fully_shard(module, reshard_after_forward=False, **of_units)  # FSDP1 keeps the root's weights, too
    state.tape.note(NoteKind.NOT_RECORDED, "copies of FSDP1, which is recorded as fully_shard")


def _mesh(state: RecordingState, group: Any, strategy: ShardingStrategy | None) -> DeviceMesh | None:
    """The ranks that share; None for all of them."""
    if isinstance(group, dist.ProcessGroup):
        return DeviceMesh.from_group(group, "cuda")
    if strategy not in _ON_NODES or state.world_size <= state.ranks_per_node:
        return None
    sizes = state.world_size // state.ranks_per_node, state.ranks_per_node
    return init_device_mesh("cuda", sizes, mesh_dim_names=("replicate", "shard"))


def _precision(given: MixedPrecision | None) -> MixedPrecisionPolicy:
    if given is None:
        return MixedPrecisionPolicy()
    casts = given.cast_forward_inputs or given.cast_root_forward_inputs
    return MixedPrecisionPolicy(given.param_dtype, given.reduce_dtype, cast_forward_inputs=casts)


def _units(root: Any, policy: Any, ignored: set[Any], kept: set[Any]) -> list[torch.nn.Module]:
    """Modules below the root that get a unit of their own, inner ones first."""
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(root, ignored, {})
        return [one for one in reversed(list(root.modules())) if one in chosen and one is not root]
    found: list[torch.nn.Module] = []

    def wrap(module: torch.nn.Module, **_: object) -> torch.nn.Module:
        found.append(module)
        return module

    _recursive_wrap(root, policy, wrap, ignored, kept, only_wrap_children=True)
    return found
