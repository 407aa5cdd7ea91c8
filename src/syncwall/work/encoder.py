"""An encoder in front of a model on one rank: what is read of it, and what it keeps.

Holds `encoder_shape`, `images`, `cross_parts`, `projector_parts` and `cross_bytes`.
"""

from typing import cast

from syncwall.cause import Cause
from syncwall.describe.matrices import cross_matrices
from syncwall.work.block import Scope
from syncwall.work.layer import (
    ACTIVATION_BYTES,
    Shape,
    entering,
    leaving,
    norm_part,
    product,
    quantised,
)
from syncwall.work.layout_switches import TRAINED, Frozen
from syncwall.work.number import Number
from syncwall.work.operations import CoreAttention, Gemm
from syncwall.work.parts import LayerPart, attention, elementwise

CROSS_KEYS = "cross keys and values"
"""Name of the product that takes the output of the encoder into a layer."""


def encoder_shape(shape: Shape) -> Shape | None:
    """The encoder of the model of `shape` on the same rank, None if it has none."""
    encoder = shape.model.encoder
    if encoder is None:
        return None
    sequences = shape.layout.micro_batch * images(shape)
    own = {"micro_batch": sequences, "document_tokens": None, "frozen": (), "frozen_layers": 0}
    return Shape(encoder, shape.layout.model_copy(update=own), cast(int, encoder.train_seq))


def images(shape: Shape) -> int:
    """Sequences of the encoder for each sequence of the model; 0 if it has none."""
    encoder = shape.model.encoder
    return 0 if encoder is None else shape.layout.images or encoder.each


def cross_parts(shape: Shape) -> list[LayerPart]:
    """Attention of a layer to the output of the encoder, if it has any."""
    source, model, dtype = encoder_shape(shape), shape.model, shape.layout.precision
    if source is None or not model.attention.cross:
        return []
    heads = model.attention.heads / shape.layout.tp
    keys, matrices = 2 * shape.kv_heads * model.head_dim, cross_matrices(model)
    out_of = Gemm(source.tokens, keys, model.hidden, dtype)
    given = (out_of.for_input,) if Frozen.of(shape).encoder is TRAINED else ()
    core = CoreAttention(
        batch=shape.layout.micro_batch,
        heads=heads,
        q_len=shape.seq,
        kv_len=source.tokens / shape.layout.micro_batch,
        head_dim=model.head_dim,
        v_dim=model.v_head_dim,
        kv_heads=shape.kv_heads,
        is_causal=False,
    )
    parts = [
        norm_part(shape, "cross-attention norm"),
        *quantised(shape, "cross-attention", shape.plain_tokens, model.hidden),
        *entering(shape, "cross-attention"),
        product(shape, "cross queries", shape.tokens, matrices["cross_q_proj"]),
        LayerPart(CROSS_KEYS, Cause.GEMM, out_of, (*given, out_of.for_weight)),
        attention("cross-attention", core),
        product(shape, "cross output", shape.tokens, matrices["cross_o_proj"]),
        *leaving(shape, "cross-attention"),
    ]
    return [part.within(Scope.ATTENTION) for part in parts]


def projector_parts(shape: Shape) -> list[LayerPart]:
    """The tokens of the encoder as tokens of the model; not split by tp.

    Where the encoder is frozen, what goes in needs no gradient, but for the weights of a norm.
    """
    source, encoder = encoder_shape(shape), shape.model.encoder
    if source is None or encoder is None or encoder.projector is None:
        return []
    projector, dtype = encoder.projector, shape.layout.precision
    taken = source.tokens - projector.skip * source.layout.micro_batch
    tokens, count = taken / (projector.merge * projector.pool), 1 + projector.further
    normed = projector.norm != "none"
    parts = []
    if normed or projector.pool > 1:
        moved = 2 * ACTIVATION_BYTES * count * taken * encoder.hidden
        parts.append(elementwise("projector norm", moved, kernels=count))
    first_has_none = Frozen.of(shape).encoder is not TRAINED and not normed
    matrices = projector.matrices(encoder.hidden, shape.model.hidden)
    for number, (rows, into) in enumerate(matrices):
        product = Gemm(tokens, rows, into, dtype, count)
        given = () if first_has_none and not number else (product.for_input,)
        parts.append(LayerPart("projector", Cause.GEMM, product, (*given, product.for_weight)))
        moved = 2 * ACTIVATION_BYTES * count * tokens * rows
        parts.append(elementwise("projector activation", moved, kernels=count))
    return parts


def cross_bytes(shape: Shape) -> tuple[Number, Number]:
    """Bytes of queries (and of the output, as many), and of keys and values, in a layer."""
    source = encoder_shape(shape)
    assert source is not None, "there is cross-attention"
    heads = shape.model.attention.heads / shape.layout.tp
    queries = ACTIVATION_BYTES * shape.tokens * heads * shape.model.head_dim
    return queries, 2 * ACTIVATION_BYTES * source.tokens * shape.kv_heads * shape.model.head_dim
