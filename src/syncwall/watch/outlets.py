"""Who an agent tells of its rounds, as variables of the environment ask for it.

Holds `Outlets`, all such listeners as one, and the names of the variables. What cannot be opened
is said once, and the rest goes on.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from syncwall.problems import InputError
from syncwall.watch.flops import stated_flops
from syncwall.watch.life_file import LifeFile
from syncwall.watch.live import Listener, Live
from syncwall.watch.outlook import outlook, rates_of
from syncwall.watch.recent import Recent
from syncwall.watch.snapshot_file import SnapshotFile

PROMETHEUS: Final = "SYNCWALL_WATCH_PROMETHEUS"
"""Address and port of the endpoint, such as 127.0.0.1:9464."""
OTLP: Final = "SYNCWALL_WATCH_OTLP"
"""Where metrics are sent to, such as http://127.0.0.1:4318/v1/metrics."""
WEBHOOK: Final = "SYNCWALL_WATCH_WEBHOOK"
ALERT: Final = "SYNCWALL_WATCH_ALERT"
LIFE: Final = "SYNCWALL_WATCH_LIFE"
"""File that all starts of a job share."""
SINCE: Final = "SYNCWALL_WATCH_SINCE"
"""When the command was started, since the epoch."""
STEPS: Final = "SYNCWALL_WATCH_STEPS"
"""Steps of the whole job, to say when it will be done."""
TOKEN: Final = "SYNCWALL_TOKEN"  # noqa: S105 - the name of the variable
_LIFE_EVERY_S: Final = 15.0
_LIFE_SHARE: Final = 0.002
"""Of a core, at most, for looking back at a long life and ahead."""


class Outlets:
    """All listeners of one agent."""

    def __init__(self, home: Path, given: Mapping[str, str]) -> None:
        self.recent = Recent()
        self._home = home
        self._life: LifeFile | None = None
        self._look_s = 0.0
        self._steps = int(given[STEPS]) if given.get(STEPS, "").isdecimal() else None
        self._listeners: list[Listener] = [self.recent]
        self._closed: list[Any] = []
        for name, open_one in self._ways(given).items():
            if given.get(name):
                self._open(open_one)
        self._listeners.append(SnapshotFile(self.recent, home))

    def _ways(self, given: Mapping[str, str]) -> dict[str, Callable[[], Any]]:
        from syncwall.watch.export.alerts import Alerts
        from syncwall.watch.export.otlp import OtlpExport
        from syncwall.watch.export.prometheus import PrometheusEndpoint

        token = given.get(TOKEN, "")
        return {
            PROMETHEUS: lambda: PrometheusEndpoint(self.recent, given[PROMETHEUS], token),
            OTLP: lambda: OtlpExport(self.recent, given[OTLP]),
            WEBHOOK: lambda: Alerts(webhook=given[WEBHOOK]),
            ALERT: lambda: Alerts(command=given[ALERT]),
            LIFE: lambda: LifeFile(Path(given[LIFE]), float(given.get(SINCE) or time.time())),
        }

    def _open(self, open_one: Callable[[], Any]) -> None:
        try:
            found = open_one()
        except (InputError, OSError, ValueError) as error:
            print(f"syncwall watch: {error}", file=sys.stderr, flush=True)
            return
        self._closed.append(found)
        if isinstance(found, LifeFile):
            self._life = found
        if hasattr(found, "round"):
            self._listeners.append(found)

    def round(self, live: Live) -> None:
        """Tell everybody."""
        for one in self._listeners:
            with suppress(Exception):  # the others are told, whatever one of them does
                one.round(live)
        if live.now_s >= self._look_s:
            began_s = time.process_time()
            with suppress(Exception):
                self._look_ahead(live)
            took_s = time.process_time() - began_s
            self._look_s = live.now_s + max(_LIFE_EVERY_S, took_s / _LIFE_SHARE)

    def close(self) -> None:
        """Send and write what is left."""
        for one in self._closed:
            with suppress(Exception):
                one.close()

    def _look_ahead(self, live: Live) -> None:
        """Figures that are not worth a look at every round."""
        stated = stated_flops(self._home, live.expected)
        self.recent.flops_per_token, self.recent.peak_flops = stated
        if self._life is None or not self._life.path.exists():
            return
        life = self._life.life(live.now_s)
        self.recent.goodput = life.goodput
        rates = rates_of(life)
        if rates is not None and self._steps is not None:
            self.recent.finish_s = outlook(rates, self._steps - life.steps)
