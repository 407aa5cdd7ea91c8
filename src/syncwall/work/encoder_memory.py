"""What an encoder in front of a model adds to the memory of a rank.

Holds `encoder_memory`.
"""

from syncwall.describe.layout import Shard
from syncwall.work.activations import Kept, layer_tensors
from syncwall.work.encoder import encoder_shape, is_frozen
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number
from syncwall.work.rank_parameters import encoder_parameters, projector_parameters
from syncwall.work.sharing import reduced_at_once, weight_bytes
from syncwall.work.states import kept_gradient_bytes, optimizer_bytes, stored_bytes


def encoder_memory(shape: Shape) -> dict[str, Number]:
    """Bytes by field of `Memory`; of a frozen one weights and output only."""
    source, layout = encoder_shape(shape), shape.layout
    if source is None:
        return {}
    trained: Number = projector_parameters(shape).plain
    frozen, output = encoder_parameters(source), ACTIVATION_BYTES * source.tokens
    output = output * source.model.hidden
    if not is_frozen(source):
        trained, frozen = trained + frozen, 0.0
        for kind in source.model.layer_kinds:
            kept = Kept.of(layer_tensors(source, kind), source)
            output = output + kind.count * kept.until_backward

    def own(parameters: Number, condition: Number) -> Number:
        assert layout.shard_degree is not None, "the layout is resolved"
        return parameters / (1 + condition * (layout.shard_degree - 1))

    weights = stored_bytes(layout) * own(trained, layout.shard >= Shard.FSDP)
    weights = weights + weight_bytes(layout) * own(frozen, layout.shard >= Shard.FSDP)
    gradients = kept_gradient_bytes(layout) * own(trained, reduced_at_once(layout))
    states = own(trained, layout.shard >= Shard.ZERO1) * (1 - layout.offload_optimizer)
    return {
        "weights": weights * (1 - layout.offload_weights),
        "gradients": gradients * (1 - layout.offload_gradients),
        "optimizer": optimizer_bytes(layout) * states,
        "activations": output,
    }
