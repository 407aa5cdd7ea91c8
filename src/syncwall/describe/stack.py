"""A model that is no transformer: its layers one by one, each as what one sample costs in it.

Holds `StackLayer`, `of_a_sample`, the sum over all layers, and `without_shapes`, which fills in the
fields of a transformer that such a model has no use for. Convolutional networks, U-Nets as a stack
of stages, anything that was counted elsewhere. A sample counts as one token: batches are samples,
and tokens/s are samples/s.
"""

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from syncwall.describe.base import Description, Layers, Quantity, Whole
from syncwall.units import Dimension

_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kMB])")
_SCALE: Final = {"k": 10**3, "M": 10**6, "B": 10**9}
_MOST_PARAMETERS: Final = 10**13


def _counted(stated: Any) -> Any:
    """10.5M as the whole number that it is; anything else as it is."""
    match = _COUNT.fullmatch(stated.strip()) if isinstance(stated, str) else None
    return round(float(match[1]) * _SCALE[match[2]]) if match else stated


Parameters = Annotated[int, Whole(0, _MOST_PARAMETERS), BeforeValidator(_counted)]
Flop = Annotated[float, Quantity(Dimension.FLOP, zero=True)]
StoredBytes = Annotated[float, Quantity(Dimension.BYTES, zero=True)]

READS_AND_WRITES: Final = 2.0
"""Memory traffic of a layer forward over what it keeps, where nobody counted: each tensor that is
kept is written once and read once. Assumed: in-place kernels move more, fused ones less."""


class StackLayer(Description):
    """One layer, or a stage of several, as what one sample costs in it."""

    name: str
    parameters: Parameters
    """All are trained; a whole number, or "10.5M"."""
    forward_flops: Flop = Field(alias="flops")
    """FLOP of the forward pass for one sample, a multiply-add as 2; backward counts twice that."""
    activation_bytes: StoredBytes = Field(alias="activations")
    """Kept for the backward pass for one sample, in the precision of the training."""
    moved_bytes: StoredBytes | None = Field(None, alias="moved")
    """Memory traffic of the forward pass for one sample; twice `activations` if not given."""
    output_bytes: StoredBytes | None = Field(None, alias="output")
    """What it hands on for one sample: all that is kept of it if it is recomputed."""
    repeat: Layers = 1
    """Such layers, one behind the other."""

    @property
    def traffic_bytes(self) -> float:
        """Memory traffic of the forward pass for one sample, stated or assumed."""
        kept = READS_AND_WRITES * self.activation_bytes
        return kept if self.moved_bytes is None else self.moved_bytes


Stack = tuple[StackLayer, ...]

_UNUSED: Final[dict[str, Any]] = {
    "hidden": 1, "attention": {"heads": 1}, "mlp": {"hidden": 1, "gated": False},
    "norm": {"kind": "none", "per_layer": 0, "final": False},
}  # fmt: skip
"""What stands in the place of shapes; nothing that is computed of a stack reads it."""
STANDING_IN: Final = frozenset({*_UNUSED, "layers", "train_seq"})
"""Fields of a model with a stack that nobody stated."""
_ABOUT: Final = {
    "name", "title", "aliases", "note", "provenance", "stack", "train_batch_tokens",
}  # fmt: skip
"""Fields that a model has whatever it is."""


def without_shapes(fields: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """`fields` of a model with a `stack`, and what stands in the place of shapes.

    `defaults` are those of all fields: written out again by us they may be there, other shapes not.
    """
    layers = sum(_repeats(one) for one in fields["stack"]) or 1  # none are refused later
    filled = {**_UNUSED, "layers": layers, "train_seq": 1}
    for name in sorted(fields.keys() & defaults.keys() - _ABOUT):
        if not _is_same(fields[name], filled.get(name, defaults[name])):
            raise ValueError(f'"{name}" is of a transformer: a model with a `stack` has none')
    return {**fields, **filled}


def of_a_sample(stack: Stack) -> dict[str, int]:
    """What one sample costs in all layers, by name with unit."""
    names = ("forward_flops", "activation_bytes", "traffic_bytes")
    return {name: round(sum(one.repeat * getattr(one, name) for one in stack)) for name in names}


def _repeats(layer: Any) -> int:
    """Layers that one entry stands for; 1 where what is written is no number (refused later)."""
    count = layer.get("repeat", 1) if isinstance(layer, dict) else getattr(layer, "repeat", 1)
    return count if isinstance(count, int) and count > 0 else 1


def _is_same(stated: Any, usual: Any) -> bool:
    """True if `stated` is what would stand there anyway, written out in whole or in part."""
    if isinstance(stated, Description):
        stated = stated.model_dump(exclude_defaults=True)
    if isinstance(stated, dict) and isinstance(usual, dict):
        return all(stated.get(name) == value for name, value in usual.items())
    return bool(stated == usual)
