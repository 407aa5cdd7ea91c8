"""What a rank keeps of weights, gradients, moments and activations, and in what format.

Holds `Optimizer`, `MasterWeights`, `NarrowActivations` and `RecomputeModule`, the options of a
layout that decide about its memory, `KEEPING`, the fields that do, and `TRAINED`.
"""

from typing import Final, Literal

from syncwall.describe.choice import Choice
from syncwall.describe.freezing import FREEZING
from syncwall.describe.offload import OFFLOAD
from syncwall.describe.wide_layers import WIDE

RecomputeModule = Literal[
    "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"
]
"""A part of a layer that is computed again, as Megatron's `--recompute-modules` calls it."""
KEEPING: Final = (
    "kept_gradient_dtype", "separate_gradients", "optimizer", "moment_dtype", "master_weights",
    *OFFLOAD, "narrow_activations", "kept_attention_scores", "fused_norms", "fused_gate",
    "dropout", "fused_loss", "loss_chunks", "recompute_modules", "recompute_stops_early",
    "narrow_weights",
)  # fmt: skip
"""Fields of a layout that say what is kept, and where, but nothing of the ranks."""
TRAINED: Final = (
    "document_tokens", "frozen_weights", "lora", "expert_imbalance", "dropless",
    "capacity_factor", *FREEZING, *WIDE,
)  # fmt: skip
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
