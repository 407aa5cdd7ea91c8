"""A training framework, as far as it changes the speed of a step.

Holds `Framework` with its parts `HostWork` and `Stalls`, and `at`, which reads a table of dated
values. What a framework does differs by its release, so several fields are tables: month from which
on, value.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints

from syncwall.describe.base import Description, Entry, Positive, Seconds
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Recompute, Schedule, Shard
from syncwall.describe.provenance import Figure, Provenance
from syncwall.units import Dimension

Month = Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
AttentionKernel = Literal["flash-3", "flash-2", "flash-1", "unfused"]
Kernels = Literal["fused", "eager"]
Value = TypeVar("Value")

_NO_TIME = Figure(0.0, Dimension.SECONDS, Provenance())


def at(table: dict[Month, Value], month: Month | None) -> Value:
    """The value of `table` in `month`: that of the latest entry not after it; None is today."""
    months = sorted(table)
    past = [since for since in months if month is None or since <= month]
    return table[past[-1] if past else months[0]]


class HostWork(Description):
    """Time of the process that issues kernels; it counts where the device would be quicker."""

    per_operation_s: Seconds = Field(alias="per_operation")
    """To issue one operation of `work` (a few kernels)."""
    per_tensor_rank_s: Seconds = Field(_NO_TIME, alias="per_tensor_rank")
    """More of that for every tensor-parallel rank, as ranks meet in each layer."""
    pipelined_per_tensor_rank_s: Seconds = Field(_NO_TIME, alias="pipelined_per_tensor_rank")
    """The same where a pipeline crosses nodes and receives are pending."""
    pipelined_per_tensor_node_s: Seconds = Field(_NO_TIME, alias="pipelined_per_tensor_node")
    """More of that for every further node that the tensor-parallel ranks stand in."""
    per_wait_s: Seconds = Field(_NO_TIME, alias="per_wait")
    """Lost when it must read a number from the device, such as the tokens of each expert."""
    per_step_s: Seconds = Field(_NO_TIME, alias="per_step")
    """Once in a step."""


class Stalls(Description):
    """How often runs take much longer than the same layout elsewhere, and how much longer."""

    half_at_gpus: Annotated[float, Field(gt=0)]
    """GPUs at which every second run over several nodes stalls."""
    per_doubling: Annotated[float, Field(ge=0)]
    """What twice the GPUs add to the logarithm of the odds."""
    slowdown: Annotated[float, Field(ge=1)]
    """Time of a run that stalls over that of one that does not."""


class Framework(Entry):
    """One family of training software."""

    attention: dict[Month, AttentionKernel]
    kernels: Kernels = "fused"
    traffic: Annotated[float, Field(gt=0)]
    """Memory traffic of its element-wise kernels over that of perfectly fused ones."""
    accumulation_bytes: Annotated[float, Field(ge=0)] = 0.0
    """Memory traffic to add a micro batch's gradients to the others, for one parameter."""
    efficiency: Annotated[float, Field(gt=0, le=1.2)] = 1.0
    """Speed of its matrix multiplications over that of the device's usual library."""
    host: HostWork
    overlap_gradients: dict[Month, bool]
    """Gradients are reduced beside the backward pass."""
    overlap_sharded_gradients: bool = True
    """The same where ranks keep only a part of them; else they are reduced after it."""
    overlap_parameters: dict[Month, bool]
    """Weights are gathered beside computation."""
    overlap_tp: dict[Month, bool]
    """Tensor-parallel communication runs beside its matrix multiplications."""
    async_tp: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Tensor-parallel input gradients are summed beside the weight gradient."""
    overlap_pp: dict[Month, bool]
    """Pipeline transfers run beside computation."""
    gradient_dtype: Dtype = Dtype.FP32
    """Format in which gradients are reduced, where the layout's precision is not fp16."""
    vocab_multiple: Positive = 1
    """Rows of the embedding are padded to a multiple of this."""
    recompute: Recompute | None = None
    """What is usually recomputed where nobody says; None if as little as memory allows."""
    tp_left: Annotated[float, Field(gt=0, le=1)] = 0.3
    """Share of tensor-parallel communication that stays exposed where it is overlapped."""
    whole_inputs: Annotated[float, Field(ge=0)] = 0.0
    """Gathered activations that each layer keeps whole until its backward pass."""
    fused_loss: bool = False
    """Its loss usually needs no 32-bit copy of the logits."""
    microbatches_as_stages: bool = False
    """Where nobody says, a batch is cut into as many micro batches as the pipeline has stages."""
    virtual_stages: Positive | None = None
    """Chunks a rank of an interleaved schedule has where nobody says; None if as many as help."""
    stalls: Stalls | None = None
    """Of runs over several nodes without a pipeline; None if none were seen."""
    pipeline_stalls: Stalls | None = None
    """Of those with one."""
    balanced_stages: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Pipeline stages are cut by what their layers cost, the head included."""
    schedules: tuple[Schedule, ...] = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED)
    """Pipeline schedules that it offers."""
    shards: tuple[Shard, ...] = (Shard.DDP, Shard.ZERO1, Shard.ZERO2, Shard.FSDP)
    """What it lets data-parallel ranks share out."""
    recomputes: tuple[Recompute, ...] = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
    """What it lets the backward pass compute again."""
    cp_kinds: tuple[ContextKind, ...] = tuple(ContextKind)
    """How it lets ranks that share a sequence exchange keys and values, the usual way first."""
    tp_needs_sp: bool = False
    """It has no tensor parallelism without sequence parallelism."""
    experts_need_sp: bool = False
    """The same for models with experts only."""
    needs: dict[str, str] = Field(default_factory=dict)
    """Switches of a layout that it allows only together with another switch."""
    shards_hold_cp: bool = False
    """Ranks that share a sequence always share a copy of the state too: with cp there is neither
    DDP nor a copy for fewer ranks."""
    merged_ep: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """It offers an exchange in which a token crosses the network once for each domain (DeepEP)."""
    overlap_ep: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """It offers to exchange the tokens of one micro batch beside the computation of another."""
