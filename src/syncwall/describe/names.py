"""Descriptions by name: from the catalogue, a file, the Hugging Face hub, or varied from
another one.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import CatalogueEntry, Description
from syncwall.describe.device import Device, Link
from syncwall.describe.reading import validated
from syncwall.documents import Document, read_document
from syncwall.problems import InputError

_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_VARIANT: Final = re.compile(
    r"-(hf|base|instruct|chat|it|pt|bf16|original|v0\.\d|\d{4}|\d+e|17b)(?=-|$)", re.IGNORECASE
)
"""Parts of a name that change nothing of the shape: of tuning, format, date."""
_CARDS: Final = re.compile(r"(?P<count>[1-9]\d{0,6})\s*x\s*(?P<card>\w.*)", re.IGNORECASE)
"""How a host with some cards is called."""
_MOST_CARDS: Final = 8
"""PCIe slots of one host."""
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


Described = TypeVar("Described", bound=CatalogueEntry)
_OWN: Final = ("name", "title", "aliases", "note", "provenance")
_MOST_BASES: Final = 16
_FILES_REFUSED: ContextVar[bool] = ContextVar("_FILES_REFUSED", default=False)


@contextmanager
def only_catalogue() -> Iterator[None]:
    """Refuse paths inside a `with` block, for names from untrusted sources."""
    before = _FILES_REFUSED.set(True)
    try:
        yield
    finally:
        _FILES_REFUSED.reset(before)


def files_refused() -> bool:
    """True inside a `with only_catalogue()` block."""
    return _FILES_REFUSED.get()


def load(
    kind: CatalogueKind,
    described: type[Described],
    name: str,
    directory: Path | None = None,
    leading_here: tuple[Path, ...] = (),
) -> Described:
    """The entry called `name`, or in the file `name` (seen from `directory`).

    `leading_here` are the files whose `base` led to this one. A model may have its name on the
    Hugging Face hub.
    """
    if kind is CatalogueKind.MODEL:
        name = _of_hub(name, directory)
    if looks_like_path(name):
        if files_refused():
            raise InputError.of(f'"{name}" is a path: only names of the catalogue are accepted here')
        path = _file(name, directory)
        path = path / "config.json" if path.is_dir() else path
    elif kind is CatalogueKind.CLUSTER and (cards := _cards(name)) is not None:
        return described.model_validate(cards)
    else:
        path = catalogue.find(kind, name)
        if not leading_here and catalogue.directories() == [catalogue.BUILT_IN]:
            return _built_in(kind, described, path)  # type: ignore[no-any-return]
    if path.resolve() in leading_here:
        raise InputError.of(f"{name} is based on itself")
    if len(leading_here) >= _MOST_BASES:
        raise InputError.of(f"{_MOST_BASES} files are based on each other: one or two are enough")
    return _read(kind, described, path, leading_here)


def _cards(name: str) -> dict[str, Any] | None:
    """The keys of a machine that is called by its cards, such as 2x3090; None if `name` is no such name."""
    found = _CARDS.fullmatch(name.strip())
    if found is None or catalogue.known(CatalogueKind.CLUSTER, name):
        return None
    words = (found["card"], f"rtx-{found['card']}")
    word = next((one for one in words if catalogue.known(CatalogueKind.DEVICE, one)), words[0])
    device, count = load(CatalogueKind.DEVICE, Device, word), int(found["count"])
    if device.scale_up is not None or device.pcie is None:
        raise InputError.of(
            f"{device.name} is no card of a PCIe slot: name a machine that has it (`syncwall show "
            f"clusters`), and beside it that {count} of its GPUs are used"
        )
    if count > _MOST_CARDS:
        raise InputError.of(
            f"{count} cards in one host: up to {_MOST_CARDS} are described, as {_MOST_CARDS}x{word}"
        )
    link = load(CatalogueKind.LINK, Link, device.pcie)
    return {
        "name": f"{count}x{found['card'].lower()}",
        "title": f"{count} x {device.title or device.name}",
        "node": {"device": device, "gpus": count},
        "scale_up": {
            "gpus": count,
            "topology": "pcie",
            "link": device.pcie,
            "rate_bytes_per_s": link.rate_bytes_per_s,
        },
        "provenance": {"trust": "assumed", "source": "syncwall-assumption"},
        "note": f"{count} x {device.name} in one host, {link.title or link.name} to each card, "
        "no NVLink bridge, no training network",
    }


def _of_hub(name: str, directory: Path | None) -> str:
    """`name`, or what stands for the model that the hub knows by it."""
    if not is_hub_id(name) or (not files_refused() and _file(name, directory).exists()):
        return name
    found = hub_model(name, files=not files_refused())
    if found is None:
        raise InputError.of(
            f'"{name}" is neither a file, nor in the catalogue, nor in the local cache of Hugging '
            "Face: save its config.json and name that file"
        )
    return found


def _file(name: str, directory: Path | None) -> Path:
    return (directory or Path()) / Path(name).expanduser()


@lru_cache(maxsize=512)
def _built_in(kind: CatalogueKind, described: type[Any], path: Path) -> Any:
    """An entry that nobody changes, read once; a user's catalogue could change all that use it."""
    return _read(kind, described, path, ())


