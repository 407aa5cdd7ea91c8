"""A layout as settings of a framework, and what of it the format has no words for.

Holds `SettingsText` and `written`. What is written is read back at once, and every part of the
layout that does not come back is listed: a format never pretends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import is_open
from syncwall.describe.choice import Dtype, text_of
from syncwall.describe.layout import Layout, Recompute, Schedule, Shard
from syncwall.describe.model import Model
from syncwall.describe.names import load
from syncwall.describe.settings.formats import Format, format_named, parsed_text
from syncwall.describe.settings.rows import WriterContext
from syncwall.describe.settings.settings import Settings, SettingsContext
from syncwall.describe.software import Framework, Software, with_switches
from syncwall.describe.switches import FSDP, WIDE
from syncwall.problems import InputError


@dataclass(frozen=True, slots=True)
class SettingsText:
    """Settings as text, and what of the layout the format has no words for."""

    text: str
    unsaid: tuple[str, ...]
    """As in a run file ("pp: 8"): to be set in the training script, or not possible."""


def written(  # noqa: PLR0913 - a run has this many sides
    layout: Layout,
    format: str,  # noqa: A002 - the word that users know
    *,
    seq: int | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    model: Model | None = None,
    software: Software | None = None,
) -> SettingsText:
    """`layout` as settings of one of `FORMATS`; best resolved, with what is known of its run.

    What is open is as the framework does it at the date of the `software`.
    """
    one = format_named(format)
    gpus = None if nodes is None or gpus_per_node is None else nodes * gpus_per_node
    if gpus is None and not is_open(layout, "dp"):
        gpus = layout.gpus
    used = software or Software()
    layout = layout if gpus is None else layout.placed(gpus)
    layout = layout.model_copy(update={"shard": layout.plain().shard})  # switches depend on it
    layout = _switched(layout, one, used).plain()
    layers = None if model is None else model.layers
    experts, further = model is not None and model.moe is not None, 0 if model is None else model.mtp_layers
    text = one.write(layout, WriterContext(seq, nodes, gpus_per_node, layers, experts, further, used))
    back = one.read(parsed_text(text, Path("settings" + one.suffix)))
    read = partial(_read_with, back, one, used, SettingsContext(gpus, gpus_per_node, layers))
    unsaid = (*_unsaid(layout, read), *_unsaid_software(layout, used, one, back))
    if seq is not None and back.run.get("seq") != seq:
        unsaid = (*unsaid, f"seq: {seq}")
    if one.comment:
        header = [
            f"{one.title}, written by syncwall",
            *(f"not in this file: {it}" for it in unsaid),
        ]
        text = "".join(f"{one.comment} {line}\n" for line in header) + text
    return SettingsText(text, unsaid)


def _switched(layout: Layout, one: Format, software: Software) -> Layout:
    """`layout`, whose sharding is known, with what the framework does where it is open."""
    family = load(CatalogueKind.FRAMEWORK, Framework, one.framework)
    return with_switches(layout, family, software.date, software)


def _unsaid(layout: Layout, read: Callable[[dict[str, Any]], Layout]) -> list[str]:
    """Keys and values that, beside the settings, make `layout` of what is `read`."""
    keys = {name: Layout.model_fields[name].alias or name for name in _mattering(layout)}
    beside: dict[str, Any] = {}
    for names in (_AXES, {"dp"}, set(keys), set(keys)):  # what is said may change what follows
        found = read(beside)
        for name in names & set(keys):
            mine = getattr(layout, name)
            if mine is not None and mine != getattr(found, name):
                beside[keys[name]] = mine
    return sorted(f"{key}: {text_of(value)}" for key, value in beside.items())


_AXES: Final = {"tp", "cp", "pp"}


def _unsaid_software(layout: Layout, software: Software, one: Format, back: Settings) -> Iterator[str]:
    """The same of the software: what some settings say and these do not."""
    usual = load(CatalogueKind.FRAMEWORK, Framework, one.framework).kernels
    kernels, scaling = software.kernels or usual, software.fp8_scaling
    if back.software.get("kernels", usual) != kernels:
        yield f"software.kernels: {kernels}"
    if layout.precision == Dtype.FP8 and back.software.get("fp8_scaling", "tensor") != scaling:
        yield f"software.fp8_scaling: {scaling}"


def _read_with(
    back: Settings,
    one: Format,
    software: Software,
    machine: SettingsContext,
    beside: dict[str, Any],
) -> Layout:
    """The layout of settings with keys beside them; open where it would have to be chosen."""
    try:
        found = back.layout_on(machine, beside)
    except (ValidationError, InputError):  # what they state makes sense only with more beside
        found = Layout.model_validate({**back.layout, **beside})
    found = found if machine.gpus is None else found.placed(machine.gpus)
    if not is_open(found, "shard"):
        found = _switched(found, one, software)
    chosen = {name: getattr(found, name) for name in _CHOSEN}
    return found.plain().model_copy(update=chosen)


_CHOSEN: Final = ("shard", "micro_batch", "recompute", "schedule", "virtual_stages", "precision")
"""Open, these are chosen by time and memory: silence is not their default."""


def _mattering(layout: Layout) -> set[str]:
    """Fields that change something in this layout."""
    needs = {
        "sp": layout.tp > 1,
        "overlap_tp": layout.tp > 1,
        "async_tp": layout.tp > 1,
        "schedule": layout.pp > 1,
        "virtual_stages": layout.pp > 1,
        "overlap_pp": layout.pp > 1,
        "balanced_stages": layout.pp > 1 and layout.last_stage_layers is None,
        "first_stage_layers": layout.pp > 1,
        "last_stage_layers": layout.pp > 1,
        "cp_kind": layout.cp > 1,
        "overlap_ep": layout.ep > 1,
        "dispatcher": layout.ep > 1,
        "fp8_dispatch": layout.ep > 1,
        "capacity_factor": not layout.dropless,
        "tp_exposed_share": layout.tp > 1 and layout.overlap_tp,
        "ep_exposed_share": layout.ep > 1 and layout.overlap_ep,
        "bucket_bytes": layout.shard == Shard.DDP,
        "overlap_parameters": layout.shard != Shard.DDP,
        **dict.fromkeys(FSDP, layout.shard == Shard.FSDP),
        **dict.fromkeys(WIDE, layout.precision.size_bytes < 2),
        "recompute_layers": layout.recompute != 0,
        "recompute_modules": layout.recompute == Recompute.SELECTIVE,
        "narrow_activations": layout.precision.size_bytes < 2,
    }
    if layout.schedule != Schedule.INTERLEAVED and layout.virtual_stages == 1:
        needs["virtual_stages"] = False
    return {name for name in Layout.model_fields if needs.get(name, True)}
