"""How a training step is spread over GPUs: every parallel dimension, the batch, and the switches.

Holds `Layout` and its options `Shard`, `Schedule`, `ContextKind`, `Dispatcher` and `Recompute`;
those of what a rank keeps are in `keeping.py`, of FSDP in `fsdp.py`, of the host in `offload.py`.
`Layout.arrays` makes one that is a million of them at once: every derived value is plain arithmetic
that broadcasts.

What nobody stated is open: None, which equality and hashing see. `answer.settled` chooses a value
for it; `Layout.plain` takes the plainest one.
"""

from functools import cache
from math import ceil
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, WithJsonSchema, field_validator

from syncwall.describe.base import (
    MOST_IMBALANCE,
    OPEN,
    Bytes,
    NotNegative,
    Open,
    Positive,
    Provenance,
    Sequences,
    SourcedNumber,
    Trust,
    is_open,
    parts_of,
)
from syncwall.describe.choice import Choice, Dtype
from syncwall.describe.switches import (
    Freezing,
    FsdpSettings,
    LoraSettings,
    MasterWeights,
    NarrowActivations,
    OffloadSettings,
    Optimizer,
    RecomputeModule,
    WideLayers,
)
from syncwall.units import Dimension

_PYTORCH_BUCKET = SourcedNumber(
    25 * 2.0**20, Dimension.BYTES, Provenance(Trust.DATASHEET, "PyTorch's default for DDP")
)
Axis = Literal["tp", "cp", "ep", "dp", "pp"]


class Shard(Choice):
    """What data-parallel ranks keep only a part of; each includes the ones before."""

    DDP = 0
    """Nothing: every rank holds all weights, gradients and optimizer states."""
    ZERO1 = 1
    """Optimizer states."""
    ZERO2 = 2
    """Gradients."""
    FSDP = 3
    """Weights, gathered layer by layer when they are used."""
    ZERO3 = 3
    """DeepSpeed's word for the same."""


class Schedule(Choice):
    """Order in which a pipeline stage works through micro batches."""

    GPIPE = 0
    ONE_F_ONE_B = 1
    """One forward, one backward."""
    INTERLEAVED = 2
    """1F1B with several virtual stages a rank."""
    ZERO_BUBBLE = 3
    """Weight gradients fill the bubble (ZB-H1)."""
    DUALPIPE = 4
    """DeepSeek's schedule from both ends."""
    ZERO_BUBBLE_2P = 5
    """Weight gradients fill all of it, with twice the activations (ZB-2p)."""
    ZERO_BUBBLE_V = 6
    """ZB-V: two virtual stages a rank, the second in reverse; weight gradients fill the gaps."""
    DUALPIPE_V = 7
    """DualPipe with two virtual stages a rank, in the shape of a V, without a second copy."""


class ContextKind(Choice):
    """How ranks that share a sequence exchange keys and values."""

    RING = 0
    """Passed on block by block beside the computation."""
    ALL_GATHER = 1
    """Gathered before the computation."""
    ULYSSES = 2
    """Heads against sequence by all-to-all."""


class Dispatcher(Choice):
    """How tokens get to the ranks of their experts and back, the plainest first."""

    ALL_GATHER = 0
    """Every rank gets all tokens of the group (Megatron's `allgather`)."""
    ALL_TO_ALL = 1
    """A copy of a token for each of its experts."""
    DEEPEP = 2
    """One copy for each rank that has an expert of a token, across the network one for each
    scale-up domain."""
    HYBRIDEP = 3
    """The same by NVIDIA's kernels, which also reach over racks of NVLink."""


class Recompute(Choice):
    """Activations that are computed again in the backward pass."""

    NONE = 0
    SELECTIVE = 1
    """The modules that `recompute_modules` names (Megatron); attention alone if it names none."""
    OPERATIONS = 2
    """Every second matrix multiplication and most of the rest, but not attention (torchtitan)."""
    FULL = 3
    """Whole layers; only their inputs are kept."""


ATTENTION_ALONE: Final[tuple[RecomputeModule, ...]] = ("core_attn",)
"""What selective recomputation was before modules could be named."""


