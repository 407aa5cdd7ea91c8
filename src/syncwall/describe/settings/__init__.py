"""Settings files of other people's software as layouts, and layouts as such files.

Holds `read_settings` (whichever format a file has), `written` (a layout as text of a format) and
`FORMATS`: torchtitan, Megatron-LM, DeepSpeed and Hugging Face accelerate.
"""

from syncwall.describe.settings.formats import FORMATS, Format, read_settings
from syncwall.describe.settings.settings import DeferredSettings, Settings, SettingsContext
from syncwall.describe.settings.writing import SettingsText, written

__all__ = [
    "FORMATS",
    "DeferredSettings",
    "Format",
    "Settings",
    "SettingsContext",
    "SettingsText",
    "read_settings",
    "written",
]
