"""Four training programs for the CPU, as people write them: `PROGRAMS`, by name.

Each makes its model, wraps it with DDP or FSDP2 and gives a function that does one step. The same
code runs on real tensors (`python -m bench accuracy steps` times it) and on those of a recording.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

Step = Callable[[], None]


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions with batch norms around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(3))
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        inner = functional.relu(self.norms[0](self.first(x)))
        inner = self.norms[1](self.second(inner))
        return functional.relu(inner + self.norms[2](self.shortcut(x)))


def conv_net() -> Step:
    """A small residual network on images of 64 x 64."""
    widths = (32, 64, 128, 256)
    blocks = [Residual(a, b, 2) for a, b in zip((32, *widths), widths, strict=False)]
    model = nn.Sequential(
        nn.Conv2d(3, 32, 5, 1, 2, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 100),
    )
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)

    def loss() -> torch.Tensor:
        images, labels = torch.randn(24, 3, 64, 64), torch.randint(0, 100, (24,))
        return functional.cross_entropy(model(images), labels)

    return _stepping(optimizer, loss)


class Block(nn.Module):  # type: ignore[misc]
    """A layer of a transformer; `feed` is its feed-forward part."""

    def __init__(self, width: int, heads: int, is_causal: bool, feed: nn.Module) -> None:
        super().__init__()
        self.heads, self.is_causal, self.feed = heads, is_causal, feed
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the feed-forward part."""
        parts = self.joint(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            parts[0], parts[1], parts[2], is_causal=self.is_causal
        )
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.feed(self.norms[1](x))


def dense(width: int) -> nn.Module:
    """The usual feed-forward part."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Vision(nn.Module):  # type: ignore[misc]
    """Patches of 8 x 8, layers, and a mean over all."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.positions = nn.Parameter(torch.zeros(1, 144, width))
        self.layers = nn.Sequential(*(Block(width, 6, False, dense(width)) for _ in range(layers)))
        self.head = nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of classes."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.layers(x).mean(1))


def vision_transformer() -> Step:
    """A vision transformer on images of 96 x 96."""
    model = DistributedDataParallel(Vision(384, 4))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def loss() -> torch.Tensor:
        images, labels = torch.randn(6, 3, 96, 96), torch.randint(0, 1000, (6,))
        return functional.cross_entropy(model(images), labels)

    return _stepping(optimizer, loss)


class Language(nn.Module):  # type: ignore[misc]
    """Embedding, layers and head."""

    def __init__(self, vocabulary: int, width: int, feeds: list[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*(Block(width, 4, True, feed) for feed in feeds))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next token."""
        return self.head(self.norm(self.layers(self.embedding(tokens))))


def _language_loss(model: nn.Module, batch: int, length: int, vocabulary: int) -> torch.Tensor:
    tokens = torch.randint(0, vocabulary, (batch, length + 1))
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def language_model() -> Step:
    """A small GPT."""
    model = DistributedDataParallel(Language(4096, 256, [dense(256) for _ in range(4)]))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return _stepping(optimizer, lambda: _language_loss(model, 4, 256, 4096))


def sharded_language_model() -> Step:
    """The same with FSDP2."""
    model = Language(4096, 256, [dense(256) for _ in range(4)])
    parts = [*model.layers, model]
    for part in parts:
        fully_shard(part).set_force_sum_reduction_for_comms(True)  # Gloo has no average
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return _stepping(optimizer, lambda: _language_loss(model, 4, 256, 4096))


class Experts(nn.Module):  # type: ignore[misc]
    """Experts that choose their tokens (Zhou 2022), those of a rank on it; all-to-all both ways."""

    def __init__(self, width: int, hidden: int, count: int, ranks: int) -> None:
        super().__init__()
        self.count, self.ranks = count, ranks
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count // ranks, width, hidden) * 0.02)
        self.down = nn.Parameter(torch.randn(count // ranks, hidden, width) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each token goes to two experts on average."""
        flat = x.flatten(0, 1)
        scores = functional.softmax(self.router(flat), -1)
        capacity = 2 * flat.shape[0] // self.count
        gates, chosen = scores.t().topk(capacity, -1)
        taken = self._exchanged(flat[chosen.flatten()])
        mine = taken.unflatten(0, (self.ranks, self.count // self.ranks, capacity))
        mine = mine.transpose(0, 1).flatten(1, 2)
        out = torch.bmm(functional.gelu(torch.bmm(mine, self.up)), self.down)
        back = out.unflatten(1, (self.ranks, capacity)).transpose(0, 1).flatten(0, 2)
        weighted = self._exchanged(back) * gates.flatten()[:, None]
        return torch.zeros_like(flat).index_add(0, chosen.flatten(), weighted).view_as(x)

    def _exchanged(self, rows: torch.Tensor) -> torch.Tensor:
        return funcol.all_to_all_single_autograd(rows.contiguous(), None, None, dist.group.WORLD)


def experts() -> Step:
    """A language model with experts in every layer, spread over the ranks."""
    feeds: list[nn.Module] = [Experts(256, 512, 8, dist.get_world_size()) for _ in range(4)]
    model = Language(4096, 256, feeds)
    own = [name for name, _ in model.named_parameters() if name.endswith(("up", "down"))]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, own)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return _stepping(optimizer, lambda: _language_loss(wrapped, 4, 256, 4096))


def _stepping(optimizer: Any, loss: Callable[[], torch.Tensor]) -> Step:
    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


PROGRAMS: Final[dict[str, Callable[[], Step]]] = {
    "conv net, DDP": conv_net,
    "vision transformer, DDP": vision_transformer,
    "GPT, DDP": language_model,
    "GPT, FSDP2": sharded_language_model,
    "experts, all-to-all and DDP": experts,
}
