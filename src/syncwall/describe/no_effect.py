"""Keys of a run file that change no number of a prediction, and why.

Holds `NO_EFFECT`, the one table of them, and `without_effect`. A test turns every key of every type
(`tests/answer/test_every_key.py`): one that does nothing has to be listed here, and one that is
listed has to do nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from syncwall.describe.layout import PLAIN, Layout, Recompute, Shard
from syncwall.describe.switches import FSDP, WIDE

LABEL: Final = "it is for readers"
_SCALE_UP: Final = "`scale_up` of the cluster says at which rate GPUs reach each other"
_NO_HEAD: Final = "an encoder has no output layer"

NO_EFFECT: Final[dict[str, str]] = {
    "model.name": LABEL,
    "cluster.name": LABEL,
    "*.title": LABEL,
    "*.aliases": LABEL,
    "*.note": LABEL,
    "*.provenance": LABEL,
    "model.stack.name": LABEL,
    "model.encoder.name": LABEL,
    "cluster.fabric.tiers.name": LABEL,
    "cluster.node.device.vendor": LABEL,
    "cluster.node.device.released": LABEL,
    "cluster.node.device.memory.kind": LABEL,
    "job.phases.name": LABEL,
    "model.max_seq": "a run has sequences of `seq` tokens, however many the model could take",
    "model.encoder.max_seq": "it takes sequences of its `train_seq`",
    "model.train_batch": "a step has `global_batch` sequences; `plan` takes it where that is not stated",
    "model.encoder.train_batch": "a step has `global_batch` sequences of the model",
    "model.encoder.patches.predicted": _NO_HEAD,
    "model.encoder.tied_embeddings": _NO_HEAD,
    "model.encoder.head_bias": _NO_HEAD,
    "model.encoder.norm.embedding": "one norm of an encoder is too little to be priced",
    "cluster.node.device.scale_up.*": _SCALE_UP,
    "cluster.node.device.l2": "multiplications are priced by what was measured of the chip, cache included",
    "cluster.scale_up.link": "it names the link; `rate` is what counts",
    "cluster.built_nodes": "it is a limit: more nodes than exist are refused",
    "layout.dp": "it follows from the GPUs: any other value is refused",
}
"""By key as a file writes it, elements of lists without their number; `*` stands for any keys."""


def reason(key: str) -> str | None:
    """Why `key` changes nothing; None if it may change something."""
    return next((why for pattern, why in NO_EFFECT.items() if fnmatchcase(key, pattern)), None)


_NO_PIPELINE: Final = "there is no pipeline (pp 1)"
_NO_TP: Final = "there is no tensor parallelism (tp 1)"
_NO_EP: Final = "there is no expert parallelism (ep 1)"
_WIDE_ALREADY: Final = "all layers are computed in {0.precision}"
IN_LAYOUT: Final[dict[str, tuple[Callable[[Layout], Any], str]]] = {
    "bucket_bytes": (lambda one: one.shard != Shard.DDP, "it is of DDP, and shard is {0.shard.text}"),
    "schedule": (lambda one: one.pp == 1, _NO_PIPELINE),
    "overlap_tp": (lambda one: one.tp == 1, _NO_TP),
    "async_tp": (lambda one: one.tp == 1, _NO_TP),
    "cp_kind": (lambda one: one.cp == 1, "there is no context parallelism (cp 1)"),
    "dispatcher": (lambda one: one.ep == 1, _NO_EP),
    "overlap_ep": (lambda one: one.ep == 1, _NO_EP),
    "recompute_modules": (
        lambda one: one.recompute != Recompute.SELECTIVE,
        "it is of selective recomputation, and recompute is {0.recompute.text}",
    ),
    "recompute_layers": (lambda one: one.recompute == Recompute.NONE, "nothing is recomputed"),
    "overlap_pp": (lambda one: one.pp == 1, _NO_PIPELINE),
    "kept_gathered_inputs": (lambda one: one.tp == 1, _NO_TP),
    "tp_exposed_share": (lambda one: one.tp == 1, _NO_TP),
    "fp8_dispatch": (lambda one: one.ep == 1, _NO_EP),
    "capacity_factor": (lambda one: one.dropless, "no token is dropped (dropless)"),
    **dict.fromkeys(WIDE, (lambda one: one.precision.size_bytes >= 2, _WIDE_ALREADY)),
    **dict.fromkeys(
        FSDP, (lambda one: one.shard != Shard.FSDP, "it is of FSDP, and shard is {0.shard.text}")
    ),
}
"""Fields that change nothing in some layouts: in which, and why."""


def without_effect(
    values: Mapping[str, Any], layout: Layout | None = None, usual: Layout | None = None
) -> list[str]:
    """A sentence for each key of `values` that has no effect, but for those that only name things.

    `layout` is the one that the run has in the end; what it has in common with the `usual` one of
    its framework is not told of.
    """
    found = dict.fromkeys(_keys(values))
    why = {key: reason(key) for key in found}
    for name, (idle, said) in IN_LAYOUT.items():
        field = Layout.model_fields[name]
        key = f"layout.{field.alias or name}"
        plain = PLAIN.get(name, field.default) if usual is None else getattr(usual, name)
        if layout is not None and key in found and getattr(layout, name) != plain and idle(layout):
            why[key] = said.format(layout)
    return [f"{key} has no effect: {said}" for key, said in why.items() if said not in (None, LABEL)]


def _keys(values: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Keys of what is stated, with dots."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            yield from _keys(value, (*path, str(name)))
    elif isinstance(values, list | tuple) and any(isinstance(one, Mapping) for one in values):
        for one in values:
            yield from _keys(one, path)
    elif values is not None:
        yield ".".join(path)
