"""Low-rank adapters that are trained in the place of a model's weights (LoRA, QLoRA).

Holds `Lora`, `LoraSettings`, a field that every `Layout` has, `adapted`, the matrices of a layer
that have an adapter, and `adapter_parameters`, their exact number. Targets have PEFT's
names.

Sources: Hu 2021 (LoRA), Dettmers 2023 (QLoRA, section 3: NF4 and double quantisation), PEFT 0.21.
"""

from typing import Any, Final, Literal, get_args

from pydantic import model_validator

from syncwall.describe.base import Description, Positive
from syncwall.describe.layer_kinds import LayerKind
from syncwall.describe.matrices import Matrix, WeightGroup, layer_weights
from syncwall.describe.transformer import Transformer

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
    "fp32": 4.0, "bf16": 2.0, "fp8": 1.0,
    "nf4": (4 + 8 / 64 + 32 / (64 * 256)) / 8,
    "nf4-single": (4 + 32 / 64) / 8,
}  # fmt: skip
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


def adapter_parameters(model: Transformer, lora: Lora) -> int:
    """Trained parameters of the whole model."""
    return sum(
        kind.count * lora.rank * (one.rows + one.columns)
        for kind in model.layer_kinds
        for one in adapted(model, kind, lora)
    )
