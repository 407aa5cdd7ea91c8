"""Kinds of layers of a model whose layers are not alike: mixers in the place of attention,
counted ones.

Convolutional networks, U-Nets as a stack of stages, anything that was counted elsewhere. A sample
counts as one token: batches are samples, and tokens/s are samples/s.

A layer is one word of a pattern: what mixes tokens (`M` a mixer, `*` attention, `M*` both side by
side), then what works on each token (`-` a dense feed-forward part, `E` experts); either may be
missing. The letters are those of Megatron-Core's hybrid models, in which every letter is a layer;
here words are set apart by spaces: `M-` is one layer and `M -` two. Layers of a `stack` were
counted elsewhere and have neither letter.

Sources: Mamba (Gu and Dao 2023, arXiv:2312.00752), Mamba-2 (Dao and Gu 2024, arXiv:2405.21060),
gated DeltaNet (Yang 2024, arXiv:2412.06464), Kimi Delta Attention (Kimi Linear 2025,
arXiv:2510.26692), lightning attention (MiniMax-01 2025, arXiv:2501.08313), gated short convolutions
(LFM2 2025, arXiv:2511.23404); widths as `transformers` has them.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from syncwall.describe.base import Description, Layers, NotNegative, Positive, Quantity, Whole
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
    "hidden": 1,
    "attention": {"heads": 1},
    "mlp": {"hidden": 1, "gated": False},
    "norm": {"kind": "none", "per_layer": 0, "final": False},
}
"""What stands in the place of shapes; nothing that is computed of a stack reads it."""
STANDING_IN: Final = frozenset({*_UNUSED, "layers", "train_seq"})
"""Fields of a model with a stack that nobody stated."""
_ABOUT: Final = {
    "name",
    "title",
    "aliases",
    "note",
    "provenance",
    "stack",
    "train_batch_tokens",
}
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


MixerLetters = Literal["M", "*", "M*", ""]
FeedForwardLetter = Literal["-", "E", ""]
_WORD: Final = re.compile(r"(?P<mixer>M?\*?)(?P<feed_forward>[-E]?)")
BLOCKS: Final = 2
"""Parts of a whole layer, each behind its own norm: what mixes tokens, what works on each."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """One kind of layer, and how many there are."""

    mixer: MixerLetters
    feed_forward: FeedForwardLetter
    count: int
    alike: int | None = None
    """Layers with experts, or without, as this one is; None if all of them are of this kind."""
    counted: StackLayer | None = None
    """What it costs, of a layer that was counted elsewhere; None if its shapes say so."""

    @property
    def share(self) -> float:
        """Of the layers with experts, or of those without."""
        return 1.0 if self.alike is None else self.count / self.alike

    @property
    def has_experts(self) -> bool:
        """True if it routes to experts."""
        return self.feed_forward == "E"

    @property
    def letters(self) -> str:
        """Its word in a pattern; none of a layer that was counted elsewhere."""
        return self.mixer + self.feed_forward

    @property
    def blocks(self) -> int:
        """Parts of it: two, or one."""
        return bool(self.mixer) + bool(self.feed_forward)

    @property
    def words(self) -> str:
        """Its name, in the words of a dense and an expert layer where it is one."""
        if self.counted is not None:
            return self.counted.name
        if self.mixer == "*" and self.feed_forward:
            return "expert layer" if self.has_experts else "dense layer"
        first = {"M": "mixer", "*": "attention", "M*": "mixer, attention", "": ""}[self.mixer]
        second = {"-": "MLP", "E": "expert", "": ""}[self.feed_forward]
        return f"{' and '.join(word for word in (first, second) if word)} layer"


def _checked(pattern: str) -> str:
    words = pattern.split()
    wrong = next((word for word in words if not _WORD.fullmatch(word)), None)
    if not words or wrong is not None:
        what = f'"{wrong}" in it is none' if words else "it is empty"
        raise ValueError(f"a pattern is layers set apart by spaces, each M or * and then - or E: {what}")
    return " ".join(words)


Pattern = Annotated[str, AfterValidator(_checked)]
"""Layers one by one, as letters."""


@lru_cache(maxsize=256)
def attention_kinds(dense: int, sparse: int | None) -> tuple[LayerKind, ...]:
    """Layers with attention, `dense` of them without and `sparse` with experts; None if the model
    has no experts at all.
    """
    kinds = (LayerKind("*", "-", dense),) if dense else ()
    return kinds if sparse is None else (*kinds, LayerKind("*", "E", sparse))


@lru_cache(maxsize=256)
def kind_counts(pattern: str, layers: int) -> tuple[LayerKind, ...]:
    """The kinds of layers in `pattern`, repeated until there are `layers`, in their first order."""
    words = pattern.split()
    found = Counter(words)
    times = layers // len(words)
    with_experts = sum(count for word, count in found.items() if "E" in word)
    kinds = []
    for word, count in found.items():
        match = _WORD.fullmatch(word)
        assert match is not None, "the pattern is checked"
        alike = with_experts if "E" in word else len(words) - with_experts
        others = None if alike == count else alike * times
        mixer, feed_forward = match["mixer"], match["feed_forward"]
        kinds.append(LayerKind(mixer, feed_forward, count * times, others))  # type: ignore[arg-type]
    return tuple(sorted(kinds, key=lambda kind: kind.has_experts))


@lru_cache(maxsize=64)
def stacked(stack: Stack) -> tuple[LayerKind, ...]:
    """Every entry of a stack as a kind of its own, in their order."""
    layers = sum(one.repeat for one in stack)
    return tuple(LayerKind("", "", one.repeat, layers, one) for one in stack)


MixerName = Literal["mamba-1", "mamba-2", "gated-delta", "kimi-delta", "lightning", "short-conv"]


class Mixer(Description):
    """Linear attention, a state-space layer or a gated convolution."""

    kind: MixerName
    heads: Positive
    """Heads of values; each has a state of `key_dim` by `head_dim`."""
    head_dim: Positive
    """Dimensions of a value head."""
    key_heads: Positive | None = None
    """Heads of keys and queries (groups of B and C in Mamba); equal to `heads` if not given."""
    key_dim: Positive | None = None
    """Dimensions of a key head (the state of Mamba); equal to `head_dim` if not given."""
    conv: NotNegative = 4
    """Tokens that the short convolution sees; 0 if there is none."""
    conv_bias: bool = False
    bias: bool = False
    """True if the projections into and out of it have biases."""
    rank: Positive | None = None
    """Width through which Mamba-1 projects time steps; its heads are channels, of `head_dim` 1."""
    output_norm: bool = True
    """False if the output of Mamba-2 has no norm (Falcon-H1)."""
    inner_norms: bool = False
    """Norms on time steps, keys and queries of Mamba-1 (Jamba)."""
    chunk: Positive = 64
    """Tokens that are worked on at once, as attention; the state links one chunk to the next."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.heads % self.groups:
            raise ValueError(f"{self.groups} key_heads do not divide {self.heads} heads")
        if self.kind == "lightning" and self.conv:
            raise ValueError("lightning attention has no convolution: conv must be 0")
        if (self.kind == "mamba-1") != (self.rank is not None):
            raise ValueError("`rank` goes with mamba-1")
        return self

    @property
    def groups(self) -> int:
        """Heads of keys and queries."""
        return self.key_heads or self.heads

    @property
    def state(self) -> int:
        """Dimensions of a key head."""
        return self.key_dim or self.head_dim

    @property
    def value_width(self) -> int:
        """Dimensions of all values together, and of the output."""
        return self.heads * self.head_dim

    @property
    def key_width(self) -> int:
        """Dimensions of all keys together; queries have as many."""
        return self.groups * self.state

    @property
    def mixed_width(self) -> int:
        """Dimensions of values, keys and queries, over which the convolution goes; of values alone
        in Mamba-1, which makes the others out of them, and in LFM2, which has no others.
        """
        if self.kind in ("mamba-1", "short-conv"):
            return self.value_width
        return self.value_width + 2 * self.key_width

    @property
    def gate_rank(self) -> int | None:
        """Width through which decay and output gate are projected; None if directly."""
        return self.head_dim if self.kind == "kimi-delta" else None

    @property
    def scalars(self) -> int:
        """Numbers for each token that no other width counts: time steps, decays, strengths."""
        return {"mamba-2": 1, "gated-delta": 2, "kimi-delta": 1}.get(self.kind, 0) * self.heads

    @property
    def inner_width(self) -> int:
        """Dimensions of time steps, keys and queries that Mamba-1 projects values to; else 0."""
        return self.rank + 2 * self.state if self.rank else 0

    @property
    def input_width(self) -> int:
        """Dimensions that one projection of the hidden state gives."""
        gates = 2 * self.gate_rank if self.gate_rank else self.value_width
        if self.kind == "short-conv":  # before and behind the convolution
            gates = 2 * self.value_width
        return self.mixed_width + gates + self.scalars
