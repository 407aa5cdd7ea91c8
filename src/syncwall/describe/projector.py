"""What makes tokens of a decoder out of those of an encoder.

Holds `Projector` with its exact parameters. Sources: LLaVA 1.5 (two matrices), Qwen2-VL and
InternVL (four tokens side by side become one), Gemma 3 (sixteen are averaged), Llama 4 and
Mistral Small 3.1 (three matrices), Qwen3-VL (DeepStack), as their code in `transformers` 5 has it.
"""

from itertools import pairwise
from typing import Literal

from syncwall.describe.base import Description, NotNegative, Positive

NormWeights = Literal["none", "rms", "layer"]
_EACH = {"none": 0, "rms": 1, "layer": 2}


class Projector(Description):
    """Matrices from tokens of an encoder to tokens of a model: one, or several."""

    merge: Positive = 1
    """Tokens that become one, their numbers side by side."""
    pool: Positive = 1
    """Tokens that become one, their numbers averaged (Gemma 3)."""
    skip: NotNegative = 0
    """Tokens of each sequence that are left out: that of the class."""
    hidden: Positive | tuple[Positive, ...] | None = None
    """Width between two matrices, or widths between more of them; None if there is one matrix."""
    bias: bool = True
    norm: NormWeights = "none"
    """A norm before the first matrix."""
    norm_merged: bool = False
    """True if that norm is over merged tokens, False if over those of the encoder."""
    further: NotNegative = 0
    """Projectors like it for the output of earlier layers, which is added behind as many layers of
    the model; their norm is over merged tokens (Qwen3-VL's DeepStack)."""
    learned_tokens: NotNegative = 0
    """Learned tokens of the model's width that it puts between (LLaVA-NeXT's new line)."""

    def matrices(self, width: int, hidden: int) -> list[tuple[int, int]]:
        """Rows and columns, from tokens of `width` to tokens of `hidden`."""
        between = (self.hidden,) if isinstance(self.hidden, int) else self.hidden or ()
        widths = (self.merge * width, *between, hidden)
        return [(rows, into) for into, rows in pairwise(widths)]

    def parameters(self, width: int, hidden: int) -> int:
        """Parameters of it, from tokens of `width` to tokens of `hidden`."""
        plain = sum(rows * (into + self.bias) for rows, into in self.matrices(width, hidden))
        merged = self.merge * width
        own = _EACH[self.norm] * (merged if self.norm_merged else width)
        more = self.further * (plain + _EACH[self.norm] * merged)
        return plain + own + more + self.learned_tokens * hidden
