"""Switches of a layout: formats of states, FSDP, offload, adapters, frozen parts, wide layers.

Source: Megatron-LM's `--first-last-layers-bf16`; NVIDIA's recipes for nvfp4 keep some of the layers
so, most at the end.

FSDP's CPU offload (`CPUOffloadPolicy`) is weights, gradients and optimizer together; DeepSpeed's
`offload_optimizer` is optimizer and gradients, its `offload_param` weights.

Sources: ZeRO-Offload (Ren 2021), ZeRO-Infinity (Rajbhandari 2021), PyTorch's `fully_shard` (August
2026), torchao's `CPUOffloadOptimizer`.

A part that is not trained has no weight gradients and no optimizer states; nothing goes backward
below the first part that is. LLaVA-1.5 (Liu 2023, arXiv:2310.03744) trains the projector alone,
then everything but the encoder; Qwen2.5-VL (arXiv:2502.13923, table 2) the encoder alone, then all
of it.

They mean something only where `shard` is fsdp and, but for formats and resharding, where there is
no pipeline: in one, weights are gathered once a step, or for both passes of every micro batch.

Sources: PyTorch's `fully_shard` (August 2026) for units, prefetch and resharding; torchtitan
(`fsdp_reshard_after_forward`: by default not in a pipeline) and MaxText (`pipeline_fsdp_ag_once`,
off by default) for resharding in a pipeline; ZeRO++ (Wang
2023) for a second partition of the weights and for 8 and 4 bits on their way.

Targets have PEFT's names.

Sources: Hu 2021 (LoRA), Dettmers 2023 (QLoRA, section 3: NF4 and double quantisation), PEFT 0.21.
"""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import model_validator

from syncwall.describe.base import Description, NotNegative, Positive, Whole
from syncwall.describe.choice import Choice, Dtype
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.matrices import Matrix, WeightGroup, layer_weights
from syncwall.describe.transformer import Transformer


class WideLayers(Description):
    """Precision by layer."""

    first_layers_bf16: NotNegative = 0
    """Layers at the start that multiply in bf16 where `precision` is narrower (Megatron's
    num_layers_at_start_in_bf16)."""
    last_layers_bf16: NotNegative = 0
    """The same at the end, before the output layer, which is never narrower
    (num_layers_at_end_in_bf16)."""


WIDE: Final = tuple(WideLayers.model_fields)
"""Names of these fields."""


class OffloadSettings(Description):
    """Optimizer, weights, gradients and activations on the host."""

    offload_optimizer: bool = False
    """Optimizer states live in the memory of the host, whose processor updates them."""
    offload_weights: bool = False
    """FSDP: sharded weights live in the memory of the host; every unit's are copied to the device
    for each of its passes (DeepSpeed's offload_param, FSDP's CPU offload)."""
    offload_gradients: bool = False
    """Gradients leave for the memory of the host as soon as they are complete, and are added up
    there, for an optimizer that is there too."""
    offload_layers: NotNegative = 0
    """Layers of a stage whose activations wait in the memory of the host for their backward pass.
    """


OFFLOAD: Final = tuple(OffloadSettings.model_fields)
"""Names of these fields."""


FrozenPart = Literal["encoder", "projector", "decoder"]


class Freezing(Description):
    """What is trained of a model, by part and by layer."""

    frozen: tuple[FrozenPart, ...] = ()
    """Parts that are not trained: the encoder in front, the projector behind it, the decoder with
    its embedding and output layer (the language model). The model may say so of its encoder too."""
    frozen_layers: NotNegative = 0
    """Layers at the start of the decoder that are not trained, with the embedding before them; an
    output layer that is tied to the embedding is not trained then either."""
    images: Positive | None = None
    """Sequences of the encoder (images, or tiles of them) for each sequence of the model; as the
    model's `encoder.each` says if not given."""


FREEZING: Final = tuple(Freezing.model_fields)
"""Names of these fields."""


RecomputeModule = Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
"""A part of a layer that is computed again, as Megatron's `--recompute-modules` calls it."""
KEEPING: Final = (
    "kept_gradient_dtype",
    "separate_gradients",
    "optimizer",
    "moment_dtype",
    "master_weights",
    *OFFLOAD,
    "narrow_activations",
    "kept_attention_scores",
    "fused_norms",
    "fused_gate",
    "dropout",
    "fused_loss",
    "loss_chunks",
    "recompute_modules",
    "recompute_stops_early",
    "narrow_weights",
)
"""Fields of a layout that say what is kept, and where, but nothing of the ranks."""
TRAINED: Final = (
    "document_tokens",
    "frozen_weights",
    "lora",
    "expert_imbalance",
    "dropless",
    "capacity_factor",
    *FREEZING,
    *WIDE,
)
"""Fields of a layout that say what is trained, and on what: no search may change them."""


class Optimizer(Choice):
    """What updates the weights."""

    ADAM = 0
    """Two moments of every parameter (Adam, AdamW, LAMB)."""
    ADAM_8BIT = 1
    """Both moments in 8 bits with a scale for every block."""
    ADAFACTOR = 2
    """Second moments of rows and columns only, no first."""
    MUON = 3
    """One momentum of every parameter."""
    SGD = 4
    """One momentum of every parameter."""


