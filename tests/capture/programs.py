"""Small programs to record; needs PyTorch."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from syncwall.capture.recorder import Recording, recording
from syncwall.work.operations import Collective
from syncwall.work.program import Call, RankProgram

EXAMPLE = Path(__file__).parents[2] / "examples" / "capture" / "llama_fsdp2.py"
Llama = runpy.run_path(str(EXAMPLE))["Llama"]
LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCABULARY, LENGTH = 2, 64, 4, 2, 128, 512, 32
LLAMA = (LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCABULARY, LENGTH)


def llama(device: str = "cuda") -> nn.Module:
    with torch.device("meta"):
        model = Llama(*LLAMA)
    return model.to_empty(device=device)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def language_loss(model: nn.Module, batch: int = 2) -> torch.Tensor:
    tokens = torch.randint(VOCABULARY, (batch, LENGTH + 1), device="cuda")
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def train(
    model: nn.Module, loss: Callable[[nn.Module], torch.Tensor], steps: int = 2, passes: int = 1
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        for _ in range(passes):
            loss(model).backward()
        optimizer.step()
        optimizer.zero_grad()


def recorded(program: Callable[[], Any], world_size: int = 8, **kwargs: Any) -> RankProgram:
    """The second step of a program that does two."""
    with recording(world_size, **kwargs) as found:
        program()
    return only(found)


def only(found: Recording) -> RankProgram:
    (rank,) = found.program().ranks
    return rank


def collectives(rank: RankProgram, axis: str | None = None) -> list[tuple[Call, Collective]]:
    return [
        (call, call.what)
        for call in rank
        if isinstance(call.what, Collective) and axis in {None, call.what.axis}
    ]


def named(rank: RankProgram) -> dict[str, Any]:
    """What the last call of each name does."""
    return {call.name: call.what for call in rank}
