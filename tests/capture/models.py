"""Models of several kinds, as people write them, at their real widths with few layers."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):  # type: ignore[misc]
    """A layer of a transformer that looks both ways; with `condition`, one of a DiT (adaLN)."""

    def __init__(self, width, heads, condition=False):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.modulation = nn.Linear(width, 6 * width) if condition else None

    def forward(self, x, condition=None):
        scales = [0.0, 0.0, 1.0] * 2
        if self.modulation is not None:
            scales = self.modulation(functional.silu(condition))[:, None].chunk(6, -1)
        shift, scale, gate, shift_2, scale_2, gate_2 = scales
        parts = self.joint(self.norms[0](x) * (1 + scale) + shift).unflatten(-1, (3, self.heads, -1))
        mixed = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4))
        x = x + gate * self.out(mixed.transpose(1, 2).flatten(2))
        inner = self.norms[1](x) * (1 + scale_2) + shift_2
        return x + gate_2 * self.down(functional.gelu(self.up(inner)))


class Patches(nn.Module):  # type: ignore[misc]
    """ViT, or with `condition` DiT: patches, layers, and a head for each patch."""

    def __init__(self, channels, size, patch, width, *, heads, layers, out, condition=False):
        super().__init__()
        self.patch = nn.Conv2d(channels, width, patch, patch)
        self.positions = nn.Parameter(torch.empty(1, (size // patch) ** 2, width))
        self.time = nn.Linear(256, width) if condition else None
        self.layers = nn.ModuleList(Block(width, heads, condition) for _ in range(layers))
        self.head = nn.Linear(width, out)

    def forward(self, images, time=None):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.positions
        condition = self.time(time) if self.time is not None else None
        for layer in self.layers:
            x = layer(x, condition)
        return self.head(x)


def vit_large(layers=2):
    return Patches(3, 224, 16, 1024, heads=16, layers=layers, out=1000)


def dit_xl(layers=2):
    return Patches(4, 32, 2, 1152, heads=16, layers=layers, out=32, condition=True)


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A block of ResNet-50."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, k, s in shapes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _, _ in shapes)
        self.shortcut = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        inner = x
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            inner = norm(convolution(inner))
            inner = functional.relu(inner) if number < 2 else inner
        return functional.relu(inner + self.shortcut(x))


def resnet_50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if number == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class UNet(nn.Module):  # type: ignore[misc]
    """Down, up, and what skips from one side to the other."""

    def __init__(self, widths=(64, 128, 256)):
        super().__init__()
        pairs = list(pairwise(widths))
        self.first = self._twice(3, widths[0])
        self.down = nn.ModuleList(self._twice(a, b) for a, b in pairs)
        self.rise = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs[::-1])
        self.up = nn.ModuleList(self._twice(2 * a, a) for a, _ in pairs[::-1])
        self.last = nn.Conv2d(widths[0], 3, 1)

    @staticmethod
    def _twice(inputs, outputs):
        parts = []
        for channels in (inputs, outputs):
            convolution = nn.Conv2d(channels, outputs, 3, padding=1)
            parts += [convolution, nn.GroupNorm(8, outputs), nn.SiLU()]
        return nn.Sequential(*parts)

    def forward(self, x):
        kept = [self.first(x)]
        for part in self.down:
            kept.append(part(functional.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for rise, part in zip(self.rise, self.up, strict=True):
            x = part(torch.cat((rise(x), kept.pop()), 1))
        return self.last(x)
