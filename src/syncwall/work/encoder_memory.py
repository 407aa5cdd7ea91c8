"""What an encoder in front of a model adds to the memory of a rank.

Holds `encoder_memory`.
"""

from syncwall.describe.layout import Shard
from syncwall.work.activations import SavedBytes, layer_tensors
from syncwall.work.encoder import encoder_shape
from syncwall.work.freezing import Frozen
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number
from syncwall.work.rank_parameters import (
    encoder_parameters,
    layer_parameters,
    projector_parameters,
)
from syncwall.work.sharing import reduced_at_once
from syncwall.work.states import (
    frozen_bytes,
    kept_gradient_bytes,
    optimizer_bytes,
    stored_bytes,
)


def encoder_memory(shape: Shape) -> dict[str, Number]:
    """Bytes by field of `Memory`; of a frozen one weights and output only."""
    source, encoder, layout = encoder_shape(shape), shape.model.encoder, shape.layout
    if source is None or encoder is None:
        return {}
    back = Frozen.of(shape)
    front, between = encoder_parameters(source), projector_parameters(shape).plain
    idle = encoder.idle_layers * sum(
        kind.count / encoder.layers * layer_parameters(source, kind).plain
        for kind in encoder.layer_kinds
    )
    trained = (front - idle) * back.encoder.trains + between * back.projector.trains
    frozen = front + between - trained
    output = ACTIVATION_BYTES * source.tokens * encoder.hidden
    if back.encoder.passes:
        for kind in encoder.layer_kinds:
            kept = SavedBytes.of(layer_tensors(source, kind), source)
            moving = kind.count * (1.0 - encoder.idle_layers / encoder.layers)
            output = output + moving * kept.until_backward

    def own(parameters: Number, condition: Number) -> Number:
        assert layout.shard_degree is not None, "the layout is resolved"
        return parameters / (1 + condition * (layout.shard_degree - 1))

    weights = stored_bytes(layout) * own(trained, layout.shard >= Shard.FSDP)
    weights = weights + frozen_bytes(layout) * own(frozen, layout.shard >= Shard.FSDP)
    gradients = kept_gradient_bytes(layout) * own(trained, reduced_at_once(layout))
    states = own(trained, layout.shard >= Shard.ZERO1) * (1 - layout.offload_optimizer)
    return {
        "weights": weights * (1 - layout.offload_weights),
        "gradients": gradients * (1 - layout.offload_gradients),
        "optimizer": optimizer_bytes(layout) * states,
        "activations": output,
    }
