"""What a framework is said to offer, its settings have words for; the exceptions are listed."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest

from syncwall.answer.settled import virtual_stage_counts
from syncwall.describe import Layout, Model, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules, not_offered
from syncwall.describe.settings import written
from syncwall.describe.software import with_switches
from tests.describe.settings.runs import FRAMEWORKS

MODELS = [lookup.model(name) for name in ("llama-3.1-8b", "mixtral-8x7b", "llama-3.1-405b")]
SEQ = 8192
LEAST = 200
ANY: dict[str, list[Any]] = {
    "tp": [1, 2, 8],
    "pp": [1, 2, 4, 6],
    "cp": [1, 2, 4],
    "cp_kind": list(ContextKind),
    "ep": [1, 2, 8],
    "shard": list(Shard),
    "shard_degree": [None, None, 2, 4, 8],
    "schedule": list(Schedule),
    "virtual_stages": [None, 2, 4, 7],
    "recompute": list(Recompute),
    "micro_batch": [1, 2],
    "dispatcher": list(Dispatcher),
    "overlap_ep": [True, False],
}
SWITCHED = ("overlap_gradients", "overlap_parameters", "overlap_tp", "balanced_stages")
"""Switches that Megatron has arguments for; torchtitan's own choice stands."""


def layouts(name: str, random: Random) -> Iterator[tuple[Model, Layout]]:
    """Random layouts that are possible and offered; what nobody searches is as it is usual."""
    family = lookup.framework(FRAMEWORKS[name])
    while True:
        model = random.choice(MODELS)
        fields = {field: random.choice(values) for field, values in ANY.items()}
        fields |= {"ep": 1} if model.moe is None else {"etp": random.choice([1, fields["tp"]])}
        if name == "torchtitan" and fields["schedule"] == Schedule.INTERLEAVED:
            fields["virtual_stages"] = random.choice([2, *virtual_stage_counts(model, fields["pp"], family)])
        fields["sp"] = fields["tp"] > 1 and random.choice([True, False])
        if name == "megatron":
            fields |= {switch: random.choice([True, False, None]) for switch in SWITCHED}
        dp = random.choice([1, 2, 8])
        layout = Layout(**fields, dp=dp, global_batch=dp * 168)
        layout = with_switches(layout.placed(layout.gpus), family, None).plain()
        wrong = broken_rules(model, layout, SEQ, layout.gpus)
        alone = layout.dp * layout.cp == 1 and layout.shard != Shard.DDP  # DDP by another name
        if not (wrong or alone or not_offered(family, None, layout, model)):
            yield model, layout


def unsaid(name: str, model: Model, layout: Layout) -> tuple[str, ...]:
    return written(layout, name, seq=SEQ, nodes=layout.gpus, gpus_per_node=1, model=model).unsaid


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torchtitan", "megatron"])
def test_what_is_offered_can_be_written(name):
    seen: dict[str, set[Any]] = {}
    for model, layout in islice(layouts(name, Random(name)), LEAST):
        assert unsaid(name, model, layout) == (), layout
        for field in ANY:
            seen.setdefault(field, set()).add(getattr(layout, field))
    family = lookup.framework(FRAMEWORKS[name])
    assert seen["shard"] == set(family.shards)
    assert seen["recompute"] == set(family.recomputes)
    assert seen["schedule"] >= set(family.schedules)
    assert seen["pp"] == set(ANY["pp"])


EXCEPTIONS: dict[str, dict[str, Any]] = {
    "torchtitan": {
        "etp": 4,  # 1 or tp, and nobody looks for others
        "virtual_stages": 7,  # its stages have so many layers each, but for the ends
        "recompute_layers": 7,  # it recomputes every layer, or every n-th
        "overlap_gradients": False,
        "overlap_parameters": False,
        "overlap_pp": False,
        "balanced_stages": True,
        "fused_loss": False,  # decided in its code
        "order": ("tp", "cp", "ep", "pp", "dp"),  # its mesh has one order
        "gradient_dtype": Dtype.BF16,  # written as it is usual
        "precision": Dtype.FP16,
    },
    "megatron": {
        "fused_loss": True,  # decided in its code
        "order": ("dp", "tp", "cp", "ep", "pp"),  # two of them have words
        "precision": Dtype.FP32,  # what it is without a word, and said elsewhere too
        "dropless": False,  # how many tokens an expert takes is no part of a layout
    },
}
"""Fields for which a layout may be offered that cannot be written, each with such a value: the
formats of numbers, which every framework is taken to offer, and what is decided elsewhere."""
BESIDE: dict[str, dict[str, Any]] = {
    "torchtitan": {"virtual_stages": None, "schedule": "1f1b", "recompute": "full"},
    "megatron": {"virtual_stages": 2, "schedule": "interleaved", "recompute": "full"},
}


@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, some in EXCEPTIONS.items() for field in some]
)
def test_exceptions_are_some_and_are_said(name, field):
    base: dict[str, Any] = {
        "dp": 8,
        "tp": 8,
        "sp": True,
        "pp": 2,
        "ep": 2,
        "shard": "fsdp",
        "global_batch": 64,
    }
    fields = base | BESIDE[name] | {field: EXCEPTIONS[name][field]}
    if field == "virtual_stages":
        fields["schedule"] = "interleaved"
    family = lookup.framework(FRAMEWORKS[name])
    layout = Layout(**fields)
    layout = with_switches(layout.placed(layout.gpus), family, None).plain()
    assert not not_offered(family, None, layout, MODELS[1])
    assert [line.partition(":")[0] for line in unsaid(name, MODELS[1], layout)] == [field]


CHUNKS = {"pp": 4, "schedule": "interleaved", "virtual_stages": 4, "global_batch": 64}
"""Eight layers of a stage in four chunks."""


@pytest.mark.parametrize(
    ("framework", "changes", "field"),
    [
        ("torchtitan", {"cp": 2, "cp_kind": "ulysses"}, "cp_kind"),
        ("deepspeed", {"cp": 2, "cp_kind": "ring"}, "cp_kind"),
        ("torchtitan", {"cp": 4, "shard": "ddp"}, "shard"),
        ("torchtitan", {"cp": 4, "shard_degree": 2}, "shard_degree"),
        ("pytorch", {"cp": 4, "shard_degree": 2}, "shard_degree"),
        ("megatron-core", {"tp": 2, "sp": False, "overlap_tp": False}, "sp"),
        ("megatron-core", {"tp": 2, "sp": False, "overlap_tp": True}, "overlap_tp"),
        ("megatron-core", {**CHUNKS, "recompute": "full", "recompute_layers": 3}, "recompute_layers"),
        ("megatron-core", {"overlap_parameters": True, "overlap_gradients": False}, "overlap_parameters"),
    ],
)
def test_what_settings_cannot_say_is_not_offered(framework, changes, field):
    layout = Layout(**{"dp": 8, "shard": "fsdp", **changes})
    layout = layout.placed(layout.gpus).plain()
    assert field in not_offered(lookup.framework(framework), None, layout, MODELS[1])
    fine = layout.model_copy(update={"cp": 1, "tp": 1, "overlap_gradients": True, "sp": False})
    fine = fine.model_copy(update={"shard_degree": 8, "recompute_layers": 4})
    assert field not in not_offered(lookup.framework(framework), None, fine, MODELS[1])
