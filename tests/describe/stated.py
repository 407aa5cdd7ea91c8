"""Runs as flags, settings and run files state them, for tests of all that starts from one."""

from collections.abc import Mapping
from pathlib import Path

from syncwall.describe import Run
from syncwall.describe.files import RunFile
from syncwall.describe.settings import Settings
from syncwall.describe.stated import StatedRun, stated_keys


def stated(path: Path | None, flags: Mapping[str, str], settings: Settings | None = None) -> StatedRun:
    """The run in `path`, with `settings` and then the texts of `flags` over it."""
    return StatedRun(stated_keys(flags), settings, RunFile(path))


def run_with(path: Path | None, flags: Mapping[str, str], settings: Settings | None = None) -> Run:
    """The run that these state."""
    return stated(path, flags, settings).run()