def _read(
    kind: CatalogueKind, described: type[Described], path: Path, leading_here: tuple[Path, ...]
) -> Described:
    document = described.prepared(read_document(path))
    if isinstance(document.value, dict) and "base" in document.value:
        document = _expanded(document, kind, described, (*leading_here, path.resolve()))
    stem = path.stem if path.stem != "config" else configuration_name(path)
    return validated(document, described, name=stem)


def _expanded(
    document: Document,
    kind: CatalogueKind,
    described: type[CatalogueEntry],
    leading_here: tuple[Path, ...],
) -> Document:
    """`document` with what its `base` states beside it."""
    directory = Path(document.file).parent
    try:
        value = _varied(document.value, kind, described, directory, leading_here)
    except InputError as error:
        raise InputError([document.problem(("base",), str(error))]) from None
    return Document(document.file, value, document.places)


def _varied(
    fields: dict[str, Any],
    kind: CatalogueKind,
    described: type[CatalogueEntry],
    directory: Path | None,
    leading_here: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """`fields` and, where they are silent, what their `base` states."""
    base = load(kind, described, str(fields["base"]), directory, leading_here)
    inherited = {key: value for key, value in stated(base).items() if key not in _OWN}
    changes = {key: value for key, value in fields.items() if key != "base"}
    if isinstance(base, Device):
        changes = Device.varied(base, changes)
    return _merged(inherited, changes)


def varied(base: Device, changes: dict[str, Any]) -> Device:
    """`base` with some fields changed; its calibration stays that of the chip."""
    inherited = {**stated(base), "like": base.like or base.name}
    return Device.model_validate(_merged(inherited, Device.varied(base, changes)))


def looks_like_path(name: str) -> bool:
    """True if `name` can only be meant as a file or a directory."""
    return name.endswith((".yaml", ".yml", ".json")) or "/" in name or "\\" in name


@dataclass(frozen=True, slots=True)
class Ref:
    """Field annotation: an entry of this kind, by name, by path or in place."""

    kind: CatalogueKind

    def __get_pydantic_core_schema__(
        self, source: type[CatalogueEntry], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        def resolve(value: Any, info: ValidationInfo) -> Any:
            directory = (info.context or {}).get("directory")
            try:
                if isinstance(value, str):
                    return load(self.kind, source, value, directory)
                if isinstance(value, dict) and "base" in value:
                    return _varied(value, self.kind, source, directory)
            except InputError as error:
                raise PydanticCustomError("syncwall", "{message}", {"message": str(error)}) from None
            return value

        return core_schema.with_info_before_validator_function(resolve, handler(source))


def stated(description: Description) -> dict[str, Any]:
    """The fields that `description` was made from, by the keys that a file would use."""
    fields: dict[str, Any] = {}
    for name in description.model_fields_set:
        value = getattr(description, name)
        inner = isinstance(value, Description) and not isinstance(value, CatalogueEntry)
        fields[type(description).model_fields[name].alias or name] = stated(value) if inner else value
    return fields


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes`; mappings inside are merged key by key."""
    merged = dict(base)
    for key, change in changes.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(change, dict) and "value" not in change:
            merged[key] = _merged(before, change)
        else:
            merged[key] = change
    return merged


DeviceRef = Annotated[Device, Ref(CatalogueKind.DEVICE)]
