"""What stands before the first layer and after the last, and the optimizer.

Holds `embedding_parts`, `head_parts` and `finish_block`.
"""

from syncwall.cause import Cause
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Shard
from syncwall.work.block import Block, Operation, Phase, Stream
from syncwall.work.held import Held
from syncwall.work.layer import ACTIVATION_BYTES, Shape, entering, leaving, norm_part
from syncwall.work.number import where
from syncwall.work.operations import Collective, Elementwise
from syncwall.work.parts import Part, elementwise, gemm
from syncwall.work.sharing import weight_bytes

OPTIMIZER_BYTES = 34.0
"""Memory traffic of AdamW for one parameter: weight, two moments and gradient in fp32 read (16),
the first three written (12), the 16-bit weight written (2), the gradient read for its norm (4)."""
LOGIT_BYTES = 5.0
"""Memory traffic for one logit forward: 16 bits written and read, its share of a fused loss."""


def embedding_parts(shape: Shape) -> list[Part]:
    """Rows of the embedding for every token; with tp each rank has a part of the rows."""
    size = 2 * ACTIVATION_BYTES * shape.tokens * shape.model.hidden
    return [elementwise("embedding", size), *leaving(shape, "embedding")]


def head_parts(shape: Shape) -> list[Part]:
    """Final norm, logits and loss; narrower formats than 16 bits are not used for the logits."""
    width = shape.model.vocab / shape.layout.tp
    dtype = Dtype.FP32 if shape.layout.precision is Dtype.FP32 else Dtype.BF16
    return [
        norm_part(shape, "final norm"),
        *entering(shape, "head"),
        gemm("logits", Cause.HEAD, shape.tokens, width, shape.model.hidden, dtype),
        elementwise("loss", LOGIT_BYTES * shape.tokens * width, kernels=4),
    ]


def finish_block(shape: Shape, held: Held) -> Block:
    """The optimizer, and the gather of the weights that it changed.

    ZeRO-1 and ZeRO-2 gather what no overlap hides; FSDP in a pipeline gathers once a step.
    """
    layout = shape.layout
    assert layout.shard_degree is not None, "the layout is resolved"
    sharded = layout.shard >= Shard.ZERO1
    own = held.plain / where(sharded, layout.shard_degree, 1.0)
    experts = held.experts / where(sharded, layout.expert_dp, 1.0)
    replicated = sharded & (layout.shard < Shard.FSDP)
    exposed = replicated * (1 - layout.overlap_parameters)
    once = (layout.shard == Shard.FSDP) * (layout.pp > 1)
    moved = weight_bytes(layout) * held.plain * (exposed + once)
    weights = Collective("all-gather", moved, shape.groups["shard"])
    update = Elementwise(OPTIMIZER_BYTES * (own + experts), 4, is_fused=True, kind="optimizer")
    return Block(
        "optimizer",
        (
            Operation("optimizer", update, Cause.OPTIMIZER, phase=Phase.FINISH),
            Operation("weights", weights, Cause.EXPOSED_GATHER, Stream.GATHER, phase=Phase.FINISH),
        ),
    )
