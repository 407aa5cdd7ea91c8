"""Models by the names that they have on the Hugging Face hub, without the internet.

Holds `is_hub_id`, `hub_model`, an entry of the catalogue or the config.json of a local copy, and
`configuration_name`.
"""

import os
import re
from pathlib import Path
from typing import Final

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.problems import InputError

_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_VARIANT: Final = re.compile(
    r"-(hf|base|instruct|chat|it|pt|bf16|original|v0\.\d|\d{4}|\d+e|17b)(?=-|$)", re.IGNORECASE
)
"""Parts of a name that change nothing of the shape: of tuning, format, date."""
_FILES: Final = (".yaml", ".yml", ".json", ".toml")


def is_hub_id(name: str) -> bool:
    """True if `name` looks like organisation/model and no file."""
    return bool(_ID.fullmatch(name)) and not name.endswith(_FILES)


def hub_model(name: str, *, files: bool = True) -> str | None:
    """Name in the catalogue, or else path of the configuration in the local cache, if `files`."""
    plain = name.split("/")[1].removeprefix("Meta-").removeprefix("meta-")
    for wanted in dict.fromkeys((plain, _VARIANT.sub("", plain))):
        try:
            return catalogue.find(CatalogueKind.MODEL, wanted).stem
        except InputError:
            continue
    found = _cached(name) if files else None
    return None if found is None else str(found)


def _cached(name: str) -> Path | None:
    """The newest config.json that the `huggingface_hub` package has stored of a model."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    stored = hub / f"models--{name.replace('/', '--')}" / "snapshots"
    if not stored.is_dir():
        return None
    copies = sorted(stored.glob("*/config.json"), key=lambda one: one.stat().st_mtime)
    return copies[-1] if copies else None


def configuration_name(path: Path) -> str:
    """What a model is called whose config.json is at `path`: as its folder, or as on the hub."""
    folder = path.absolute().parent
    if folder.parent.name != "snapshots":
        return folder.name
    return folder.parent.parent.name.rpartition("--")[2]
