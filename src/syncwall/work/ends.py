"""What comes before the first layer and after the last, and the optimizer.

Holds `embedding_parts`, `output_layer_parts` and `finish_block`.
"""

from syncwall.cause import Cause
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Shard
from syncwall.work.block import Block, Operation, Phase, Stream
from syncwall.work.layer import ACTIVATION_BYTES, Shape, entering, leaving, norm_part
from syncwall.work.number import where
from syncwall.work.offload import host_update
from syncwall.work.operations import Collective, Elementwise
from syncwall.work.parts import LayerPart, elementwise, gemm
from syncwall.work.rank_parameters import RankParameters
from syncwall.work.sharing import weight_bytes
from syncwall.work.states import update_bytes

LOGIT_BYTES = 5.0
"""Memory traffic for one logit forward: 16 bits written and read, its share of a fused loss."""


def embedding_parts(shape: Shape) -> list[LayerPart]:
    """Rows of the embedding for every token; with tp each rank has a part of the rows."""
    size = 2 * ACTIVATION_BYTES * shape.tokens * shape.model.hidden
    return [elementwise("embedding", size), *leaving(shape, "embedding")]


def output_layer_parts(shape: Shape) -> list[LayerPart]:
    """Final norm, logits and loss; narrower formats than 16 bits are not used for the logits."""
    width = shape.model.vocab / shape.layout.tp
    dtype = Dtype.FP32 if shape.layout.precision is Dtype.FP32 else Dtype.BF16
    return [
        norm_part(shape, "final norm"),
        *entering(shape, "output layer"),
        gemm("logits", Cause.OUTPUT_LAYER, shape.tokens, width, shape.model.hidden, dtype),
        elementwise("loss", LOGIT_BYTES * shape.tokens * width, kernels=4),
    ]


def finish_block(shape: Shape, held: RankParameters) -> Block:
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
    size = weight_bytes(layout) * (exposed + once)
    gathers = (
        Collective("all-gather", size * held.plain, shape.groups["shard"]),
        Collective("all-gather", size * held.experts, shape.groups["expert-shard"]),
    )
    moved_bytes = update_bytes(layout) * (own + experts)
    update = Operation(
        "optimizer",
        Elementwise(moved_bytes, 4, is_fused=True, kind="optimizer"),
        Cause.OPTIMIZER,
        phase=Phase.FINISH,
    )
    if layout.offload_optimizer:
        what = host_update(shape, own + experts)
        update = Operation("optimizer", what, Cause.HOST_OPTIMIZER, phase=Phase.FINISH)
    return Block(
        "optimizer",
        (
            update,
            *(
                Operation("weights", one, Cause.EXPOSED_GATHER, Stream.GATHER, phase=Phase.FINISH)
                for one in gathers
            ),
        ),
    )