class Layout(LoraSettings, Freezing, OffloadSettings, WideLayers, FsdpSettings):
    """The parallel layout of one training step."""

    dp: Open[Positive] = OPEN
    """Data-parallel replicas; what is left of the GPUs if not given."""
    shard: Open[Shard] = OPEN
    """What data-parallel ranks keep only a part of; each kind includes those before it."""
    shard_degree: Open[Positive] = OPEN
    """Ranks that share one copy (HSDP if fewer than dp x cp); all of them if not given."""
    tp: Positive = 1
    """Tensor-parallel ranks."""
    sp: Annotated[Open[bool], WithJsonSchema({"type": "boolean"})] = OPEN
    """Megatron's sequence parallelism: norms and dropout are split along tp too; as the framework
    does if not given."""
    pp: Positive = 1
    """Pipeline stages."""
    virtual_stages: Open[Positive] = OPEN
    """Virtual stages of each pipeline rank (interleaved schedules)."""
    schedule: Open[Schedule] = OPEN
    """Order in which a pipeline stage works through micro batches."""
    balanced_stages: Open[bool] = OPEN
    """Layers are dealt so that stages take equally long: fewer beside the output layer."""
    first_stage_layers: NotNegative | None = None
    """Layers of the first pipeline rank (Megatron's decoder_first_pipeline_num_layers); as many as
    those after it have if not given."""
    last_stage_layers: NotNegative | None = None
    """Layers of the last pipeline rank, before the output layer
    (decoder_last_pipeline_num_layers); as `balanced_stages` says if not given."""
    cp: Positive = 1
    """Context-parallel ranks, which share each sequence."""
    cp_kind: ContextKind = ContextKind.RING
    """How context-parallel ranks exchange keys and values."""
    ep: Positive = 1
    """Expert-parallel ranks, taken from dp, cp and tp."""
    etp: Positive = 1
    """Tensor-parallel ranks inside an expert."""
    expert_imbalance: Annotated[float, Field(ge=1, le=MOST_IMBALANCE)] = 1.0
    """Tokens of the fullest expert-parallel rank over the average; 1 if the router is balanced."""
    dropless: bool = True
    """Experts take all tokens sent to them; else a fixed number: no shape depends on data."""
    capacity_factor: Annotated[float, Field(gt=0, le=MOST_IMBALANCE)] = 1.0
    """Tokens that an expert takes if not `dropless`, over the average; fewer are padded to it."""
    order: tuple[Axis, ...] = ("tp", "cp", "ep", "dp", "pp")
    """Rank order, the axis of neighbouring ranks first."""
    micro_batch: Open[Positive] = OPEN
    """Sequences of one replica in one forward pass."""
    global_batch: Open[Sequences] = OPEN
    """Sequences of one optimizer step over all replicas; one micro batch each if that is given, else
    as many as give each GPU 8,192 tokens."""
    document_tokens: Positive | None = Field(None, alias="document")
    """Length of documents in packed sequences that the mask keeps apart, weighted by length."""
    precision: Open[Dtype] = OPEN
    """Format of the matrix multiplications."""
    gradient_dtype: Open[Dtype] = OPEN
    """Format in which gradients are reduced between replicas."""
    kept_gradient_dtype: Open[Dtype] = OPEN
    """Format in which gradients are added up and kept (Megatron's main_grad)."""
    separate_gradients: Open[bool] = OPEN
    """16-bit gradients of all weights exist beside the ones that are added up."""
    optimizer: Optimizer = Optimizer.ADAM
    """What updates the weights, as far as its states need memory."""
    moment_dtype: Open[Dtype] = OPEN
    """Format of the optimizer's moments."""
    master_weights: Open[MasterWeights] = OPEN
    """Where the bits of a weight are that 16 do not hold."""
    narrow_weights: bool = False
    """Weights are kept in the format of the multiplications only, once for both directions."""
    bucket_bytes: Bytes = Field(_PYTORCH_BUCKET, alias="bucket")
    """Gradients reduced in one call by DDP."""
    frozen_weights: bool = False
    """Only small adapters are trained (LoRA): weights have no gradients and no optimizer states."""
    fused_loss: Open[bool] = OPEN
    """The loss is computed without a 32-bit copy of the logits."""
    loss_chunks: Positive = 1
    """Parts of a micro batch whose logits and loss are computed one after the other."""
    recompute: Open[Recompute] = OPEN
    """Activations that are computed again in the backward pass."""
    recompute_layers: NotNegative | None = None
    """Layers of a stage to which `recompute` applies; all of them if not given."""
    recompute_stops_early: Open[bool] = OPEN
    """A layer that is computed again stops before its last product, whose result the backward pass
    does not need (torch.utils.checkpoint without reentrance, from PyTorch 2.1 on; XLA)."""
    recompute_modules: tuple[RecomputeModule, ...] = ATTENTION_ALONE
    """With selective recomputation: what is computed again, in Megatron's words."""
    narrow_activations: Open[NarrowActivations] = OPEN
    """Activations that are kept in the 8 or 4 bits of the multiplications."""
    kept_attention_scores: Open[bool] = OPEN
    """Attention is not fused: its scores, sequence x sequence for every head, are kept."""
    fused_norms: Open[bool] = OPEN
    """A norm, or the softmax of unfused attention, is one kernel that keeps input and output."""
    fused_gate: Open[bool] = OPEN
    """A gated activation function is one kernel that keeps its input and output only."""
    dropout: Open[bool] = OPEN
    """Dropout is on, and its masks are kept."""
    kept_gathered_inputs: Open[Annotated[float, Field(ge=0, le=100)]] = OPEN
    """All-gathered inputs that every layer keeps on each tensor-parallel rank until its backward
    pass, which else gathers them again."""
    fsdp_copies: Open[bool] = OPEN
    """FSDP copies each parameter out of the buffer that was gathered, and each gradient into the
    one that is reduced, and pads the rows of each to a multiple of the ranks (PyTorch's FSDP2)."""
    overlap_gradients: Open[bool] = OPEN
    """Gradient reduction runs beside the backward pass."""
    overlap_parameters: Open[bool] = OPEN
    """FSDP gathers the next layer's weights beside the computation of this one."""
    overlap_tp: Open[bool] = OPEN
    """Tensor-parallel communication is cut up and run beside its matrix multiplication."""
    async_tp: Open[bool] = OPEN
    """Tensor-parallel input gradients are summed beside the weight gradient (Megatron)."""
    tp_exposed_share: Open[Annotated[float, Field(gt=0, le=1)]] = OPEN
    """Least share of tensor-parallel communication that stays exposed with `overlap_tp`: 0.4 with
    Transformer Engine, 0.6 with PyTorch's async TP; see docs/explanation/model.md."""
    dispatcher: Open[Dispatcher] = OPEN
    """How tokens are exchanged among expert-parallel ranks."""
    fp8_dispatch: bool = False
    """Tokens are sent to their experts in 8 bits; results and gradients come back in 16."""
    overlap_ep: Open[bool] = OPEN
    """The exchange of one micro batch's tokens runs beside the computation of another."""
    ep_exposed_share: Annotated[float, Field(gt=0, le=1)] = 0.3
    """Share of the token exchange that stays exposed with `overlap_ep`; assumed as for tp."""
    overlap_pp: Open[bool] = OPEN
    """Pipeline transfers run beside computation."""
    outer_every: Positive | None = None
    """DiLoCo: replicas meet only every n-th step; in every step if not given."""

    @field_validator("order")
    @classmethod
    def _has_every_axis(cls, order: tuple[Axis, ...]) -> tuple[Axis, ...]:
        if sorted(order) != sorted(get_args(Axis)):
            raise ValueError("order names each axis once: [tp, cp, ep, dp, pp]")
        return order

    @classmethod
    def arrays(cls, **columns: Any) -> "Layout":
        """Many layouts in one: any field as an array, all arrays broadcasting together.

        Of numbers the smallest and the largest are validated; `describe.rules` says which layouts
        are possible.
        """
        unknown = sorted(set(columns) - set(cls.model_fields))
        if unknown:
            raise TypeError(f"a layout has no {', '.join(unknown)}")
        numbers = {name: column for name, column in columns.items() if _is_number(name)}
        for end in ("min", "max"):
            cls(**{name: _end(column, end) for name, column in numbers.items()})
        return cls.model_construct(**{**PLAIN, **columns})

    def placed(self, gpus: Any, gpu_sequences: float = 0.0) -> "Layout":
        """The same layout on `gpus` GPUs, with dp, shard_degree and global_batch filled in.

        A batch that nobody states is one micro batch a replica, or `gpu_sequences` for each GPU if
        that is open too. What is filled in for it or for `shard_degree` does not count as stated
        (`model_fields_set`); the degree stays open as long as what is sharded does.
        """
        ranks = self.model_ranks
        dp = gpus // ranks + (gpus < ranks) if is_open(self, "dp") else self.dp  # at least 1
        is_whole = is_open(self, "shard_degree") and not is_open(self, "shard")
        update = {"shard_degree": dp * self.cp} if is_whole else {}
        if is_open(self, "global_batch"):
            each = self.micro_batch
            if is_open(self, "micro_batch"):
                each = self.pp * max(ceil(gpu_sequences * ranks / self.pp), 1) if gpu_sequences else 1
            update["global_batch"] = dp * each
        found = self.model_copy(update={"dp": dp, **update})
        found.model_fields_set.difference_update(update)
        return found

    def plain(self) -> "Layout":
        """The same layout with the plainest value that the others allow where one is open."""
        left = [name for name in PLAIN if is_open(self, name)]
        if not left and not is_open(self, "shard_degree"):
            return self
        update = {name: PLAIN[name] for name in left}
        if "schedule" in left and "virtual_stages" not in left and self.virtual_stages > 1:
            update["schedule"] = Schedule.INTERLEAVED
        elif "virtual_stages" in left and self.schedule == Schedule.INTERLEAVED:
            update["virtual_stages"] = 2
        if "shard" in left and None not in (self.dp, self.shard_degree):
            part = self.shard_degree != self._known("dp") * self.cp
            update["shard"] = Shard.ZERO1 if part else PLAIN["shard"]
        if "shard" in left and (self.offload_weights or self.offload_gradients):
            update["shard"] = Shard.FSDP if self.offload_weights else Shard.ZERO2
        if is_open(self, "shard_degree") and self.dp is not None:
            update["shard_degree"] = self.dp * self.cp
        return self.model_copy(update=update)

    def resolved(self, gpus: Any) -> "Layout":
        """`placed` and `plain`: nothing is open any more."""
        return self.placed(gpus).plain()

    @property
    def model_ranks(self) -> Any:
        """GPUs that hold one replica of the model."""
        return self.tp * self.cp * self.pp

    @property
    def gpus(self) -> Any:
        """GPUs of the whole layout, once `dp` is known."""
        return self.model_ranks * self._known("dp")

    @property
    def microbatches(self) -> Any:
        """Micro batches that a replica works through in one step."""
        return self._known("global_batch") // (self.micro_batch * self._known("dp"))

    @property
    def stages_per_rank(self) -> Any:
        """Virtual stages of each pipeline rank; a schedule in the shape of a V has two."""
        folded = (self.schedule == Schedule.ZERO_BUBBLE_V) | (self.schedule == Schedule.DUALPIPE_V)
        return self.virtual_stages + folded * (self.pp > 1)

    @property
    def replicas_of_shards(self) -> Any:
        """Copies of the sharded state (1 unless HSDP)."""
        return self._known("dp") * self.cp // self._known("shard_degree")

    @property
    def expert_dp(self) -> Any:
        """Replicas of one expert."""
        return self.tp * self.cp * self._known("dp") // (self.ep * self.etp)

    def _known(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name} is open: use `layout.resolved(gpus)` first")
        return value


