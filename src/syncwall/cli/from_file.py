"""The `--from FILE` of every verb that takes a layout.

Holds `settings_of`.
"""

import sys
from pathlib import Path

from syncwall.describe.settings import Settings, read_settings


def settings_of(file: Path | None) -> Settings | None:
    """The settings in `file`; what of them is read only roughly is said on standard error."""
    if file is None:
        return None
    settings = read_settings(file)
    for note in settings.notes:
        print(note, file=sys.stderr)
    return settings
