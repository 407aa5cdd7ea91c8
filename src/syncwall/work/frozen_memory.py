"""What a decoder that is frozen in part keeps less.

Holds `frozen_parameters`, those of a rank without gradients and states, and `spared_activations`.
"""

from syncwall.work.activations import SavedBytes, layer_tensors
from syncwall.work.freezing import Frozen, passed_shape
from syncwall.work.layer import Shape
from syncwall.work.number import Number
from syncwall.work.pipeline_ranks import RankLayers
from syncwall.work.rank_parameters import RankParameters, embedding_parameters, layer_parameters


def frozen_parameters(shape: Shape, held: RankParameters, layers: RankLayers) -> RankParameters:
    """Of what a rank holds, `layers` among it, parameters without gradients.

    Layers at the start stand with the embedding in the one rank that there is.
    """
    frozen = Frozen.of(shape)
    if frozen.whole_decoder:
        return RankParameters(0.0)
    if not frozen.first_layers:
        return held
    plain, experts = embedding_parameters(shape).plain, 0.0 * held.experts
    for kind in shape.model.layer_kinds:
        share = frozen.leading(shape.model, kind) / max(kind.count, 1)
        count, own = share * layers.of(kind), layer_parameters(shape, kind)
        plain, experts = plain + count * own.plain, experts + count * own.experts
    return RankParameters(plain, experts)


def spared_activations(shape: Shape, layers: RankLayers) -> Number:
    """Bytes that `layers` do not keep: below the first trained part all that a layer keeps, above
    it what only weight gradients need.
    """
    frozen = Frozen.of(shape)
    spared: Number = 0.0
    if frozen.whole_decoder:
        return spared
    passed = passed_shape(shape)
    for kind in shape.model.layer_kinds:
        whole = SavedBytes.of(layer_tensors(shape, kind), shape).until_backward
        less = SavedBytes.of(layer_tensors(passed, kind), passed).until_backward
        alike = layers.of(kind) / max(kind.count, 1)
        for count, back in frozen.of_kind(shape.model, kind):
            kept = whole if back.trains else less if back.passes else 0.0
            spared = spared + count * alike * (whole - kept)
    return spared
