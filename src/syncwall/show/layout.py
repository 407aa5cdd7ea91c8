"""A layout and a run in a few words, and layouts side by side."""

from collections.abc import Sequence
from typing import Any

from syncwall import units
from syncwall.describe import Layout, Model, Run
from syncwall.describe.choice import text_of
from syncwall.describe.layout import ATTENTION_ALONE, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.switches import FSDP
from syncwall.show.numbers import plural
from syncwall.units import Dimension

_AXES = ("tp", "pp", "cp", "ep", "etp", "dp")
_KEPT = ("tp", "pp", "dp", "micro batch")
"""Columns that a table of layouts always has."""


def run_title(run: Run) -> str:
    """What runs where, for a heading."""
    device = run.cluster.device
    return f"{run.model.title or run.model.name} on {run.gpus:,} × {device.title or device.name}"


def run_words(run: Run) -> str:
    """What runs where: model, GPUs, machine, layout, batch and tokens of a step."""
    device, batch = run.cluster.device, int(run.layout.global_batch or 1)
    return (
        f"{run.model.name} on {run.gpus:,} × {device.title or device.name} "
        f"({plural(run.nodes, 'node')} of {run.cluster.name}): {layout_words(run.layout)}, "
        f"{run.layout.precision}; {plural(batch, sample(run.model))}{_of(run)} a step"
    )


def _of(run: Run) -> str:
    """How long the samples of a step are, and their tokens all together, where they have any."""
    if run.model.stack is not None:
        return ""
    tokens = units.format(float(run.tokens_per_step), Dimension.TOKENS, digits=3)
    return f" of {run.seq:,}, {tokens}"


def sample(model: Model) -> str:
    """What a sequence of `model` is."""
    if model.stack is not None:
        return "sample"
    return "sequence" if model.patches is None else "image"


def speed_unit(model: Model) -> str:
    """What the speed of `model` is counted in."""
    return "tokens" if model.stack is None else "samples"


def of_tokens(model: Model, seq: int) -> str:
    """How long a sequence of `model` is, to be put behind their number."""
    return f" of {seq:,} tokens" if model.stack is None else ""


def layout_words(layout: Layout) -> str:
    """What a layout is, without what is usual: "tp 4, pp 8 (12 virtual stages), zero1, ..."."""
    words = []
    for axis in _AXES:
        if getattr(layout, axis) != 1:
            pipeline = f" ({schedule(layout)})" if axis == "pp" else ""
            words.append(f"{axis} {getattr(layout, axis)}{pipeline}")
    if layout.sp:
        words.append("sp")
    words += [sharding(layout), *_tuned(layout), f"micro batch {layout.micro_batch}"]
    words += _trained(layout)
    if layout.document_tokens is not None:
        words.append(f"documents of {layout.document_tokens:,}")
    if layout.recompute != Recompute.NONE:
        words.append(f"recompute {recomputation_words(layout)}")
    if layout.ep > 1 and layout.dispatcher != Dispatcher.ALL_TO_ALL:
        words.append(layout.dispatcher.text)
    if layout.overlap_ep:
        words.append("overlap_ep")
    return ", ".join(words)


def _trained(layout: Layout) -> list[str]:
    """What is trained, if not everything, and what of it is on the host."""
    words = []
    if layout.lora is not None:
        kept = f" on {layout.lora.weights}" if layout.lora.weights else ""
        words.append(f"LoRA {layout.lora.rank}{kept}")
    elif layout.frozen_weights:
        words.append("frozen weights")
    if layout.frozen:
        words.append(f"frozen {' and '.join(layout.frozen)}")
    if layout.frozen_layers:
        words.append(plural(layout.frozen_layers, "frozen layer"))
    if layout.offload_weights:
        words.append("weights on the host")
    return words


def _tuned(layout: Layout) -> list[str]:
    """What of DDP's buckets or of FSDP is not as usual."""
    names = {Shard.DDP: ("bucket_bytes",), Shard.FSDP: FSDP}.get(layout.shard, ())
    stated = {name: getattr(layout, name) for name in names}
    usual = {name: Layout.model_fields[name].default for name in names}
    return [setting_words(name, one) for name, one in stated.items() if one != usual[name]]


def setting_words(name: str, value: Any) -> str:
    """A field as a run file writes it."""
    if name == "bucket_bytes":
        return f"bucket {units.format(value, Dimension.BYTES)}"
    return f"{name} {text_of(value)}"


def columns(layouts: Sequence[Layout]) -> dict[str, list[str]]:
    """Columns of a table of layouts; others that say nothing are left out."""
    found = {axis: [str(getattr(one, axis)) for one in layouts] for axis in _AXES}
    found["tp"] = [f"{one.tp}{'+sp' * one.sp}" for one in layouts]
    found["micro batch"] = [str(one.micro_batch) for one in layouts]
    found["schedule"] = [schedule(one) for one in layouts]
    found["sharding"] = [sharding(one) for one in layouts]
    found["recompute"] = [recomputation_words(one) for one in layouts]
    found["exchange"] = [_exchange(one) for one in layouts]
    idle = {"1", ""}
    return {name: cells for name, cells in found.items() if name in _KEPT or set(cells) - idle}


def sharding(layout: Layout) -> str:
    """What data-parallel ranks share out, and over how many if not over all."""
    whole = (layout.dp or 1) * layout.cp
    part = layout.shard != Shard.DDP and layout.shard_degree != whole
    return f"{layout.shard.text} over {layout.shard_degree}" if part else layout.shard.text


def schedule(layout: Layout) -> str:
    """The order of a pipeline; nothing without one."""
    if layout.pp == 1:
        return ""
    interleaved = layout.schedule == Schedule.INTERLEAVED
    return f"{layout.virtual_stages} virtual stages" if interleaved else layout.schedule.text


def _exchange(layout: Layout) -> str:
    """How experts exchange tokens, where not plainly."""
    if layout.ep == 1:
        return ""
    plain = layout.dispatcher == Dispatcher.ALL_TO_ALL
    words = ["" if plain else layout.dispatcher.text, "overlapped" * bool(layout.overlap_ep)]
    return " ".join(word for word in words if word)


def recomputation_words(layout: Layout) -> str:
    """What is computed again, and in how many layers of a stage if not in all."""
    some = layout.recompute_layers if layout.recompute != Recompute.NONE else None
    modules = layout.recompute_modules if layout.recompute == Recompute.SELECTIVE else ATTENTION_ALONE
    which = "" if modules == ATTENTION_ALONE else f" ({', '.join(modules)})"
    return layout.recompute.text + which + (f" in {some}" if some else "")
