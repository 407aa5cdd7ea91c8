"""What comes before the first layer and after the last, and the optimizer.

Holds `embedding_parts`, `output_layer_parts` and `finish_block`.
"""

from syncwall.cause import Cause
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Shard
from syncwall.describe.transformer import SHIFT_SCALE
from syncwall.work.block import Block, Operation, StepPhase, Stream
from syncwall.work.layer import ACTIVATION_BYTES, Shape, entering, leaving, modulation, norm_part
from syncwall.work.memory_parts import update_bytes
from syncwall.work.number import Number, negated, where
from syncwall.work.offload import host_update, sent_after_update
from syncwall.work.operations import Collective, Eager, Elementwise, Gemm
from syncwall.work.parts import LayerPart, elementwise, gemm
from syncwall.work.rank_parameters import RankParameters
from syncwall.work.sharing import gathered_each_time, sent_bytes, weight_bytes

EAGER_UPDATE = Eager(20 / 7, 3)
"""AdamW over lists of tensors: decay, both moments, root, quotient, sum and update read and write 20
tensors, where one kernel reads four and writes three."""
LOGIT_BYTES = 5.0
"""Memory traffic for one logit forward: 16 bits written and read, its share of a fused loss."""


def embedding_parts(shape: Shape) -> list[LayerPart]:
    """Rows of the embedding for every token; with tp each rank has a part of the rows.

    Patches are projected instead, on every tp rank alike.
    """
    size = 2 * ACTIVATION_BYTES * shape.tokens * shape.model.embedding_width
    return [
        *_inputs(shape),
        elementwise("embedding", size),
        *(leaving(shape, "embedding") if shape.model.vocab else []),
        *_projected(shape, shape.model.embedding_width, shape.model.hidden),
    ]


def _inputs(shape: Shape) -> list[LayerPart]:
    """Projections of patches and of the conditioning; what goes in needs no gradient."""
    model, layout, patches = shape.model, shape.layout, shape.model.patches
    parts = []
    if patches is not None:
        pieces = layout.micro_batch * patches.count / layout.cp
        parts.append(_first("patches", pieces, model.hidden, patches.width, layout.precision))
    if model.frames is not None:
        tokens, hidden, kernel = shape.tokens, model.hidden, model.frames.kernel
        into, dtype = kernel * model.frames.channels, layout.precision
        parts.append(_first("frames", 2 * tokens, hidden, into, dtype))
        parts.append(gemm("frames joined", Cause.GEMM, tokens, hidden, kernel * hidden, dtype))
    if model.conditioning is not None:
        frequencies, samples = model.conditioning.frequencies, layout.micro_batch
        parts.append(_first("time step", samples, model.hidden, frequencies, layout.precision))
        name, hidden = "conditioning", model.hidden
        parts.append(gemm(name, Cause.GEMM, samples, hidden, hidden, layout.precision))
    return parts


def _first(name: str, m: Number, n: Number, k: Number, dtype: Dtype) -> LayerPart:
    """A multiplication of what goes into the model."""
    forward = Gemm(m, n, k, dtype)
    return LayerPart(name, Cause.GEMM, forward, (forward.for_weight,))


def _projected(shape: Shape, width: int, to: int) -> list[LayerPart]:
    """The projection between the widths of embedding and layers, if they differ (OPT-350M)."""
    if width == to:
        return []
    dtype = shape.layout.precision
    return [gemm("embedding projection", Cause.GEMM, shape.plain_tokens, to, width, dtype)]


def output_layer_parts(shape: Shape) -> list[LayerPart]:
    """Final norm, logits and loss; narrower formats than 16 bits are not used for the logits.

    A projection before the logits is not split by tp.
    """
    model, tokens, hidden = shape.model, shape.head_tokens, shape.model.hidden
    rows = model.head_width / shape.layout.tp
    dtype = Dtype.FP32 if shape.layout.precision is Dtype.FP32 else Dtype.BF16
    if not model.head_width:
        return [norm_part(shape, "final norm")]
    return [
        *(
            [gemm("transform", Cause.OUTPUT_LAYER, shape.plain_tokens, hidden, hidden, dtype)]
            if model.head_transform
            else []
        ),
        norm_part(shape, "final norm"),
        *modulation(shape, "final norm", SHIFT_SCALE),
        *_projected(shape, hidden, model.embedding_width),
        *entering(shape, "output layer"),
        gemm("logits", Cause.OUTPUT_LAYER, tokens, rows, model.embedding_width, dtype),
        elementwise("loss", LOGIT_BYTES * tokens * rows, kernels=4),
    ]


def finish_block(shape: Shape, held: RankParameters) -> Block:
    """The optimizer, and the gather of the weights that it changed.

    ZeRO-1 and ZeRO-2 gather what no overlap hides; FSDP in a pipeline that keeps weights gathers
    once a step.
    """
    layout = shape.layout
    assert layout.shard_degree is not None, "the layout is resolved"
    sharded = layout.shard >= Shard.ZERO1
    own = held.plain / where(sharded, layout.shard_degree, 1.0)
    experts = held.experts / where(sharded, layout.expert_dp, 1.0)
    replicated = sharded & (layout.shard < Shard.FSDP)
    exposed = replicated * (1 - layout.overlap_parameters)
    once = (layout.shard == Shard.FSDP) & negated(gathered_each_time(layout))
    size = weight_bytes(layout) * exposed + sent_bytes(layout) * once
    gathers = (
        Collective("all-gather", size * held.plain, shape.groups["shard"]),
        Collective("all-gather", size * held.experts, shape.groups["expert-shard"]),
    )
    moved_bytes = update_bytes(layout) * (own + experts)
    update = Operation(
        "optimizer",
        Elementwise(moved_bytes, 4, is_fused=True, kind="optimizer", eager=EAGER_UPDATE),
        Cause.OPTIMIZER,
        phase=StepPhase.FINISH,
    )
    if layout.offload_optimizer:
        what = host_update(shape, own + experts)
        update = Operation("optimizer", what, Cause.HOST_OPTIMIZER, phase=StepPhase.FINISH)
    return Block(
        "optimizer",
        (
            update,
            *_sent_after(shape, own + experts),
            *(
                Operation("weights", one, Cause.EXPOSED_GATHER, Stream.GATHER, phase=StepPhase.FINISH)
                for one in gathers
            ),
        ),
    )


def _sent_after(shape: Shape, parameters: Number) -> list[Operation]:
    """Weights on their way to the host, if they live there and the device has updated them."""
    if shape.layout.offload_optimizer or not shape.layout.offload_weights:
        return []
    what, cause = sent_after_update(shape, parameters), Cause.EXPOSED_OFFLOAD
    return [Operation("weights to the host", what, cause, phase=StepPhase.FINISH)]
