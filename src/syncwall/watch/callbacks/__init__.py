"""For loops of frameworks: what they log goes along with the steps that are watched.

`huggingface.WatchCallback`, `lightning.WatchCallback`, `accelerate.WatchTracker` and
`torchtitan.WatchLogger` each start watching and tell loss, gradient norm and tokens. They are only
needed where these are wanted: steps, causes and checkpoints are seen without them. They share
`tell_logged`, and `Later`, which reads losses of a GPU without waiting for them.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from syncwall.watch.attach import tell

_LOSS: Final = ("loss", "train_loss", "train/loss", "loss_metrics/global_avg_loss")
_NORM: Final = ("grad_norm", "gradient_norm", "train/grad_norm", "grad_norm/global")
_MOST: Final = 16
"""Numbers that are waited for; a device that is farther behind is not asked."""


def tell_logged(values: Mapping[str, Any]) -> None:
    """Loss and gradient norm of a line of a log."""
    found = {name: _number(values, names) for name, names in (("loss", _LOSS), ("norm", _NORM))}
    tell(loss=found["loss"], gradient_norm=found["norm"])


def _number(values: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = values.get(name)
        if isinstance(value, (int, float)):
            return float(value)
    return None


class Later:
    """Losses on their way from a device: told when they have arrived, never waited for."""

    def __init__(self) -> None:
        self._coming: deque[tuple[Any, Any]] = deque()

    def tell(self, loss: Any) -> None:
        """A tensor with one number, or a number."""
        if not hasattr(loss, "detach"):
            tell(loss=float(loss))
        elif not loss.is_cuda:
            tell(loss=float(loss.detach()))
        elif len(self._coming) < _MOST:
            self._coming.append(self._sent(loss.detach()))
        while self._coming and self._coming[0][1].query():
            tell(loss=float(self._coming.popleft()[0]))

    @staticmethod
    def _sent(loss: Any) -> tuple[Any, Any]:
        import torch

        host = torch.empty((), dtype=loss.dtype, pin_memory=True)
        host.copy_(loss.reshape(()), non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return host, event
