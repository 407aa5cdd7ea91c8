"""For Lightning: `Trainer(..., callbacks=[WatchCallback()])`.

Holds `WatchCallback`.
"""

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:  # the package has two names
    from pytorch_lightning import Callback

from syncwall.watch.attach import start
from syncwall.watch.callbacks import Later


class WatchCallback(Callback):
    """Watches the training; `expect` names what it should be like, as in `syncwall.watch.start`."""

    def __init__(self, expect: str | None = None) -> None:
        super().__init__()
        self._expect, self._later = expect, Later()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start, unless the process is watched already."""
        start(self._expect)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """The loss of the batch, once it has arrived."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._later.tell(loss)
