"""Multi-token prediction: layers that predict tokens further ahead, in training only.

Holds `prediction_parts` and `prediction_held`. Source: DeepSeek-V3 report, section 2.2: a
projection of two hidden states into one, a layer of the last kind, and the head once more.
"""

from syncwall.cause import Cause
from syncwall.work.ends import head_parts
from syncwall.work.experts import expert_parts
from syncwall.work.held import Held, dense_held, expert_held
from syncwall.work.layer import Shape, attention_parts, mlp_parts
from syncwall.work.parts import Part, gemm


def prediction_parts(shape: Shape) -> list[Part]:
    """One such layer on a rank; the projection is shared out among tensor-parallel ranks."""
    model, tokens = shape.model, shape.tokens / shape.layout.tp
    join = gemm("join", Cause.GEMM, tokens, model.hidden, 2 * model.hidden, shape.layout.precision)
    body = expert_parts(shape) if _is_sparse(shape) else mlp_parts(shape)
    return [join, *attention_parts(shape), *body, *head_parts(shape)]


def prediction_held(shape: Shape) -> Held:
    """Its parameters on a rank; embedding and head are those of the model."""
    held = expert_held(shape) if _is_sparse(shape) else dense_held(shape)
    return Held(held.plain + 2 * shape.model.hidden**2, held.experts)


def _is_sparse(shape: Shape) -> bool:
    return shape.model.has_experts(shape.model.layers - 1)
