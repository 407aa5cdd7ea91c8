"""Tokens that are pieces of an image or of sound, and what conditions a model that makes images.

Holds `Patches`, `Frames` and `Conditioning` with their exact parameters. Sources: ViT (Dosovitskiy
2020, arXiv:2010.11929), DiT (Peebles and Xie 2022, arXiv:2212.09748), Whisper's model.py.
"""

from typing import Self

from pydantic import model_validator

from syncwall.describe.base import Description, NotNegative, Positive


class Patches(Description):
    """Squares of an image, each projected to a token."""

    image: Positive
    """Pixels of a side; of the latent where the model works on one."""
    size: Positive
    """Pixels of a side of a patch."""
    channels: Positive = 3
    extra_tokens: NotNegative = 0
    """Learned tokens beside them (of the class, registers)."""
    bias: bool = True
    predicted: NotNegative = 0
    """Channels that the model predicts for every pixel (diffusion); 0 if it predicts none."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.image % self.size:
            raise ValueError(f"patches of {self.size} pixels do not divide images of {self.image}")
        return self

    @property
    def count(self) -> int:
        """Patches of an image."""
        return (self.image // self.size) ** 2

    @property
    def tokens(self) -> int:
        """Tokens of an image."""
        return self.count + self.extra_tokens

    @property
    def width(self) -> int:
        """Numbers in a patch."""
        return self.size**2 * self.channels

    def parameters(self, hidden: int) -> int:
        """Parameters of the projection to `hidden` dimensions, and of the learned tokens."""
        return (self.width + self.bias + self.extra_tokens) * hidden


class Frames(Description):
    """Frames of a spectrogram, two of which become a token in two convolutions (Whisper)."""

    channels: Positive
    """Numbers of a frame: mel bins."""
    tokens: Positive
    """Tokens of a sample, half as many as frames."""
    kernel: Positive = 3

    def parameters(self, hidden: int) -> int:
        """Parameters of both convolutions, with their biases."""
        return (self.kernel * (self.channels + hidden) + 2) * hidden


class Conditioning(Description):
    """Time step and class as one vector that shifts, scales and gates every layer (adaLN-Zero)."""

    classes: NotNegative = 0
    """Rows of the embedding of classes, that of no class among them."""
    frequencies: Positive = 256
    """Numbers in which the time step is written, before its two projections."""

    def parameters(self, hidden: int) -> int:
        """Parameters of what makes the vector."""
        return (self.classes + self.frequencies + 1 + hidden + 1) * hidden


SHIFT_SCALE_GATE, SHIFT_SCALE = 3, 2
"""Vectors of the hidden width for a norm within a layer, and for the final one."""