@cache
def _is_number(name: str) -> bool:
    """True for a field of `Layout` that holds a number, not an option."""
    return bool({int, float} & set(parts_of(Layout.model_fields[name].annotation)))


def _end(column: Any, end: Literal["min", "max"]) -> Any:
    """The smallest or largest number of an array; a plain number itself."""
    return getattr(column, end)().item() if getattr(column, "size", 0) else column


PLAIN: Final[dict[str, Any]] = {
    "shard": Shard.DDP,
    "sp": False,
    "virtual_stages": 1,
    "schedule": Schedule.ONE_F_ONE_B,
    "balanced_stages": False,
    "micro_batch": 1,
    "precision": Dtype.BF16,
    "gradient_dtype": Dtype.FP32,
    "kept_gradient_dtype": Dtype.FP32,
    "separate_gradients": False,
    "moment_dtype": Dtype.FP32,
    "master_weights": MasterWeights.COPY,
    "narrow_activations": NarrowActivations.NOTHING,
    "kept_attention_scores": False,
    "fused_norms": True,
    "fused_gate": True,
    "dropout": False,
    "fused_loss": False,
    "recompute": Recompute.NONE,
    "recompute_stops_early": False,
    "fsdp_copies": False,
    "kept_gathered_inputs": 0.0,
    "overlap_gradients": True,
    "overlap_parameters": True,
    "overlap_tp": False,
    "async_tp": False,
    "tp_exposed_share": 0.4,
    "overlap_pp": True,
    "dispatcher": Dispatcher.ALL_TO_ALL,
    "overlap_ep": False,
}
"""The fields that may be open, with the plainest value of each."""
