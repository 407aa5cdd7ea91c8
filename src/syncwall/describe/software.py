"""The software of a run and its framework, as far as they change its speed.

What a framework does differs by its release, so several fields are tables: month from which on,
value.

What is left open follows from the framework and its date.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BeforeValidator, Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import (
    MOST,
    OPEN,
    CatalogueEntry,
    Delay,
    Description,
    NotNegativeNumber,
    Open,
    Positive,
    PositiveNumber,
    Provenance,
    SourcedNumber,
    is_open,
)
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Recompute, Schedule, Shard
from syncwall.describe.switches import MasterWeights, NarrowActivations
from syncwall.problems import InputError
from syncwall.units import Dimension

Month = Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
AttentionKernel = Literal["flash-3", "flash-2", "flash-1", "unfused"]
Kernels = Literal["fused", "eager"]
UsualKernels = Literal["fused", "eager", "mixed"]
"""Mixed: nobody knows; traffic and host times are half-way between the other two."""
ExpertKernels = Literal["grouped", "loop"]
Graphs = Literal["none", "router", "attention", "full"]
Value = TypeVar("Value")
Offer = TypeVar("Offer", Shard, Recompute)

_NO_TIME = SourcedNumber(0.0, Dimension.SECONDS, Provenance())


def at(table: Mapping[Month, Value], month: Month | None) -> Value:
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
    per_split_operation_s: Delay = Field(_NO_TIME, alias="per_split_operation")
    """More for each operation on tensors that are split over tensor-parallel ranks and know it
    (PyTorch's DTensor), without compilation."""
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
    kernels: UsualKernels = "fused"
    """What its element-wise kernels are if a run does not state it."""
    expert_kernels: dict[Month, ExpertKernels] = Field(
        default_factory=lambda: dict[Month, ExpertKernels]({"2000-01": "grouped"})
    )
    """Experts as one group of multiplications, or one after the other in a loop of the host."""
    graphs: dict[Month, Graphs] = Field(default_factory=lambda: dict[Month, Graphs]({"2000-01": "none"}))
    """CUDA graphs that its runs use; see `Software.graphs`."""
    fused_optimizer: bool = True
    """See `Software.fused_optimizer`."""
    untuned: dict[str, Any] = Field(default_factory=dict)
    """Fields of a layout, or `kernels`, that tuned runs set and the framework's defaults do not."""
    logs_tokens_per_gpu: bool = False
    """The speed in its log is tokens a second of one GPU, without a unit (torchtitan's tps)."""
    logs_square_attention: bool = False
    """FLOP/s in its log count all of attention's square, not the half below the diagonal."""
    rewrites: tuple[str, ...] = ()
    """Axes of a layout for which its users have to rewrite their model."""
    meanings: dict[str, Any] = Field(default_factory=dict)
    """Keys and values of a layout that its users call otherwise: {async_tp: overlap_tp}, {recompute:
    {selective: operations}}."""
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
    efficiency: dict[str, dict[Month, Annotated[float, Field(gt=0, le=1.2)]]] = Field(default_factory=dict)
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
    offers_overlap_tp: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """It can do so where its runs usually do not (torchtitan's async TP)."""
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
    reshards_in_pipeline: bool = False
    """Its FSDP gives weights back after every pass of a micro batch in a pipeline too, and gathers
    them again; else it keeps them until the step ends."""
    fsdp_copies: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its FSDP copies each parameter out of the buffer that was gathered, and each gradient into
    the one that is reduced, and pads the rows of each to a multiple of the ranks."""
    kept_gathered_inputs: NotNegativeNumber = 0.0
    """All-gathered inputs that each layer keeps until its backward pass."""
    fused_loss: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its loss usually needs no 32-bit copy of the logits."""
    microbatches_as_stages: bool = False
    """Where nobody says, a batch is cut into as many micro batches as the pipeline has stages."""
    lists_stages: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Stages may be listed layer by layer, so that layers need not divide evenly."""
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
    shard: Shard | None = None
    """What its runs share out where several are equally fast; None: as much as possible."""
    recomputes: tuple[Recompute, ...] = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)
    """What it lets the backward pass compute again."""
    since: dict[str, Month] = Field(default_factory=dict)
    """Month of what `shards` and `recomputes` name and it did not always have."""
    partial_shards: tuple[Shard, ...] = (Shard.ZERO1, Shard.ZERO2, Shard.FSDP)
    """What some of the data-parallel ranks may share, so that there are several copies (HSDP)."""
    recomputes_some_layers: bool = False
    """It can recompute some layers of a stage only."""
    recomputes_modules: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """It can recompute modules of a layer other than attention; see `recompute_modules`."""
    cp_kinds: tuple[ContextKind, ...] = tuple(ContextKind)
    """How it lets ranks that share a sequence exchange keys and values, the usual way first."""
    sp: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Tensor parallelism comes with sequence parallelism."""
    tp_needs_sp: bool = False
    """It has no tensor parallelism without sequence parallelism."""
    experts_need_sp: bool = False
    """The same for models with experts only."""
    needs: dict[str, str] = Field(default_factory=dict)
    """Switches of a layout that it allows only together with another switch."""
    checks: Literal["megatron-core", "torchtitan", "accelerate", "deepspeed"] | None = None
    """Whose checks its settings pass when it starts (`describe.rules.CHECKS`)."""
    shards_hold_cp: bool = False
    """Ranks that share a sequence always share a copy of the state too: with cp there is neither
    DDP nor a copy for fewer ranks."""
    dispatchers: dict[Month, tuple[Dispatcher, ...]] = Field(
        default_factory=lambda: dict[Month, tuple[Dispatcher, ...]]({"2000-01": (Dispatcher.ALL_TO_ALL,)})
    )
    """How it lets experts exchange tokens, the usual way first."""
    overlap_ep: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """Its runs exchange the tokens of one micro batch beside the computation of another."""
    offers_overlap_ep: dict[Month, bool] = Field(default_factory=lambda: {"2000-01": False})
    """It can do so."""

    def available(self, values: Iterable[Offer], date: Month | None) -> list[Offer]:
        """Those of `shards` or `recomputes` that it has at a date."""
        return [one for one in values if date is None or self.since.get(one.text, date) <= date]

    def efficiency_on(self, architecture: str, date: Month | None) -> float:
        """Of devices of an `architecture`, or of its family (ampere-ga102: ampere), at a date."""
        table, family = self.efficiency, architecture.split("-", maxsplit=1)[0]
        known = table.get(architecture) or table.get(family) or next(reversed(table.values()), None)
        return 1.0 if known is None else at(known, date)


OVERLAPPING: Final = (Schedule.DUALPIPE, Schedule.DUALPIPE_V)
"""Schedules that were made to exchange tokens beside another micro batch."""
USUAL_FRAMEWORK: Final = "megatron-core"
"""What a run is taken to use if nobody says: most published runs of many GPUs do."""
_SCALINGS: Final = {
    "tensorwise": "tensor",
    "delayed": "tensor",
    "current": "tensor",
    "rowwise": "row",
    "blockwise": "block",
}
"""Other words for the same, of Transformer Engine, torchao and Megatron-LM."""
_MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")


def _scaling(value: Any) -> Any:
    return _SCALINGS.get(value, value) if isinstance(value, str) else value


class Software(Description):
    """Framework, its date, and the kernels that run."""

    framework: Open[str] = OPEN
    """Training framework, by catalogue name (`syncwall show frameworks`); megatron-core if not
    given."""
    date: Month | None = None
    """Month of its release, such as 2025-04; the newest if not given."""
    attention: AttentionKernel | None = None
    """Attention kernel (flash-3 also stands for cuDNN, flash-1 for Triton's); the framework's of
    its date if not given."""
    kernels: Kernels | None = None
    """Element-wise work fused (torch.compile, Transformer Engine) or one by one (eager); the
    framework's if not given."""
    expert_kernels: ExpertKernels | None = None
    """Experts as one group of multiplications, or in a loop that reads the tokens of each expert
    before it issues it (Hugging Face until 2025); the framework's of its date if not given."""
    graphs: Graphs | None = None
    """CUDA graphs, so that the host issues less: of the router and what it prepares, of attention
    too, or of full iterations; the framework's of its date if not given."""
    fp8_scaling: Annotated[Literal["tensor", "block", "row"], BeforeValidator(_scaling)] = "tensor"
    """One scale for a tensor (delayed or current scaling), for each block of 128 (DeepSeek-V3), or
    for each row and, for its other use, each column. Scales of mxfp8 and nvfp4 are part of the
    format."""

    fused_optimizer: bool | None = None
    """One kernel updates all weights; false where each operation of the update is one (PyTorch's
    default for lists of tensors, `foreach`); the framework's if not given."""
    launch_blocking: bool = False
    """CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel before it issues the next one."""

    @field_validator("date", mode="before")
    @classmethod
    def _is_a_month(cls, value: Any) -> Any:
        if value is None or (isinstance(value, str) and _MONTH.fullmatch(value)):
            return value
        message = f'"{value}" is not a month: write for example "2025-04"'
        raise PydanticCustomError("syncwall", "{message}", {"message": message})

    @field_validator("framework")
    @classmethod
    def _is_known(cls, name: Any) -> Any:
        if name is None:
            return name
        try:
            return catalogue.find(CatalogueKind.FRAMEWORK, name).stem
        except InputError as error:
            raise PydanticCustomError("syncwall", "{message}", {"message": str(error)}) from None


def switches(
    family: Framework, date: Month | None, shard: Shard, software: Software | None = None
) -> dict[str, Any]:
    """Fields of a layout that follow from the framework and its date, unless a run states them.

    `software` may name other kernels than the framework's.
    """
    found: dict[str, Any] = {
        name: at(getattr(family, name), date)
        for name in (
            "overlap_gradients",
            "overlap_parameters",
            "overlap_tp",
            "overlap_pp",
            "balanced_stages",
            "async_tp",
            "overlap_ep",
            "recompute_stops_early",
            "dropout",
            "fused_loss",
            "fsdp_copies",
        )
    }
    found |= {
        name: getattr(family, name)
        for name in (
            "tp_exposed_share",
            "kept_gathered_inputs",
            "separate_gradients",
            "master_weights",
            "narrow_activations",
        )
    }
    found["dispatcher"] = at(family.dispatchers, date)[0]
    stated = software or Software()
    kernel = at(family.attention, date)
    found["kept_attention_scores"] = (stated.attention or kernel) == "unfused"
    for name in ("fused_norms", "fused_gate"):
        found[name] = stated.kernels == "fused" if stated.kernels else getattr(family, name)
    if family.kernels == "mixed" and stated.kernels:
        found["fused_loss"] = stated.kernels == "fused"
    if shard == Shard.DDP:
        return found
    found["overlap_gradients"] = found["overlap_gradients"] and family.overlap_sharded_gradients
    return found | {"gradient_dtype": family.gradient_dtype}


def with_switches(
    layout: Layout,
    family: Framework,
    date: Month | None,
    software: Software | None = None,
    *,
    further_tokens: int = 0,
) -> Layout:
    """`layout`, whose sharding is known, with the framework's choice where it states none.

    `further_tokens`: how many the model predicts beside the next one (MTP).
    """
    usual = switches(family, date, layout.shard, software)
    usual["balanced_stages"] |= cut_by_cost(layout.schedule, further_tokens=further_tokens > 0)
    usual["overlap_ep"] |= layout.pp > 1 and layout.schedule in OVERLAPPING
    usual["sp"] = layout.tp > 1 and at(family.sp, date)
    update = {name: value for name, value in usual.items() if is_open(layout, name)}
    if layout.precision is Dtype.FP16:
        update.pop("gradient_dtype", None)
    if layout.shard == Shard.FSDP:
        update |= resharding(layout, family)
    formats = kept_formats(layout.model_copy(update=update), family)
    update |= {name: value for name, value in formats.items() if is_open(layout, name)}
    for switch, other in family.needs.items():
        if update.get(switch) and not update.get(other, getattr(layout, other)):
            update[switch] = False
    if layout.ep == 1 or not layout.dropless:
        update.pop("dispatcher", None)  # nothing is exchanged, or the same number by each rank
    if layout.ep == 1 or not may_overlap_ep(family, date, layout.model_copy(update=update), further_tokens):
        update.pop("overlap_ep", None)
    return layout.model_copy(update=update)


_PLACED: Final = ("shard", "tp", "pp", "ep", "cp", "precision")


def usual_switches(layout: Layout, family: Framework, software: Software) -> Layout:
    """A layout of the same ranks in which all else is as the framework does it."""
    bare = Layout(**{name: getattr(layout, name) for name in _PLACED})
    return with_switches(bare, family, software.date, software).plain()


def may_overlap_ep(family: Framework, date: Month | None, layout: Any, further_tokens: int = 0) -> Any:
    """True where `family` can exchange tokens beside the computation of another micro batch.

    That must not wait for recomputation, unless the schedule is made for it. Megatron-Core asks for
    virtual stages in a pipeline, and for a pipeline and no more than one of the `further_tokens`
    that a model predicts.
    """
    made = (layout.schedule == Schedule.DUALPIPE) | (layout.schedule == Schedule.DUALPIPE_V)
    free = ((layout.recompute != Recompute.FULL) | made) & at(family.offers_overlap_ep, date)
    if family.checks != "megatron-core":
        return free
    piped, chunked = layout.pp > 1, layout.virtual_stages is not None and layout.virtual_stages > 1
    free = free & (piped <= (chunked | made)) & (layout.dispatcher != Dispatcher.ALL_GATHER)
    return free & (further_tokens < 2) & ((further_tokens == 0) | piped) & (layout.precision != Dtype.FP32)


def resharding(layout: Layout, family: Framework) -> dict[str, Any]:
    """That weights are gathered for every micro batch of a pipeline, if the framework does so."""
    is_silent = layout.reshard_after_forward is None and layout.pp > 1
    return {"reshard_after_forward": True} if family.reshards_in_pipeline and is_silent else {}


def cut_by_cost(schedule: Schedule | None, *, further_tokens: bool) -> bool:
    """True if stages are dealt out by what they cost, whatever the framework.

    DualPipe puts both ends on one rank to even them out, and nobody puts a prediction layer and two
    heads behind a full share of layers: Megatron's own recipes leave the last stage next to none.
    """
    return further_tokens or schedule == Schedule.DUALPIPE


def kept_formats(layout: Layout, family: Framework) -> dict[str, Dtype]:
    """Formats of kept gradients and moments that follow from the others of `layout`.

    Pure 16-bit training has all in 16 bits; else moments are fp32, and gradients are kept as they
    are reduced where the framework has no format of its own.
    """
    if layout.master_weights == MasterWeights.NONE:
        pure = Dtype.FP16 if layout.precision is Dtype.FP16 else Dtype.BF16
        return {"kept_gradient_dtype": pure, "moment_dtype": pure}
    kept = family.kept_gradient_dtype or layout.gradient_dtype or family.gradient_dtype
    return {"kept_gradient_dtype": kept, "moment_dtype": Dtype.FP32}
