"""FLOPs of the mathematics: what MFU counts.

Holds `forward_flops` and `step_flops`. Convention (PaLM, appendix B): multiplications by weights
and attention as far as its mask leaves it, below the diagonal if causal; scans as their kernels cut
them into chunks (`mixer.py`); backward is twice forward; recomputation counts for HFU only.
"""

from collections.abc import Sequence
from typing import Final

from syncwall.cause import Cause
from syncwall.describe import Layout, Model
from syncwall.describe.layout import Recompute
from syncwall.describe.switches import RecomputeModule
from syncwall.work.encoder import CROSS_KEYS, encoder_shape, images, projector_parts
from syncwall.work.layer import Shape
from syncwall.work.layout_switches import TRAINED, Backward, Frozen, in_modules
from syncwall.work.number import Number, anywhere
from syncwall.work.operations import Collective, CoreAttention, Gemm, Offload, Transfer
from syncwall.work.parts import LayerPart
from syncwall.work.rank_layers import Kinds

GEMM_SHARE, ELEMENTWISE_SHARE = 0.5, 0.7
"""What `Recompute.OPERATIONS` repeats: torchtitan keeps every second product and all attention."""
_ALONE: Final = Layout().resolved(1)


def forward_flops(model: Model, seq: Number, *, square: bool = False) -> tuple[Number, Number]:
    """FLOP of one sequence forward: everything, and attention scores, values and scans alone.

    `square` counts the half of the scores above the diagonal too, as some sources do.
    """
    total, core = _forward(model, _whole(Shape(model, _ALONE, seq)), square)
    encoder = model.encoder
    if encoder is not None:
        before, scores = forward_flops(encoder, encoder.train_seq or 0, square=square)
        projector = _flops(projector_parts(Shape(model, _ALONE, seq)))
        return total + encoder.each * before + projector, core + encoder.each * scores
    return total, core


def _whole(shape: Shape) -> Kinds:
    """The model on a device that holds all of it."""
    document = shape.layout.document_tokens
    alone = _ALONE if document is None else _ALONE.model_copy(update={"document_tokens": document})
    return Kinds.of(Shape(shape.model, alone, shape.seq))


def _forward(model: Model, kinds: Kinds, square: bool = False) -> tuple[Number, Number]:
    scores, scans = (
        _flops([part for part in parts if part.cause is Cause.ATTENTION], square)
        for parts in (kinds.attention, kinds.mixer)
    )
    total = _flops(kinds.embedding, square)
    for kind, parts in kinds.layers:
        total = total + kind.count * _flops(parts, square)
    total = total + _flops(kinds.output_layer, square)
    return total, model.attention_layers * scores + model.mixer_layers * scans


def _of_modules(model: Model, kinds: Kinds, frozen: Frozen, modules: Sequence[RecomputeModule]) -> Number:
    """FLOP of one sequence forward in the modules that are recomputed."""
    total: Number = 0.0
    for count, back, parts in _by_layers(model, kinds, frozen):
        again = [part for part in parts if in_modules(part, modules)]
        total = total + back.passes * count * _flops(again)
    return total


def step_flops(shape: Shape) -> dict[str, Number]:
    """Model FLOPs, recomputed FLOPs and tokens of the whole step, over all GPUs."""
    model, layout = shape.model, shape.layout
    sequences = layout.global_batch
    assert sequences is not None, "the layout is resolved"
    tokens = sequences * shape.seq
    kinds, modules = _whole(shape), layout.recompute_modules
    main, core = _forward(model, kinds)
    forward = main + model.mtp_layers * _flops(kinds.mtp)
    first, head = _without_input_gradient(kinds), _flops(kinds.output_layer)
    full = layout.recompute == Recompute.FULL
    selective = layout.recompute == Recompute.SELECTIVE
    single = GEMM_SHARE * (layout.recompute == Recompute.OPERATIONS)
    layers = shape.recomputed_layers
    frozen = Frozen.of(shape)
    still = [part for part in _by_layers(model, kinds, frozen) if not part[1].passes]
    body = forward - head - first - sum(count * _flops(parts) for count, _, parts in still)
    scored = core - sum(count * _flops(_scored(parts)) for count, _, parts in still)
    chosen = _of_modules(model, kinds, frozen, modules) if anywhere(selective) else 0.0
    again = sequences * layers * (body * full + chosen * selective + (body - scored) * single)
    before, before_again = _of_encoder(shape)
    spared = _spared(model, kinds, frozen) + layout.frozen_weights * (forward - core)
    return {
        "model_flops": before + (3.0 * forward - first - spared) * sequences,
        "recompute_flops": again + before_again,
        "tokens": tokens,
    }


