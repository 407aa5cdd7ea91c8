"""FLOPs of the mathematics: what MFU counts.

Holds `forward_flops` and `step_flops`. Convention (PaLM, appendix B): multiplications by weights
and attention below the causal diagonal; backward is twice forward; recomputation counts for HFU
only.
"""

from collections.abc import Sequence
from typing import Final

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.keeping import RecomputeModule
from syncwall.describe.layout import Recompute
from syncwall.work.kinds import Kinds
from syncwall.work.layer import Shape
from syncwall.work.number import Number, anywhere
from syncwall.work.operations import Collective, CoreAttention, Offload, Transfer
from syncwall.work.parts import LayerPart
from syncwall.work.recompute import in_modules

GEMM_SHARE, ELEMENTWISE_SHARE = 0.5, 0.7
"""What `Recompute.OPERATIONS` repeats: torchtitan keeps every second product and all attention."""
_ALONE: Final = Layout().resolved(1)


def forward_flops(model: Model, seq: Number, *, square: bool = False) -> tuple[Number, Number]:
    """FLOP of one sequence forward: everything, and attention scores and values alone.

    `square` counts the half of the scores above the diagonal too, as some sources do.
    """
    return _forward(model, _whole(model, seq), square)


def _whole(model: Model, seq: Number) -> Kinds:
    """`model` on a device that holds all of it."""
    return Kinds.of(Shape(model, _ALONE, seq))


def _forward(model: Model, kinds: Kinds, square: bool = False) -> tuple[Number, Number]:
    scores = [part for part in kinds.attention if part.cause is Cause.ATTENTION]
    dense, sparse = _flops(kinds.dense, square), _flops(kinds.sparse, square)
    total = (
        model.dense_layers * dense + model.moe_layers * sparse + _flops(kinds.output_layer, square)
    )
    return total, model.layers * _flops(scores, square)


def _of_modules(model: Model, kinds: Kinds, modules: Sequence[RecomputeModule]) -> Number:
    """FLOP of one sequence forward in the modules that are recomputed."""
    dense, sparse = (
        _flops([part for part in parts if in_modules(part, modules)])
        for parts in (kinds.dense, kinds.sparse)
    )
    return model.dense_layers * dense + model.moe_layers * sparse


def step_flops(shape: Shape) -> dict[str, Number]:
    """Model FLOPs, recomputed FLOPs and tokens of the whole step, over all GPUs."""
    model, layout = shape.model, shape.layout
    sequences = layout.global_batch
    assert sequences is not None, "the layout is resolved"
    tokens = sequences * shape.seq
    kinds, modules = _whole(model, shape.seq), layout.recompute_modules
    main, core = _forward(model, kinds)
    forward = main + model.mtp_layers * _flops(kinds.mtp)
    head = 2.0 * shape.seq * model.hidden * model.vocab
    full = layout.recompute == Recompute.FULL
    selective = layout.recompute == Recompute.SELECTIVE
    single = GEMM_SHARE * (layout.recompute == Recompute.OPERATIONS)
    layers = shape.recomputed_layers
    body = forward - head
    chosen = _of_modules(model, kinds, modules) if anywhere(selective) else 0.0
    again = sequences * layers * (body * full + chosen * selective + (body - core) * single)
    return {
        "model_flops": (3.0 * forward - layout.frozen_weights * (forward - core)) * sequences,
        "recompute_flops": again,
        "tokens": tokens,
    }


def _flops(parts: list[LayerPart], square: bool = False) -> Number:
    return sum((_of_one(part, square) for part in parts), start=0.0)


def _of_one(part: LayerPart, square: bool) -> Number:
    what = part.forward
    if what is None or isinstance(what, (Collective, Offload, Transfer)):
        return 0.0
    return what.square_flops if square and isinstance(what, CoreAttention) else what.flops
