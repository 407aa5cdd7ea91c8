"""Layers in bf16 among those in 8 or 4 bits.

Holds `WideCounts`, how many there are where, and `in_bf16`, the shape that they have.
"""

from dataclasses import dataclass, replace

from syncwall.describe import Layout, Model
from syncwall.describe.choice import Dtype
from syncwall.describe.layer_kinds import LayerKind
from syncwall.work.layer import ACTIVATION_BYTES, Shape
from syncwall.work.number import Number, least, where


def in_bf16(shape: Shape) -> Shape | None:
    """`shape` as its layers in bf16 have it; None if there are none."""
    layout = shape.layout
    narrow = layout.precision.size_bytes < ACTIVATION_BYTES
    if not narrow or not (layout.first_layers_bf16 or layout.last_layers_bf16):
        return None
    return replace(shape, layout=layout.model_copy(update={"precision": Dtype.BF16}))


@dataclass(frozen=True, slots=True)
class WideCounts:
    """Layers of one kind in bf16."""

    first: int
    last: int

    @classmethod
    def of(cls, model: Model, layout: Layout, kind: LayerKind) -> "WideCounts":
        """Of `kind`: leading dense layers come first; else kinds are taken to be mixed evenly."""
        first = min(layout.first_layers_bf16, model.layers)
        last = min(layout.last_layers_bf16, model.layers - first)
        leading = model.moe.dense_first if model.moe and model.pattern is None else 0
        if not leading:
            share = kind.count / model.layers
            return cls(round(first * share), round(last * share))
        dense = min(first, leading)
        return cls(first - dense, min(last, kind.count)) if kind.has_experts else cls(dense, 0)

    def within(self, layout: Layout, in_body: Number, in_last: Number) -> tuple[Number, Number]:
        """Of so many layers, those in bf16 in the fullest rank before the last, and in the last."""
        body = least(self.first, in_body)
        last = least(where(layout.pp > 1, self.last, self.first + self.last), in_last)
        return body, last