def _by_layers(model: Model, kinds: Kinds, frozen: Frozen) -> list[tuple[int, Backward, list[LayerPart]]]:
    """Layers of each kind, what goes backward in them, and their parts."""
    return [
        (count, back, parts) for kind, parts in kinds.layers for count, back in frozen.of_kind(model, kind)
    ]


def _spared(model: Model, kinds: Kinds, frozen: Frozen) -> Number:
    """FLOP of one sequence backward that a model has which is trained as a whole, and this not."""
    spared: Number = 0.0
    if frozen.encoder is not TRAINED:  # keys of cross-attention have no gradient to give back
        for count, back, parts in _by_layers(model, kinds, frozen):
            keys = [part for part in parts if part.name == CROSS_KEYS]
            spared = spared + back.passes * count * _flops(keys)
    if frozen.whole_decoder:
        return spared
    spared = spared + 2.0 * _flops(kinds.embedding) - _without_input_gradient(kinds)
    ends = [(1, frozen.output_layer, kinds.output_layer)]
    further = [(model.mtp_layers, frozen.layers, kinds.mtp)]
    for count, back, parts in [*_by_layers(model, kinds, frozen), *ends, *further]:
        if not back.passes:
            spared = spared + count * 2.0 * _flops(parts)
        elif not back.trains:
            spared = spared + count * (_flops(parts) - _flops(_scored(parts)))
    return spared


def _scored(parts: Sequence[LayerPart]) -> list[LayerPart]:
    """Scores, values and scans of a layer: what multiplies by no weight."""
    return [part for part in parts if part.cause is Cause.ATTENTION]


def _of_encoder(shape: Shape) -> tuple[Number, Number]:
    """Model FLOPs and recomputed FLOPs of the encoder and its projector, in a step.

    A frozen one goes forward only, and so do layers whose output nothing takes.
    """
    source, encoder, layout = encoder_shape(shape), shape.model.encoder, shape.layout
    if source is None or encoder is None:
        return 0.0, 0.0
    assert layout.global_batch is not None, "the layout is resolved"
    sequences, frozen = layout.global_batch * images(shape), Frozen.of(shape)
    projector = layout.global_batch * _of_projector(shape, frozen.projector)
    if not frozen.encoder.passes:
        forward, _ = forward_flops(encoder, source.seq)
        return projector + sequences * forward, 0.0
    whole = layout.model_copy(update={"frozen": (), "frozen_layers": 0})
    own = step_flops(Shape(encoder, whole, source.seq))
    idle = encoder.idle_layers / encoder.layers
    inner = sum(kind.count * _flops(parts) for kind, parts in _whole(source).layers)
    model_flops = images(shape) * own["model_flops"] - 2.0 * idle * inner * sequences
    return projector + model_flops, images(shape) * own["recompute_flops"] * (1.0 - idle)


def _of_projector(shape: Shape, back: Backward) -> Number:
    """FLOP of the projector for one sequence of the model, forward and backward."""
    said = ("images", "frozen", "frozen_weights")
    alone = _ALONE.model_copy(update={name: getattr(shape.layout, name) for name in said})
    parts = projector_parts(Shape(shape.model, alone, shape.seq))
    total = _flops(parts)
    for what in (what for part in parts for what in part.backward if isinstance(what, Gemm)):
        done = back.trains if what.is_weight_gradient else back.passes
        total = total + done * what.flops
    return total


def _without_input_gradient(kinds: Kinds) -> Number:
    """FLOP of one sequence forward in multiplications of what goes into the model."""
    return _flops([part for part in kinds.embedding if len(part.backward) == 1])


def _flops(parts: list[LayerPart], square: bool = False) -> Number:
    return sum((_of_one(part, square) for part in parts), start=0.0)


def _of_one(part: LayerPart, square: bool) -> Number:
    what = part.forward
    if what is None or isinstance(what, (Collective, Offload, Transfer)):
        return 0.0
    if isinstance(what, CoreAttention):
        return what.square_flops if square else what.model_flops
    return what.flops
