"""FLOPs of the mathematics: what MFU counts.

Holds `forward_flops` and `step_flops`. Convention (PaLM, appendix B): multiplications by weights
and attention below the causal diagonal; backward is twice forward; recomputation counts for HFU
only.
"""

import numpy as np

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.layout import Recompute
from syncwall.work.ends import head_parts
from syncwall.work.experts import expert_parts
from syncwall.work.further import prediction_parts
from syncwall.work.layer import Shape, attention_parts, mlp_parts
from syncwall.work.number import Number
from syncwall.work.operations import Attention, Collective, Offload, Transfer
from syncwall.work.parts import Part
from syncwall.work.recompute import in_modules

GEMM_SHARE, ELEMENTWISE_SHARE = 0.5, 0.7
"""What `Recompute.OPERATIONS` repeats: torchtitan keeps every second product and all attention."""


def forward_flops(model: Model, seq: Number, *, square: bool = False) -> tuple[Number, Number]:
    """FLOP of one sequence forward: everything, and attention scores and values alone.

    `square` counts the half of the scores above the diagonal too, as some sources do.
    """
    shape = Shape(model, Layout().resolved(1), seq)
    attention = attention_parts(shape)
    core = model.layers * sum(_flops(p, square) for p in attention if p.cause is Cause.ATTENTION)
    total = model.layers * sum(_flops(p, square) for p in attention)
    if model.mlp is not None and model.dense_layers:
        total += model.dense_layers * sum(_flops(p, square) for p in mlp_parts(shape))
    if model.moe is not None:
        total += model.moe_layers * sum(_flops(p, square) for p in expert_parts(shape))
    return total + sum(_flops(p, square) for p in head_parts(shape)), core


def _further(model: Model, seq: Number) -> Number:
    """FLOP of multi-token prediction layers of one sequence forward."""
    if not model.mtp_layers:
        return 0.0
    parts = prediction_parts(Shape(model, Layout().resolved(1), seq))
    return model.mtp_layers * sum(_flops(part, square=False) for part in parts)


def _of_modules(model: Model, layout: Layout, seq: Number) -> Number:
    """FLOP of one sequence forward in the modules that are recomputed."""
    shape = Shape(model, Layout().resolved(1), seq)

    def chosen(parts: list[Part]) -> Number:
        return sum(_flops(p, False) for p in parts if in_modules(p, layout.recompute_modules))

    total = model.layers * chosen(attention_parts(shape))
    if model.mlp is not None and model.dense_layers:
        total += model.dense_layers * chosen(mlp_parts(shape))
    if model.moe is not None:
        total += model.moe_layers * chosen(expert_parts(shape))
    return total


def step_flops(shape: Shape) -> dict[str, Number]:
    """Model FLOPs, recomputed FLOPs and tokens of the whole step, over all GPUs."""
    model, layout = shape.model, shape.layout
    sequences = layout.global_batch
    assert sequences is not None, "the layout is resolved"
    tokens = sequences * shape.seq
    main, core = forward_flops(model, shape.seq)
    forward = main + _further(model, shape.seq)
    head = 2.0 * shape.seq * model.hidden * model.vocab
    full = layout.recompute == Recompute.FULL
    selective = layout.recompute == Recompute.SELECTIVE
    single = GEMM_SHARE * (layout.recompute == Recompute.OPERATIONS)
    layers = shape.recomputed_layers
    body = forward - head
    chosen = _of_modules(model, layout, shape.seq) if np.any(selective) else 0.0
    again = sequences * layers * (body * full + chosen * selective + (body - core) * single)
    return {
        "model_flops": (3.0 * forward - layout.frozen * (forward - core)) * sequences,
        "recompute_flops": again,
        "tokens": tokens,
    }


def _flops(part: Part, square: bool) -> Number:
    what = part.forward
    if what is None or isinstance(what, (Collective, Offload, Transfer)):
        return 0.0
    return what.square_flops if square and isinstance(what, Attention) else what.flops