class MasterWeights(Choice):
    """Where a weight has more bits than the 16 that are computed with."""

    NONE = 0
    """Nowhere: training in pure 16 bits."""
    COPY = 1
    """A copy in fp32 beside them (Megatron, DeepSpeed)."""
    REMAINDER = 2
    """The missing 16 bits are kept beside them (Apex, Transformer Engine)."""
    STORED = 3
    """Weights are kept in fp32 and made narrow when they are gathered or used (PyTorch, JAX)."""


class NarrowActivations(Choice):
    """Activations that a run in 8 or 4 bits keeps in that format."""

    NOTHING = 0
    """None: inputs are made narrow a second time for the weight gradient (torchao)."""
    INPUTS = 1
    """Inputs of multiplications, for their weight gradient (Transformer Engine)."""
    ACTIVATIONS = 2
    """Inputs of activation functions too (Megatron's activation_func_fp8_input_store)."""


class FsdpSettings(Description):
    """Units, prefetch, resharding, and formats on the way."""

    unit_layers: Positive = 1
    """FSDP: layers that are gathered and reduced together (a wrap unit); the whole model, with
    embedding and output layer, if it has no more."""
    forward_prefetch: Positive = 1
    """FSDP: units whose weights are gathered ahead in the forward pass, with overlap_parameters."""
    backward_prefetch: Positive = 1
    """FSDP: units whose weights are gathered ahead in the backward pass."""
    reshard_after_forward: bool | Annotated[int, Whole(2)] | None = None
    """FSDP: weights are given back after the forward pass and gathered again; kept if false; with a
    number, shared by so many ranks only until then (ZeRO++ hpZ). True if not given, but false for
    a unit that is the whole model. In a pipeline, true gathers for every micro batch, false once a
    step; as the framework does if not given."""
    gather_dtype: Dtype | None = None
    """FSDP: format in which weights are gathered: fp8 (torchao), int8 (ZeRO++ qwZ); the 16 bits of
    the computation if not given."""
    quantized_gradients: bool = False
    """FSDP: gradients are exchanged in 4 bits (ZeRO++ qgZ)."""


FSDP: Final = tuple(FsdpSettings.model_fields)
"""Names of these fields."""


AttentionTarget = Literal[
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "q_a_proj",
    "q_b_proj",
    "kv_a_proj_with_mqa",
    "kv_b_proj",
]
MlpTarget = Literal["gate_proj", "up_proj", "down_proj"]
Target = Literal["all-linear", "attention", "mlp", MlpTarget, AttentionTarget]
FrozenFormat = Literal["fp32", "bf16", "fp8", "nf4", "nf4-single"]

FROZEN_BYTES: Final[dict[FrozenFormat, float]] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "nf4": (4 + 8 / 64 + 32 / (64 * 256)) / 8,
    "nf4-single": (4 + 32 / 64) / 8,
}
"""Bytes of one weight. NF4 has a scale for 64 weights: in fp32 (`nf4-single`, 4.5 bits), or in 8
bits with an fp32 scale for 256 of them (double quantisation, 4.127 bits)."""
_ADAPTABLE: Final[dict[WeightGroup, tuple[str, ...]]] = {
    "attention": get_args(AttentionTarget),
    "mlp": get_args(MlpTarget),
}


class Lora(Description):
    """Adapters of rank `rank` beside frozen matrices."""

    rank: Positive
    targets: tuple[Target, ...] = ("all-linear",)
    """Matrices with an adapter, in PEFT's words, or `attention`, `mlp`. Adapters of experts are not
    described: of a model that has them, only those of attention may be named."""
    weights: FrozenFormat | None = None
    """Format in which frozen matrices of layers are kept; embedding, output layer and norms stay in
    16 bits. That of the multiplications if not given."""

    @model_validator(mode="before")
    @classmethod
    def _from_a_rank(cls, value: Any) -> Any:
        """`lora: 16` is `lora: {rank: 16}`."""
        return {"rank": value} if type(value) is int else value

    @property
    def names_attention_only(self) -> bool:
        """True if no matrix outside of attention may have an adapter."""
        return not {"all-linear", "mlp", "gate_proj", "up_proj", "down_proj"} & set(self.targets)

    @property
    def weight_bytes(self) -> float | None:
        """Bytes of a frozen weight of a layer; None if as the layout's precision says."""
        return None if self.weights is None else FROZEN_BYTES[self.weights]


class LoraSettings(Description):
    """Adapters of a layout; with them, all other weights are frozen."""

    lora: Lora | None = None
    """LoRA: rank and targets of adapters, and the format of frozen weights. `frozen_weights` alone
    leaves adapters out of account."""

    @model_validator(mode="before")
    @classmethod
    def _freezes(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or fields.get("lora") is None:
            return fields
        if fields.get("frozen_weights") is False:
            raise ValueError("`lora` trains adapters only: leave out frozen_weights")
        return {**fields, "frozen_weights": True}


def adapted(model: Transformer, kind: LayerKind, lora: Lora) -> list[Matrix]:
    """Matrices of a layer of `kind` that `lora` names."""
    chosen = set(lora.targets)
    if "all-linear" in chosen:
        chosen |= {"attention", "mlp"}
    return [
        one
        for part in layer_weights(model, kind)
        for one in part.matrices.values()
        if one.name in _ADAPTABLE.get(part.group, ()) and {part.group, one.name} & chosen
    ]
