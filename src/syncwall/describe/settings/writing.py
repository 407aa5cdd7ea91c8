"""A layout as settings of a framework, and what of it the format has no words for.

Holds `Written` and `written`. What is written is read back at once, and every part of the layout
that does not come back is listed: a format never pretends.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from syncwall.catalogue import Kind
from syncwall.describe.choice import Choice, Dtype
from syncwall.describe.framework import Framework
from syncwall.describe.framework_switches import switches
from syncwall.describe.layout import Layout, Schedule, Shard
from syncwall.describe.model import Model
from syncwall.describe.names import load
from syncwall.describe.settings.formats import FORMATS, parsed
from syncwall.describe.settings.stated import Machine, Settings
from syncwall.describe.settings.wanted import Wanted
from syncwall.problems import InputError, did_you_mean


@dataclass(frozen=True, slots=True)
class Written:
    """Settings as text, and what of the layout the format has no words for."""

    text: str
    unsaid: tuple[str, ...]
    """As in a run file ("pp: 8"): to be said in the training script, or not possible."""


def written(
    layout: Layout,
    format: str,  # noqa: A002 - the word that users know
    *,
    seq: int | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    model: Model | None = None,
) -> Written:
    """`layout` as settings of one of `FORMATS`; best resolved, with what is known of its run."""
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS) or f"; known are {', '.join(FORMATS)}"
        raise InputError.of(f'unknown settings format "{format}"{hint}')
    one = FORMATS[format]
    if nodes is not None and gpus_per_node is not None:
        layout = layout.resolved(nodes * gpus_per_node)
    layers = None if model is None else model.layers
    experts = model is not None and model.moe is not None
    text = one.write(layout, Wanted(seq, nodes, gpus_per_node, layers, experts))
    gpus = layout.gpus if layout.dp is not None else None
    back = one.read(parsed(text, Path("settings" + one.suffix)))
    whole = layout if gpus is None else layout.resolved(gpus)
    unsaid = tuple(_unsaid(whole, back, Machine(gpus, gpus_per_node, layers), one.own))
    if seq is not None and back.run.get("seq") != seq:
        unsaid = (*unsaid, f"seq: {seq}")
    if one.comment:
        said = [f"{one.title}, written by syncwall", *(f"not said here: {it}" for it in unsaid)]
        text = "".join(f"{one.comment} {line}\n" for line in said) + text
    return Written(text, unsaid)


def _unsaid(layout: Layout, back: Settings, machine: Machine, own: frozenset[str]) -> list[str]:
    """Keys and values that make `layout` of the settings that were read back."""
    keys = {name: Layout.model_fields[name].alias or name for name in _mattering(layout) - own}
    beside: dict[str, Any] = {}
    for names in (_AXES, {"dp"}, set(keys), set(keys)):  # what is said may change what follows
        found, stated = _read_with(back, beside, machine)
        for name in names & set(keys):
            mine, silent = getattr(layout, name), name in _CHOSEN and name not in stated
            if mine is not None and (mine != getattr(found, name) or silent):
                beside[keys[name]] = mine
    return sorted(f"{key}: {_shown(value)}" for key, value in beside.items())


_AXES: Final = {"tp", "cp", "pp"}


def _read_with(
    back: Settings, beside: dict[str, Any], machine: Machine
) -> tuple[Layout, frozenset[str]]:
    """The layout of settings with keys beside them, and the fields that they state."""
    try:
        found = back.layout_on(machine, beside)
    except (ValidationError, InputError):  # what they state makes sense only with more beside
        found = Layout.model_validate({**back.layout, **beside})
    stated = frozenset(found.model_fields_set)
    found = found if machine.gpus is None else found.resolved(machine.gpus)
    return _as_its_framework(found, back.software["framework"]), stated


def _as_its_framework(layout: Layout, name: str) -> Layout:
    """`layout` with the framework's own choice where the settings are silent."""
    usual = switches(load(Kind.FRAMEWORK, Framework, name), None, layout.shard)
    stated = layout.model_fields_set
    update = {field: value for field, value in usual.items() if field not in stated}
    if layout.precision == Dtype.FP16:
        update.pop("gradient_dtype", None)
    return layout.model_copy(update=update)


_CHOSEN: Final = frozenset({"micro_batch", "recompute", "schedule", "virtual_stages", "precision"})
"""Open, these are chosen by time and memory: silence is not their default."""
_ASSUMED: Final = frozenset({"expert_imbalance", "tp_left", "ep_left"})
"""Properties of a run that no setting changes."""


def _mattering(layout: Layout) -> set[str]:
    """Fields that change something in this layout."""
    needs = {
        "sp": layout.tp > 1, "overlap_tp": layout.tp > 1, "async_tp": layout.tp > 1,
        "schedule": layout.pp > 1, "virtual_stages": layout.pp > 1, "overlap_pp": layout.pp > 1,
        "balanced_stages": layout.pp > 1, "cp_kind": layout.cp > 1,
        "overlap_ep": layout.ep > 1, "merged_ep": layout.ep > 1, "dropless": layout.ep > 1,
        "bucket_bytes": layout.shard == Shard.DDP,
        "overlap_parameters": layout.shard != Shard.DDP,
        "recompute_layers": layout.recompute != 0,
    }  # fmt: skip
    if layout.schedule != Schedule.INTERLEAVED and layout.virtual_stages == 1:
        needs["virtual_stages"] = False
    return {name for name in Layout.model_fields if needs.get(name, True)} - _ASSUMED


def _shown(value: Any) -> str:
    if isinstance(value, Choice):
        return value.text
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(getattr(value, "text", value))
