"""Kinds of layers of a model whose layers are not alike.

Holds `LayerKind`, `Pattern`, `counted`, `alike` and `stacked`. A layer is one word of a pattern:
what mixes tokens (`M` a mixer, `*` attention, `M*` both side by side), then what works on each
token (`-` a dense feed-forward part, `E` experts); either may be missing. The letters are those of
Megatron-Core's hybrid models, in which every letter is a layer; here words are set apart by spaces:
`M-` is one layer and `M -` two. Layers of a `stack` were counted elsewhere and have neither letter.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import AfterValidator

from syncwall.describe.stack import Stack, StackLayer

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
        raise ValueError(
            f"a pattern is layers set apart by spaces, each M or * and then - or E: {what}"
        )
    return " ".join(words)


Pattern = Annotated[str, AfterValidator(_checked)]
"""Layers one by one, as letters."""


@lru_cache(maxsize=256)
def alike(dense: int, sparse: int | None) -> tuple[LayerKind, ...]:
    """Layers with attention, `dense` of them without and `sparse` with experts; None if the model
    has no experts at all.
    """
    kinds = (LayerKind("*", "-", dense),) if dense else ()
    return kinds if sparse is None else (*kinds, LayerKind("*", "E", sparse))


@lru_cache(maxsize=256)
def counted(pattern: str, layers: int) -> tuple[LayerKind, ...]:
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
