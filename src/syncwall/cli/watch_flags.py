"""Flags with which a watched run is told to other programs.

Holds `OutletFlags`.
"""

import os
import time
from typing import Annotated

from syncwall.ask.question import Argument, LocalFile
from syncwall.describe.base import Description
from syncwall.problems import InputError


class OutletFlags(Description):
    """Who is told of a run while it trains."""

    prometheus: Annotated[str | None, Argument("ADDRESS")] = None
    """Answer Prometheus at this address and port, such as 127.0.0.1:9464; another than this
    machine's own needs SYNCWALL_TOKEN in the environment."""
    otlp: Annotated[str | None, Argument("URL")] = None
    """Send metrics to an OpenTelemetry collector, such as http://127.0.0.1:4318/v1/metrics."""
    webhook: Annotated[str | None, Argument("URL")] = None
    """Post every finding here as JSON."""
    alert: Annotated[str | None, Argument("COMMAND")] = None
    """Run this for every finding, with JSON on its standard input."""
    life: LocalFile | None = None
    """Append the life of the job here: goodput over all its starts."""
    steps: Annotated[int | None, Argument("N")] = None
    """Steps of the whole job: with --life, when it will be done."""

    def variables(self) -> dict[str, str]:
        """What the agent reads; InputError for what it could not do."""
        from syncwall.watch import exporters

        if self.prometheus:
            exporters.checked_address(self.prometheus, os.environ.get(exporters.TOKEN, ""))
        if self.webhook:
            exporters.checked_webhook(self.webhook)
        if self.life is not None and not self.life.absolute().parent.is_dir():
            raise InputError.of(f"--life: there is no folder {self.life.absolute().parent}")
        if self.steps is not None and self.life is None:
            raise InputError.of("--steps says when the job will be done only with --life FILE")
        given = {
            exporters.PROMETHEUS: self.prometheus,
            exporters.OTLP: self.otlp,
            exporters.WEBHOOK: self.webhook,
            exporters.ALERT: self.alert,
            exporters.LIFE: None if self.life is None else str(self.life.absolute()),
            exporters.STEPS: None if self.steps is None else str(self.steps),
        }
        stated = {name: value for name, value in given.items() if value is not None}
        return {**stated, exporters.SINCE: str(time.time())}
