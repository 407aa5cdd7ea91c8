"""The U-Net of Stable Diffusion, as a module of its published shapes.

Holds `UNet` (Rombach 2021, arXiv:2112.10752), of which `channels` makes a small one, and
`unet_inputs`.
"""

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, into: int, out: int, time: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList((nn.GroupNorm(32, into), nn.GroupNorm(32, out)))
        self.first = nn.Conv2d(into, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.second = nn.Conv2d(out, out, 3, padding=1)
        self.beside = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x, time):
        y = self.first(functional.silu(self.norms[0](x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.beside(x) + self.second(functional.silu(self.norms[1](y)))


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, source: int, head: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(source, width, bias=False)
        self.value = nn.Linear(source, width, bias=False)
        self.output = nn.Linear(width, width)
        self.head = head

    def forward(self, x, source):
        q, k, v = (
            part.unflatten(2, (-1, self.head)).transpose(1, 2)
            for part in (self.query(x), self.key(source), self.value(source))
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Mixed(nn.Module):  # type: ignore[misc]
    """A transformer layer over all pixels, with cross-attention to the text."""

    def __init__(self, width: int, text: int, head: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, width)
        self.into, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, width, head), Attention(width, text, head)
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, text):
        y = self.into(self.norm(x).flatten(2).transpose(1, 2))
        normed = self.norms[0](y)
        y = y + self.own(normed, normed)
        y = y + self.cross(self.norms[1](y), text)
        value, gate = self.up(self.norms[2](y)).chunk(2, -1)
        y = y + self.down(value * functional.gelu(gate))
        return x + self.out(y).transpose(1, 2).unflatten(2, x.shape[2:])


class Step(nn.Module):  # type: ignore[misc]
    """A residual block and, in most stages, a transformer layer."""

    def __init__(self, into: int, out: int, time: int, text: int, head: int) -> None:
        super().__init__()
        self.residual = Residual(into, out, time)
        self.mixed = Mixed(out, text, head) if head else None

    def forward(self, x, time, text):
        x = self.residual(x, time)
        return x if self.mixed is None else self.mixed(x, text)


class Larger(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return self.convolution(functional.interpolate(x, scale_factor=2.0))


class UNet(nn.Module):  # type: ignore[misc]
    """Of Stable Diffusion: `text` is 768 numbers a token in version 1 and 1,024 in version 2."""

    def __init__(self, channels: int = 320, text: int = 1024, head: int = 64) -> None:
        super().__init__()
        widths, time = [channels * times for times in (1, 2, 4, 4)], 4 * channels
        self.channels = channels
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, channels, 3, padding=1)
        skipped, into = [channels], channels
        self.down = nn.ModuleList()
        for stage, width in enumerate(widths):
            for _ in range(2):
                self.down.append(Step(into, width, time, text, head * (stage < 3)))
                skipped.append(width)
                into = width
            if stage < 3:
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                skipped.append(width)
        self.middle = Step(into, into, time, text, head)
        self.last_middle = Step(into, into, time, text, 0)
        self.up = nn.ModuleList()
        for stage, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                size = into + skipped.pop()
                self.up.append(Step(size, width, time, text, head * (stage < 3)))
                into = width
            if stage:
                self.up.append(Larger(width))
        self.norm = nn.GroupNorm(32, channels)
        self.last = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x, frequencies, text):
        time = self.time(frequencies)
        x = self.first(x)
        kept = [x]
        for one in self.down:
            x = one(x, time, text) if isinstance(one, Step) else one(x)
            kept.append(x)
        x = self.last_middle(self.middle(x, time, text), time, text)
        for one in self.up:
            is_step = isinstance(one, Step)
            x = one(torch.cat((x, kept.pop()), 1), time, text) if is_step else one(x)
        return self.last(functional.silu(self.norm(x)))


def unet_inputs(unet: UNet, samples: int, size: int, text: int = 1024):
    """Latents of `size`, the time step as frequencies, and 77 tokens of text."""
    latents = torch.randn(samples, 4, size, size)
    return latents, torch.randn(samples, unet.channels), torch.randn(samples, 77, text)
