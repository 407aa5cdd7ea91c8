"""For accelerate: `Accelerator(log_with=WatchTracker())`, then `accelerator.log({"loss": ...})`.

Holds `WatchTracker`.
"""

from typing import Any

from accelerate.tracking import GeneralTracker

from syncwall.watch.attach import start
from syncwall.watch.callbacks import tell_logged


class WatchTracker(GeneralTracker):
    """Watches the training; `expect` names what it should be like, as in `syncwall.watch.start`."""

    name = "syncwall"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, expect: str | None = None) -> None:
        super().__init__(_blank=True)
        start(expect)

    @property
    def tracker(self) -> None:
        """Nothing to reach: an agent listens."""
        return

    def start(self) -> None:
        """Nothing to open."""

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Not kept."""

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """Loss and gradient norm."""
        tell_logged(values)
