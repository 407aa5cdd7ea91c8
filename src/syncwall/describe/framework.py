"""A training framework, as far as it changes the speed of a step.

Holds `Framework` with its parts `HostWork` and `Stalls`, and `at`, which reads a table of dated
values. What a framework does differs by its release, so several fields are tables: month from which
on, value.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import Field, StringConstraints

from syncwall.describe.base import (
    CatalogueEntry,
    Delay,
    Description,
    NotNegativeNumber,
    Positive,
    PositiveNumber,
)
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.provenance import Provenance, SourcedNumber
from syncwall.describe.ranges import MOST
from syncwall.describe.state_formats import MasterWeights, NarrowActivations
from syncwall.units import Dimension

Month = Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
AttentionKernel = Literal["flash-3", "flash-2", "flash-1", "unfused"]
Kernels = Literal["fused", "eager"]
ExpertKernels = Literal["grouped", "loop"]
Graphs = Literal["none", "router", "attention", "full"]
Value = TypeVar("Value")

_NO_TIME = SourcedNumber(0.0, Dimension.SECONDS, Provenance())


def at(table: dict[Month, Value], month: Month | None) -> Value:
    """The value of `table` in `month`: that of the latest entry not after it; None is today."""
    months = sorted(table)
    past = [since for since in months if month is None or since <= month]
    return table[past[-1] if past else months[0]]


class HostWork(Description):
    """Time of the process that issues kernels; it counts where the device would be quicker."""

    per_operation_s: Delay = Field(alias="per_operation")
    """To issue one operation of `work` (a few kernels)."""
    per_tensor_rank_s: Delay = Field(_NO_TIME, alias="per_tensor_rank")
    """More of that for every tensor-parallel rank, as ranks meet in each layer."""
    pipelined_per_tensor_rank_s: Delay = Field(_NO_TIME, alias="pipelined_per_tensor_rank")
    """The same where a pipeline crosses nodes and receives are pending."""
    pipelined_per_tensor_node_s: Delay = Field(_NO_TIME, alias="pipelined_per_tensor_node")
    """More of that for every further node that the tensor-parallel ranks stand in."""
    per_wait_s: Delay = Field(_NO_TIME, alias="per_wait")
    """Lost when it must read a number from the device, such as the tokens of each expert."""
    per_expert_s: Delay = Field(_NO_TIME, alias="per_expert")
    """To issue the multiplication of each further expert of a group, where it is one of many
    launches and not part of one kernel for all."""
    per_step_s: Delay = Field(_NO_TIME, alias="per_step")
    """Once in a step."""


class Stalls(Description):
    """How often runs take much longer than the same layout elsewhere, and how much longer."""

    half_at_gpus: PositiveNumber
    """GPUs at which every second run over several nodes stalls."""
    per_doubling: NotNegativeNumber
    """What twice the GPUs add to the logarithm of the odds."""
    slowdown: Annotated[float, Field(ge=1, le=MOST)]
    """Time of a run that stalls over that of one that does not."""


class Framework(CatalogueEntry):
    """One family of training software."""

    attention: dict[Month, AttentionKernel]
    kernels: Kernels = "fused"
    expert_kernels: dict[Month, ExpertKernels] = Field(
        default_factory=lambda: dict[Month, ExpertKernels]({"2000-01": "grouped"})
    )
    """Experts as one group of multiplications, or one after the other in a loop of the host."""
    graphs: dict[Month, Graphs] = Field(
        default_factory=lambda: dict[Month, Graphs]({"2000-01": "none"})
    )
    """CUDA graphs that its runs use; see `Software.graphs`."""
    traffic: PositiveNumber
    """Memory traffic of its element-wise kernels over that of perfectly fused ones."""
    sorting_traffic: dict[Month, PositiveNumber] = Field(default_factory=lambda: {"2000-01": 1.0})
    """Memory traffic to sort tokens by expert over that of one kernel that moves each once."""
    fused_expert_bias: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Biases of experts and clamps of their activation are part of other kernels."""
    cast: PositiveNumber = 1.0
    """Memory traffic of its casts to narrow formats over that of one pass that reads a tensor once:
    1.5 where the largest value is looked for first."""
    accumulation_bytes: NotNegativeNumber = 0.0
    """Memory traffic to add a micro batch's gradients to the others, for one parameter."""
    efficiency: dict[str, dict[Month, Annotated[float, Field(gt=0, le=1.2)]]] = Field(
        default_factory=dict
    )
    """Speed of its matrix multiplications over that of the vendor's own training library (NVIDIA's
    Transformer Engine), by architecture of the device; one that is not named is as the last."""
    fused_accumulation: bool = False
    """Multiplications add weight gradients to a 32-bit buffer, which they read and write."""
    host: HostWork
    ring_rank_s: Delay = Field(_NO_TIME, alias="ring_rank")
    """Added for each rank when sharded weights or gradients of a layer go round a ring: it sends
    them tensor by tensor, and every call passes all ranks."""
    one_rail: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its collectives use only one of the NICs of a node."""
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
    kept_gradient_dtype: Dtype | None = None
    """Format in which gradients are added up and kept; None for the one they are reduced in."""
    separate_gradients: bool = False
    """16-bit gradients of all weights exist beside those that are added up."""
    master_weights: MasterWeights = MasterWeights.COPY
    """Where weights have more than 16 bits."""
    narrow_activations: NarrowActivations = NarrowActivations.NOTHING
    """Activations that runs in 8 or 4 bits keep narrow."""
    fused_norms: bool = True
    """Norms are kernels that keep only what goes in and out."""
    fused_gate: bool = True
    """The same of gated activation functions."""
    dropout: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its models are usually trained with dropout."""
    vocab_multiple: Positive = 1
    """Rows of the embedding are padded to a multiple of this."""
    recompute: Recompute | None = None
    """What is usually recomputed where nobody says; None if as little as memory allows."""
    tp_exposed_share: Annotated[float, Field(gt=0, le=1)] = 0.4
    """Least share of tensor-parallel communication that stays exposed where it is overlapped;
    fitted to 174 runs of dgxc-benchmarking that do so."""
    recompute_stops_early: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """A layer that is computed again stops before its last product."""
    fsdp_copies: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its FSDP copies each parameter out of the buffer that was gathered, and each gradient into
    the one that is reduced, and pads the rows of each to a multiple of the ranks."""
    kept_gathered_inputs: NotNegativeNumber = 0.0
    """All-gathered inputs that each layer keeps until its backward pass."""
    fused_loss: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its loss usually needs no 32-bit copy of the logits."""
    microbatches_as_stages: bool = False
    """Where nobody says, a batch is cut into as many micro batches as the pipeline has stages."""
    virtual_stages: Positive | None = None
    """Virtual stages a rank of an interleaved schedule where nobody says; None: as many as help."""
    stalls: Stalls | None = None
    """Of runs over several nodes without a pipeline; None if none were seen."""
    pipeline_stalls: Stalls | None = None
    """Of those with one."""
    balanced_stages: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Pipeline stages are cut by what their layers cost, the output layer included."""
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
    dispatchers: dict[Month, tuple[Dispatcher, ...]] = Field(
        default_factory=lambda: dict[Month, tuple[Dispatcher, ...]](
            {"2000-01": (Dispatcher.ALL_TO_ALL,)}
        )
    )
    """How it lets experts exchange tokens, the usual way first."""
    overlap_ep: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its runs exchange the tokens of one micro batch beside the computation of another."""
    offers_overlap_ep: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """It can do so."""

    def efficiency_on(self, architecture: str, date: Month | None) -> float:
        """Of devices of an `architecture`, or of its family (ampere-ga102: ampere), at a date."""
        table, family = self.efficiency, architecture.split("-", maxsplit=1)[0]
        known = table.get(architecture) or table.get(family) or next(reversed(table.values()), None)
        return 1.0 if known is None else at(known, date)
