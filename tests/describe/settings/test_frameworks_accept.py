"""What is printed starts: frameworks accept the settings of random and of recommended layouts.

Each framework says so itself, by the code that it validates its own settings with, in a process of
its own and without a GPU (`parsers`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from syncwall.describe import Layout, Model, Software, lookup
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules, not_offered
from syncwall.describe.settings import written
from syncwall.describe.software import with_switches
from syncwall.describe.switches import Optimizer
from syncwall.plan import layouts as search
from tests.describe.settings.runs import FRAMEWORKS

ROOT = Path(__file__).parents[3]
MODELS = ("llama-3.1-8b", "mixtral-8x7b", "llama-3.1-405b", "deepseek-v3", "gpt3-1.3b")
SEQ = 4096
COUNTS = {"random": 150, "recommended": 40}
MANY = {"random": 500, "recommended": 100}
NEEDED = {name: name for name in ("torchtitan", "deepspeed", "accelerate")} | {"megatron": "megatron.core"}
"""What must be installed for each."""
TOML = Path(sys.prefix) / "torchtitan-0.2.2"
"""Where the last torchtitan that reads job files is installed, beside the present one."""
IN_THE_SCRIPT = {
    "megatron": set[str](),
    "torchtitan": set[str](),
    "deepspeed": {"tp", "cp"},
    "accelerate": {"tp", "pp", "cp", "ep", "etp", "shard", "shard_degree"},
}
"""Axes that a format has no words for: such layouts are not counted."""
Case = dict[str, Any]
ANY: dict[str, list[Any]] = {
    "tp": [1, 2, 4, 8],
    "pp": [1, 2, 4, 8],
    "cp": [1, 1, 2, 4],
    "ep": [1, 2, 8, 16],
    "cp_kind": list(ContextKind),
    "shard": list(Shard),
    "shard_degree": [None, None, 2, 4, 8],
    "schedule": list(Schedule),
    "virtual_stages": [None, 2, 3, 4, 7],
    "recompute": list(Recompute),
    "recompute_layers": [None, None, 1, 2, 5],
    "recompute_modules": [("core_attn",), ("layernorm", "mlp"), ("mla_up_proj", "layernorm"), ("moe_act",)],
    "micro_batch": [1, 2],
    "dispatcher": list(Dispatcher),
    "overlap_ep": [True, False, None],
    "overlap_gradients": [True, False, None],
    "overlap_parameters": [True, False, None],
    "overlap_tp": [True, False, None],
    "overlap_pp": [True, None],
    "balanced_stages": [True, False, None],
    "first_stage_layers": [None, None, None, 2, 6],
    "last_stage_layers": [None, None, None, 3, 5],
    "precision": [Dtype.BF16, Dtype.BF16, Dtype.FP8, Dtype.MXFP8, Dtype.NVFP4, Dtype.FP16, Dtype.FP32],
    "first_layers_bf16": [0, 0, 1, 4],
    "last_layers_bf16": [0, 0, 1, 4],
    "moment_dtype": [None, None, None, Dtype.BF16],
    "optimizer": [Optimizer.ADAM, Optimizer.ADAM, Optimizer.ADAM, Optimizer.MUON, Optimizer.SGD],
    "offload_optimizer": [False, False, False, True],
    "offload_layers": [0, 0, 0, 4],
}
ONE_STAGE: dict[str, list[Any]] = {
    "pp": [1],
    "schedule": [Schedule.ONE_F_ONE_B],
    "virtual_stages": [None],
    "first_stage_layers": [None],
    "last_stage_layers": [None],
    "overlap_ep": [False],
    "overlap_tp": [False],
    "dispatcher": [Dispatcher.ALL_TO_ALL],
    "recompute": [Recompute.NONE, Recompute.FULL],
}
WORDS: dict[str, dict[str, list[Any]]] = {
    "megatron": {"schedule": [Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED]},
    "torchtitan": {},
    "deepspeed": ONE_STAGE | {"pp": [1, 2, 4], "cp_kind": [ContextKind.ULYSSES]},
    "accelerate": ONE_STAGE | {"ep": [1], "shard": [Shard.DDP, Shard.ZERO2, Shard.FSDP]},
}
"""Fewer values where most of the others are not offered, or have no words."""


def random_layouts(name: str) -> Iterator[tuple[Model, Layout, Software]]:
    """Random layouts that are possible and offered."""
    random, family = Random(name), lookup.framework(FRAMEWORKS[name])
    while True:
        model = lookup.model(random.choice(MODELS))
        fields = {field: random.choice(values) for field, values in {**ANY, **WORDS[name]}.items()}
        fields |= {"ep": 1} if model.moe is None else {"etp": random.choice([1, fields["tp"]])}
        fields["sp"] = fields["tp"] > 1 and random.choice([True, False])
        dp = random.choice([1, 2, 8])
        scaling = random.choice(["tensor", "row"] if name == "torchtitan" else ["tensor", "block"])
        software = Software(framework=FRAMEWORKS[name], fp8_scaling=scaling)
        layout = Layout(**fields, dp=dp, global_batch=dp * 48)
        layout = with_switches(layout.placed(layout.gpus), family, None, software).plain()
        alone = layout.dp * layout.cp == 1 and layout.shard != Shard.DDP  # DDP by another name
        if alone or broken_rules(model, layout, SEQ, layout.gpus):
            continue
        if not not_offered(family, None, layout, model):
            yield model, layout, software


SEARCHES = tuple(
    product((8, 32, 128, 16, 64, 256), ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gpt3-1.3b"))
)


def recommended_layouts(name: str) -> Iterator[tuple[Model, Layout, Software]]:
    """What `plan layouts` recommends: the best of every search, and what less memory costs."""
    software = Software(framework=FRAMEWORKS[name])
    pinned: dict[str, Any] = {"recompute_layers": None, "micro_batch": 1, "tp": (1, 4, 8), "pp": (1, 2, 8)}
    if name == "accelerate":
        pinned |= {"pp": 1, "ep": 1}
    for number, (gpus, model) in enumerate(SEARCHES):
        pinned |= {
            "precision": (Dtype.BF16, Dtype.FP8)[number % 3 == 2],
            "cp": (1, 2) if name != "accelerate" else (1, 2, 4),
        }
        cluster = lookup.cluster("gb200-nvl72").with_gpus(gpus)
        found = search(
            lookup.model(model), cluster, seq=SEQ, global_batch=256, software=software, pinned=pinned
        )
        trade_offs = (point.layout() for point in found.front)
        for layout in (*(one.layout for one in found.best(13)), *trade_offs):
            yield found.run.model, layout, software


def cases(name: str, found: Iterator[tuple[Model, Layout, Software]]) -> Iterator[Case]:
    for model, layout, software in found:
        said = written(
            layout, name, seq=SEQ, nodes=layout.gpus, gpus_per_node=1, model=model, software=software
        )
        if not IN_THE_SCRIPT[name] & {line.partition(":")[0] for line in said.unsaid}:
            about = described(name, model) | ({"pp": int(layout.pp)} if name == "deepspeed" else {})
            yield {"text": said.text, "model": about, "gpus": int(layout.gpus)}


def described(name: str, model: Model) -> dict[str, Any]:
    """The model as the framework would be told."""
    if name != "megatron":
        return {"layers": model.layers}
    found: dict[str, Any] = {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "num_attention_heads": model.attention.heads,
        "num_query_groups": model.kv_heads,
        "add_bias_linear": False,
        "gated_linear_unit": True,
        "bias_activation_fusion": False,
    }
    if model.mtp_layers:
        found["mtp_num_layers"] = model.mtp_layers
    if model.attention.latent is not None:
        found |= {"multi_latent_attention": True, "num_query_groups": model.attention.heads}
    if model.moe is not None:
        found |= {"num_moe_experts": model.moe.experts, "moe_grouped_gemm": True}
        found |= {"moe_ffn_hidden_size": model.moe.hidden, "moe_router_pre_softmax": True}
    return found


def problems(name: str, asked: list[Case], *, first: Path | None = None) -> list[str | None]:
    """What the framework says of each case; its package is looked for in `first` before elsewhere."""
    missing = not first.exists() if first else not _is_installed(NEEDED[name])
    if missing:
        assert not os.environ.get("SYNCWALL_REFERENCE"), f"{first or NEEDED[name]} is not installed"
        pytest.skip(f"{first or NEEDED[name]} is not installed")
    command = [sys.executable, "-m", f"tests.describe.settings.parsers.{name}"]
    paths = [str(first)] if first else []
    paths += [one for one in (os.environ.get("PYTHONPATH"),) if one]
    done = subprocess.run(
        command,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


@cache
def asked_of(name: str, kind: str, count: int) -> list[Case]:
    found = random_layouts(name) if kind == "random" else recommended_layouts(name)
    return list(islice(cases(name, found), count))


def refusals(name: str, asked: list[Case], first: Path | None = None) -> list[tuple[str, str]]:
    said = problems(name, asked, first=first)
    return [(one, case["text"]) for one, case in zip(said, asked, strict=True) if one]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    [*COUNTS.items(), *(pytest.param(*one, marks=pytest.mark.weekly) for one in MANY.items())],
)
@pytest.mark.parametrize("name", NEEDED)
def test_settings_are_accepted(name, kind, count):
    asked = asked_of(name, kind, count)
    assert len(asked) == count
    assert refusals(name, asked) == []


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), COUNTS.items())
def test_job_files_are_accepted_by_the_last_torchtitan_that_reads_them(kind, count):
    assert refusals("torchtitan", asked_of("torchtitan", kind, count), TOML) == []


REFUSED = {
    "megatron": ("--use-distributed-optimizer", "--overlap-moe-expert-parallel-comm", "virtual_pipeline"),
    "torchtitan": ("tensor_parallel_degree = 1", "tensor_parallel_degree = 3", "Invalid parallel dims"),
    "deepspeed": ('"train_batch_size": ', '"train_batch_size": 7', "Check batch related parameters"),
    "accelerate": ("_tp_size: 1", "_tp_size: 3", "does not match num_processes"),
}
"""What makes settings wrong, and what the framework says: or the tests above say nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_what_is_wrong_is_refused(name):
    old, new, said = REFUSED[name]
    layout = {"dp": 8, "shard": "fsdp", "global_batch": 64, "recompute": "none"}
    if name == "megatron":
        layout |= {"pp": 8, "ep": 8, "shard": "zero1", "dispatcher": "all-to-all"}
    model = lookup.model("mixtral-8x7b")
    case = next(cases(name, iter([(model, Layout.model_validate(layout).plain(), Software())])))
    assert refusals(name, [case]) == []
    found = problems(
        name, [{**case, "text": case["text"].replace(old, f"{new} {old}" * (name == "megatron") or new)}]
    )
    assert said in str(found[0])
