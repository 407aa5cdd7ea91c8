"""For torchtitan: `trainer.metrics_processor.logger.add_logger(WatchLogger())`.

Holds `WatchLogger`, which has the methods of torchtitan's `BaseLogger`. Written after its source,
not tested with torchtitan itself.
"""

from typing import Any

from syncwall.watch.attach import start
from syncwall.watch.callbacks import tell_logged


class WatchLogger:
    """Watches the training; `expect` names what it should be like, as in `syncwall.watch.start`."""

    def __init__(self, expect: str | None = None) -> None:
        start(expect)

    def log(self, metrics: dict[str, Any], step: int) -> None:
        """Loss and gradient norm of a step."""
        tell_logged(metrics)

    def close(self) -> None:
        """Nothing is open."""
