"""Every key of a run file and every flag of `predict` changes a number, or is listed as not doing so.

Keys come from the types, so that a new one is turned too: in every base run that has its section,
every other value is tried, until a number of the answer differs. A key that only acts together with
others needs a base run that states these.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer import predict
from syncwall.answer.islands import predict_islands
from syncwall.answer.known import site_from
from syncwall.answer.rl_step import predict_rl
from syncwall.ask.predict import PredictQuestion
from syncwall.cli import main
from syncwall.describe import Job, Run
from syncwall.describe.files import run_text
from syncwall.describe.layer_kinds import STANDING_IN
from syncwall.describe.no_effect import IN_LAYOUT, NO_EFFECT, reason
from syncwall.describe.rl_and_islands import Islands, RlStep
from syncwall.describe.run import KnownRun, MeasuredSpeed
from syncwall.job.completion import finish
from syncwall.problems import InputError
from syncwall.records import plain
from tests.answer.keys import Key, keys_of, other_values, stated, with_value
from tests.cli.flags import flags_of
from tests.watch.test_life import failing_life

ROOT = Path(__file__).parents[2]
REFUSED = (ValidationError, InputError, ValueError)
Values = dict[str, Any]
Numbers = dict[str, float]


def base(model: Any, cluster: Any, nodes: int, software: Values | None = None, **layout: Any) -> Values:
    seq = layout.pop("seq", None)
    found = {"model": model, "cluster": cluster, "nodes": nodes, "layout": layout, "software": software or {}}
    return found if seq is None else found | {"seq": seq}


LEAF_AND_SPINE: Values = {
    "base": "dgx-h100",
    "fabric": {"tiers": [{"name": "leaf", "nodes": 4}, {"name": "spine", "oversubscription": 4}]},
}
STAGED = {"count": 8, "rate": "400 Gb/s", "link": "infiniband-ndr", "gpu_direct": False}
STAGED_CLUSTER = {"base": "dgx-h100", "node": {"device": "h100-sxm", "gpus": 8, "nics": STAGED}}
SLOWER = {"base": "h100-sxm", "clock": "1.5 GHz", "power_limit": "500 W"}
SPARSE = {
    "name": "sparse",
    "layers": 8,
    "hidden": 2048,
    "vocab": 32000,
    "mlp": {"hidden": 8192},
    "attention": {
        "heads": 16,
        "latent": {"kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "v_dim": 128},
        "indexer": {"heads": 4, "head_dim": 64, "top_k": 512},
    },
    "train_seq": 4096,
}
SPEECH = {
    "name": "speech",
    "layers": 8,
    "hidden": 1024,
    "attention": {"heads": 16},
    "classes": 10,
    "mlp": {"hidden": 4096},
    "frames": {"channels": 80, "tokens": 1500},
}
MAMBA = {
    "name": "mamba",
    "layers": 8,
    "hidden": 2048,
    "vocab": 32000,
    "pattern": "M",
    "train_seq": 4096,
    "attention": {"heads": 16},
    "mixer": {"kind": "mamba-1", "heads": 4096, "head_dim": 1, "key_dim": 16, "rank": 128},
}
WINDOWS = with_value(
    sw.model("qwen2.5-vl-7b").model_dump(mode="json", exclude_none=True),
    ("encoder", "attention", "full_every"),
    5,
)
BASES: dict[str, Values] = {
    "FSDP": base(
        "llama-3.1-8b", "superpod-h100", 4, shard="fsdp", micro_batch=1, global_batch=64, recompute="none"
    ),
    "open": {"model": "llama-3.1-8b", "cluster": "dgx-h100", "gpus": 32},
    "part of a node": base("gpt2", "dgx-a100", 1) | {"gpus_per_node": 4},
    "DDP": base("gpt3-1.3b", "aws-p4d", 4, shard="ddp", micro_batch=1, global_batch=64, recompute="none"),
    "ZeRO-1": base(
        *("llama-3.1-8b", "dgx-h100", 4),
        tp=8,
        sp=False,
        shard="zero1",
        micro_batch=1,
        global_batch=128,
        recompute="selective",
        overlap_parameters=False,
    ),
    "tensor parallel": base(
        *("llama-3.1-70b", "superpod-h100", 4),
        tp=8,
        sp=True,
        overlap_tp=True,
        shard="zero1",
        precision="fp8",
        recompute="full",
        order=["tp", "cp", "ep", "pp", "dp"],
    ),
    "pipeline": base(
        *("llama-3.1-70b", "dgx-h100", 8),
        tp=4,
        pp=4,
        schedule="1f1b",
        shard="zero1",
        micro_batch=1,
        global_batch=64,
        recompute="full",
    ),
    "pipeline of FSDP": base(
        *("llama-3.1-8b", "dgx-h100", 4, {"framework": "torchtitan"}),
        pp=4,
        schedule="1f1b",
        shard="fsdp",
        micro_batch=1,
        global_batch=64,
        recompute="none",
    ),
    "interleaved": base(
        *("llama-3.1-70b", "dgx-h100", 8),
        tp=4,
        pp=4,
        schedule="interleaved",
        virtual_stages=2,
        shard="zero1",
        global_batch=64,
    ),
    "context parallel": base("llama-3.1-8b", "dgx-h100", 4, cp=8, shard="fsdp", recompute="full", seq=65536),
    "experts": base(
        *("deepseek-v3", "dgx-h100", 16),
        ep=16,
        pp=4,
        precision="fp8",
        overlap_ep=True,
        dropless=False,
        recompute="full",
        global_batch=256,
    ),
    "DeepEP": base(
        "deepseek-v3", "dgx-h100", 32, ep=64, pp=4, dispatcher="deepep", recompute="none", global_batch=256
    ),
    "Mixtral": base(
        "mixtral-8x7b",
        "dgx-h100",
        4,
        ep=8,
        shard="fsdp",
        dispatcher="deepep",
        overlap_ep=True,
        recompute="none",
    ),
    "experts of several ranks": base("qwen3-30b-a3b", "dgx-h100", 4, ep=8, tp=2, sp=True, recompute="none"),
    "experts of PyTorch": base(
        "mixtral-8x7b",
        "dgx-a100",
        2,
        {"framework": "pytorch", "kernels": "eager", "date": "2022-01"},
        shard="fsdp",
    ),
    "adapters": base(
        *("llama-3.1-70b", "dgx-h100", 1),
        shard="fsdp",
        recompute="full",
        lora={"rank": 16, "targets": ["attention"], "weights": "nf4"},
    ),
    "offload": base("llama-3.1-70b", "dgx-h100", 1, shard="fsdp", recompute="full", offload_optimizer=True),
    "eager": base(
        "gpt2-xl",
        "dgx-a100",
        2,
        {"framework": "pytorch", "kernels": "eager", "date": "2022-01"},
        precision="fp16",
    ),
    "narrow": base(
        *("llama-3.1-70b", "gb200-nvl72", 36, {"framework": "megatron-bridge"}),
        tp=4,
        precision="nvfp4",
        first_layers_bf16=1,
        global_batch=144,
        recompute="full",
    ),
    "leaf and spine": base("llama-3.1-8b", LEAF_AND_SPINE, 8, shard="fsdp", micro_batch=1, recompute="none"),
    "through host memory": base("llama-3.1-8b", STAGED_CLUSTER, 4, shard="fsdp", seq=2048),
    "power limit": base("llama-3.1-8b", {"base": "dgx-h100", "node": {"device": SLOWER, "gpus": 8}}, 1),
    "torus": base("llama-3.1-8b", "tpu-v5p", 16, {"framework": "maxtext"}, micro_batch=1, shard="fsdp"),
    "mesh": base("gemma-2-9b", "mi300x-8", 2, micro_batch=1),
    "V100": base("opt-350m", "jean-zay-v100", 2, micro_batch=1),
    "images": base("vit-h-14", "dgx-h100", 1, micro_batch=8),
    "diffusion": base("dit-xl-2", "dgx-h100", 1, micro_batch=8),
    "speech": base("whisper-large-v3", "dgx-h100", 1, micro_batch=8),
    "frames": base(SPEECH, "dgx-h100", 1, micro_batch=8),
    "vision and language": base("llava-1.5-7b", "dgx-h100", 1, micro_batch=1),
    "windows of images": base(WINDOWS, "dgx-h100", 1, micro_batch=1),
    "pooled images": base("gemma-3-4b-vl", "dgx-h100", 1, micro_batch=1),
    "encoder and decoder": base("t5-3b", "dgx-h100", 1, micro_batch=8),
    "masked": base("bert-large", "dgx-h100", 1, micro_batch=8),
    "hybrid": base("nemotron-h-8b", "dgx-h100", 2, micro_batch=1, recompute="none"),
    "delta attention": base("kimi-linear-48b-a3b", "dgx-h100", 2, micro_batch=1, ep=8),
    "latent experts": base("nemotron-3-super", "dgx-h100", 4, micro_batch=1, ep=8),
    "sinks": base("gpt-oss-20b", "dgx-h100", 2, micro_batch=1, ep=8, seq=4096),
    "sparse attention": base(SPARSE, "dgx-h100", 1, micro_batch=1),
    "Mamba": base(MAMBA, "dgx-h100", 1, micro_batch=1),
    "counted layers": base(str(ROOT / "examples/models/resnet-50.yaml"), "dgx-a100", 2, micro_batch=32),
    "counted layers again": base(
        str(ROOT / "examples/models/resnet-50.yaml"), "dgx-a100", 2, micro_batch=32, recompute="full"
    ),
}
JOB: Values = {
    "steps": 20_000,
    "simulations": 100,
    "price_usd_per_gpu_hour": 3.0,
    "checkpoints": {"blocking": False},
    "failures": {"early_factor": 3.0},
    "evaluation": {"every": 1000, "time_s": 600.0},
    "stragglers": {"per_1000_node_days": 10.0, "slowdown": 1.3, "time_s": 7200.0},
    "spikes": {"per_1000_steps": 0.5, "rollback": 100},
    "maintenance": {"every_s": 86400.0, "time_s": 3600.0},
    "power": {},
    "owned": {},
    "measured": {},
}
JOBS: dict[str, Values] = {
    "job": JOB,
    "short of nodes": {
        "tokens": 1e11,
        "simulations": 100,
        "spare_nodes": 0,
        "start": "2026-06-01T00:00:00Z",
        "failures": {"like": "google-2008", "repair_s": 1e6},
    },
    "phases": {
        "phases": [
            {"name": "first", "tokens": 1e10, "global_batch": 128, "ramp": {"start": 32, "increment": 32}}
        ],
        "simulations": 100,
    },
    "phases in steps": {"phases": [{"steps": 1000, "layout": {"micro_batch": 2}}], "simulations": 100},
}
RL = {
    "prompts": 64,
    "generations": 4,
    "prompt_tokens": 150,
    "response_tokens": 800,
    "generator_gpus": 8,
    "tokens_per_s_per_gpu": 3000.0,
    "logprob_micro_batch": 2,
}
ISLANDS = {"count": 8, "every": 100, "link_bytes_per_s": 1e9, "latency_s": 0.1, "overlap": 0.1}


def described(values: Values) -> Values:
    """A base with all keys of its model and its machine, as a file would write them in place."""
    run = Run.model_validate(values)
    model = run.model.model_dump(mode="json", exclude_none=True)
    cluster = run.cluster.model_dump(mode="json", exclude_none=True)
    for one in (model, model.get("encoder", {})):
        for name in (
            STANDING_IN if "stack" in one else ["train_seq"] if {"patches", "frames"} & one.keys() else ()
        ):
            one.pop(name)
    used = {"nodes": cluster.pop("nodes"), "gpus_per_node": cluster.pop("gpus_per_node")}
    if "nodes" in values:  # as the cluster says, so that both places are turned
        cluster |= {"nodes": used["nodes"]}
    rest = {key: value for key, value in values.items() if key not in ("model", "cluster", "nodes")}
    return {"model": model, "cluster": cluster, **rest}


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a record with the keys that lead to them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from numbers(inner, f"{path}.{index}")
    elif isinstance(value, datetime):
        yield path, value.timestamp()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def step(values: Values) -> Numbers:
    found = predict(Run.model_validate(values))
    return dict(
        numbers(
            {
                "step": found.step_s,
                "interval": found.step_interval_s,
                "flops": float(found.work.model_flops),
                "memory": found.memory_by_cause,
                "host": found.host_memory_bytes,
                "fits": found.room.probability,
                "ledger": dict(found.ledger),
                "tokens": found.tokens,
                "mfu": found.mfu,
            }
        )
    )


def job(values: Values) -> Numbers:
    run = Run.model_validate(values.get("run", BASES["FSDP"]))
    done = finish(Job.model_validate({**values, "run": run}), predict(run))
    return dict(numbers({"job": plain(done.without_changes), "dates": done.finish_dates}))


def rl(values: Values) -> Numbers:
    run = Run.model_validate(BASES["pipeline"])
    return dict(numbers(predict_rl(run, RlStep.model_validate(values)).to_dict()))


def islands(values: Values) -> Numbers:
    run = Run.model_validate(BASES["FSDP"])
    return dict(numbers(predict_islands(run, Islands.model_validate(values)).to_dict()))


def gap(values: Values) -> Numbers:
    found = predict(Run.model_validate({**BASES["FSDP"], "measured": values})).gap
    assert found is not None
    return dict(numbers(plain(found)))


def titan_gap(values: Values) -> Numbers:
    """The same of a framework that logs a bare number."""
    run = {**BASES["FSDP"], "software": {"framework": "torchtitan"}, "measured": values}
    found = predict(Run.model_validate(run)).gap
    assert found is not None
    return dict(numbers(plain(found)))


def anchored(values: Values) -> Numbers:
    """A step that is predicted beside a known run, which was as fast as `values` say."""
    run = Run.model_validate(BASES["FSDP"])
    known = KnownRun.model_validate({**BASES["FSDP"], "measured": values})
    return dict(numbers(predict(run, site=site_from([known])).to_dict()))


def on_links(values: Values) -> Numbers:
    return dict(numbers(PredictQuestion.of({"run": values, "fabric": "tiers"}).answer().to_dict()))


def differ(before: Numbers, after: Numbers) -> bool:
    if before.keys() != after.keys():
        return True
    return any(abs(a - after[key]) > 1e-9 * max(abs(a), abs(after[key])) for key, a in before.items())


@cache
def whole_bases() -> dict[str, tuple[Values, Numbers]]:
    found = {name: described(values) for name, values in BASES.items()}
    return {name: (values, step(values)) for name, values in found.items()}


def acts(key: Key, bases: dict[str, tuple[Values, Numbers]], answer: Any, most: int | None = None) -> str:
    """The base and the value in which `key` changes a number; empty if there is none.

    All bases are asked with one value before any is with the next.
    """
    tried = [[(name, value) for value in _values(key, one)[:most]] for name, (one, _) in bases.items()]
    for name, value in (one for row in zip_longest(*tried) for one in row if one is not None):
        values, before = bases[name]
        try:
            if differ(before, answer(with_value(values, key.path, value))):
                return f"{name}: {value}"
        except REFUSED:
            continue
    return ""


def _values(key: Key, values: Values) -> list[Any]:
    """Other values of `key` in a base; none if that lacks its section."""
    try:
        return other_values(key, stated(values, key.path))
    except KeyError:
        return []


def run_keys() -> list[Key]:
    """Keys of a run; those of an encoder as far as a base has them, for the rest are the model's."""
    whole_bases()  # types are complete once they were used
    return [
        key
        for key in keys_of(Run)
        if not key.name.startswith(("model.encoder.", "measured.")) or _is_in_a_base(key)
    ]


def _is_in_a_base(key: Key) -> bool:
    def held(values: Values) -> bool:
        try:
            return stated(values, key.path[:-1]) is not None
        except KeyError:
            return False

    return any(held(values) for values, _ in whole_bases().values())


def dead(keys: list[Key], bases: Any, answer: Any) -> list[str]:
    """Keys that change nothing and are not listed, or are listed and do."""
    found = []
    for key in keys:
        listed = reason(key.name) is not None
        does = acts(key, bases, answer, 2 if listed else None)
        if bool(does) == listed and key.name not in ELSEWHERE and key.name not in REFUSED_KEYS:
            found.append(f"{key.name} acts although it is listed ({does})" if listed else key.name)
    return found


SLOW_CLOCK = {"node": {"device": {"base": "h100-sxm", "clock": "1.2 GHz"}, "gpus": 8}}
DEAR = {"node": {"device": {"base": "h100-sxm", "price": "$90000"}, "gpus": 8}}
RAILS = {"base": "dgx-h100", "fabric": {**LEAF_AND_SPINE["fabric"], "rails": 8}}
ALONE = {
    **BASES["encoder and decoder"],
    "model": {**sw.model("t5-3b").model_dump(mode="json", exclude_none=True)},
}
ELSEWHERE: dict[str, tuple[Callable[[Values], Numbers], Values, Values]] = {
    "model.attention.cross": (
        step,
        ALONE,
        with_value(with_value(ALONE, ("model", "encoder"), None), ("model", "attention", "cross"), False),
    ),
    "cluster.node.device.clock": (
        step,
        base("gpt2", "dgx-h100", 1),
        base("gpt2", {"base": "dgx-h100", **SLOW_CLOCK}, 1),
    ),
    "cluster.node.device.price": (
        job,
        {**JOB, "run": base("gpt2", "dgx-h100", 1)},
        {**JOB, "run": base("gpt2", {"base": "dgx-h100", **DEAR}, 1)},
    ),
    "measured.flops_per_gpu": (gap, {"flops_per_gpu": "400 TFLOP/s"}, {"flops_per_gpu": "300 TFLOP/s"}),
    "measured.logged": (titan_gap, {"logged": 5000}, {"logged": 4000}),
    "measured.same_build": (anchored, {"mfu": 0.35}, {"mfu": 0.35, "same_build": True}),
    "cluster.fabric.rails": (
        on_links,
        base("gpt2", LEAF_AND_SPINE, 8, shard="ddp"),
        base("gpt2", RAILS, 8, shard="ddp"),
    ),
}
"""Keys that act together with others, or on the answer to another question: how, before and after."""
REFUSED_KEYS = {
    "model.encoder.classes",
    "model.encoder.attention.cross",
    "model.encoder.mtp_layers",
    "model.encoder.encoder",
}
"""Keys of every model that an encoder in front of one must leave out."""


@pytest.mark.weekly
def test_every_key_of_a_run_acts_or_is_listed():
    assert dead(run_keys(), whole_bases(), step) == []


@pytest.mark.slow
def test_every_key_of_a_job_acts_or_is_listed():
    keys = [key for key in keys_of(Job, ("job",)) if key.path[0] != "run"]
    assert dead(keys, {name: (values, job(values)) for name, values in JOBS.items()}, job) == []


SPEEDS = [{"step_s": 5.0}, {"mfu": 0.3}, {"tokens_per_s": 1e5}, {"tokens_per_s_per_gpu": 1e4}]


@pytest.mark.parametrize(
    ("name", "kind", "values", "answer"),
    [
        ("rl", RlStep, [RL], rl),
        ("islands", Islands, [ISLANDS], islands),
        ("measured", MeasuredSpeed, SPEEDS, gap),
    ],
)
def test_every_key_of_a_section_acts(name, kind, values, answer):
    bases = {str(number): (one, answer(one)) for number, one in enumerate(values)}
    assert dead(list(keys_of(kind, (name,))), bases, answer) == []


@pytest.mark.parametrize("key", ELSEWHERE)
def test_keys_that_need_others_act_with_them(key):
    answer, before, after = ELSEWHERE[key]
    assert differ(answer(before), answer(after))


@pytest.mark.parametrize("key", sorted(REFUSED_KEYS))
def test_an_encoder_refuses_what_it_must_not_have(key):
    values = whole_bases()["speech"][0]
    other = {"encoder": values["model"]["encoder"], "cross": True}.get(key.rpartition(".")[2], 1)
    with pytest.raises(ValidationError):
        step(with_value(values, tuple(key.split(".")), other))


def test_every_listed_key_exists_and_says_why():
    keys = [*run_keys(), *keys_of(Job, ("job",))]
    for pattern, why in NO_EFFECT.items():
        assert any(fnmatchcase(key.name, pattern) for key in keys), pattern
        assert why


def test_a_stated_key_without_effect_is_told_of(capsys, tmp_path):
    cluster = {"base": "dgx-h100", "scale_up": {"link": "nvlink-5"}, "title": "mine"}
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps({"model": "gpt2", "cluster": cluster, "nodes": 1}))
    said = "cluster.scale_up.link has no effect: it names the link"
    assert main(["predict", str(file)]) == 0
    screen = capsys.readouterr().out
    assert said in " ".join(screen.split())
    assert "title" not in screen
    assert main(["predict", str(file), "--json"]) == 0
    assert any(line.startswith(said) for line in json.loads(capsys.readouterr().out)["assumed"])


IDLE_LAYOUTS = {
    "bucket_bytes": ({"shard": "fsdp"}, "128MiB"),
    "schedule": ({}, "gpipe"),
    "overlap_tp": ({}, True),
    "async_tp": ({}, True),
    "cp_kind": ({}, "ulysses"),
    "dispatcher": ({}, "deepep"),
    "overlap_ep": ({}, True),
    "recompute_modules": ({"recompute": "full"}, ("layernorm",)),
    "recompute_layers": ({"recompute": "none"}, 2),
    "overlap_pp": ({}, False),
    "kept_gathered_inputs": ({}, 0.5),
    "tp_exposed_share": ({}, 0.9),
    "fp8_dispatch": ({}, True),
    "capacity_factor": ({}, 2.0),
    "first_layers_bf16": ({}, 2),
    "last_layers_bf16": ({}, 2),
    "unit_layers": ({"shard": "zero1"}, 2),
    "forward_prefetch": ({"shard": "zero1"}, 2),
    "backward_prefetch": ({"shard": "zero1"}, 2),
    "reshard_after_forward": ({"shard": "zero1"}, False),
    "gather_dtype": ({"shard": "zero1"}, "int8"),
    "quantized_gradients": ({"shard": "zero1"}, True),
}


def test_what_is_idle_in_a_layout_changes_nothing_there_and_is_told_of():
    assert IDLE_LAYOUTS.keys() == IN_LAYOUT.keys()
    for name, (around, value) in IDLE_LAYOUTS.items():
        key = sw.Layout.model_fields[name].alias or name
        run = {"model": "gpt2", "cluster": "dgx-h100", "nodes": 2, "layout": around}
        usual: Any = PredictQuestion(run=run).answer()
        stated: Any = PredictQuestion(run={**run, "layout": {**around, key: value}}).answer()
        assert stated.step_s == usual.step_s, name
        assert usual.without_effect == ()
        assert [one.partition(" ")[0] for one in stated.without_effect] == [f"layout.{key}"], name


def test_flags_of_a_recorded_program_are_named_beside_a_run():
    said: Any = PredictQuestion(run={"model": "gpt2", "cluster": "dgx-h100"}, compiled=True).answer()
    assert said.without_effect == ("compiled has no effect: it is of a recorded program (`work`)",)


@pytest.mark.parametrize("framework", ["megatron-core", "megatron-lm", "maxtext", "nanotron", "torchtitan"])
def test_a_saved_run_states_everything_and_nothing_of_it_is_complained_about(tmp_path, framework):
    file = tmp_path / "run.yaml"
    software = {"framework": framework}
    run = sw.predict(sw.Run(model="gpt2", cluster="dgx-h100", nodes=2, software=software)).run
    file.write_text(run_text(run))
    found: Any = PredictQuestion(run=file).answer()
    assert [one.partition(" ")[0] for one in found.without_effect] == ["layout.dp"]


def test_words_mean_what_they_mean_in_the_framework_that_is_named():
    run = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 2}
    layout = {"tp": 8, "sp": True, "shard": "fsdp"}
    titan = {"framework": "torchtitan"}

    def asked(software, **stated):
        return PredictQuestion(run={**run, "layout": {**layout, **stated}, "software": software}).answer()

    meant = asked(titan, overlap_tp=True, recompute="operations")
    said = asked(titan, async_tp=True, recompute="selective")
    assert said.step_s == meant.step_s
    assert said.run.layout == meant.run.layout
    assert sorted(said.without_effect) == [
        "async_tp true is read as torchtitan means it: overlap_tp true",
        "recompute selective is read as torchtitan means it: recompute operations",
    ]
    other = asked({"framework": "megatron-lm"}, async_tp=True, recompute="selective")
    assert other.run.layout.async_tp
    assert other.run.layout.recompute.text == "selective"
    assert other.without_effect == ()


OUTPUT = {"help", "html", "json", "markdown", "timeline", "explain-assumptions"}
"""Flags that say where and how the same answer is written."""
RUN = {"model": "gpt2", "cluster": "dgx-h100", "nodes": 2, "layout": {"shard": "ddp"}}
PROGRAM = {"run": {"cluster": "dgx-h100"}, "work": str(ROOT / "examples/capture/hybrid.work.json.gz")}


def questions(folder: Path) -> dict[str, tuple[Values, Values]]:
    """Every field of the question but the run, before and after it is stated."""
    known = sw.Run.model_validate(
        {**RUN, "measured": {"step_s": 1.1 * predict(sw.Run.model_validate(RUN)).step_s}}
    )
    files = {
        "known.yaml": run_text(known),
        "site.yaml": json.dumps({"known_runs": [yaml.safe_load(run_text(known))]}),
        "gemm.yaml": "gemm: [{m: 8192, n: 8192, k: 8192, dtype: bf16, rate: 300 TFLOP/s}]",
        "models/gpt2.yaml": "base: gpt2-medium",
        "life.jsonl": "".join(
            f"{json.dumps(line)}\n" for line in failing_life(20, checkpoint=True, aside={})
        ),
        "ranks.txt": "\n".join(str(number) for number in (1, 3, 5, 7, 2, 4, 6, 8)),
        "megatron.sh": "torchrun pretrain_gpt.py --micro-batch-size 4",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    plainly = {"run": RUN}
    shared = {"run": base("gpt2", LEAF_AND_SPINE, 8, shard="ddp"), "fabric": "tiers"}
    return {
        "known_run": (plainly, plainly | {"known_run": [str(folder / "known.yaml")]}),
        "calibration": (plainly, plainly | {"calibration": [str(folder / "gemm.yaml")]}),
        "site": (plainly, plainly | {"site": str(folder / "site.yaml")}),
        "catalogue": (plainly, plainly | {"catalogue": str(folder)}),
        "work": (plainly, PROGRAM),
        "compiled": (PROGRAM | {"eager": True}, PROGRAM | {"compiled": True}),
        "eager": (PROGRAM | {"compiled": True}, PROGRAM | {"eager": True}),
        "tokens": (plainly, plainly | {"tokens": "1B"}),
        "steps": (plainly, plainly | {"steps": 1000}),
        "samples": (plainly, plainly | {"samples": 100_000}),
        "measured": (plainly, plainly | {"measured": "1 s"}),
        "life": (
            plainly | {"steps": 200_000},
            plainly | {"steps": 200_000, "life": str(folder / "life.jsonl")},
        ),
        "rl": (plainly, plainly | {"rl": json.dumps(RL)}),
        "islands": (plainly, plainly | {"islands": json.dumps(ISLANDS)}),
        "fabric": (shared | {"fabric": None}, shared),
        "routing": (shared, shared | {"routing": "adaptive"}),
        "qps": (shared, shared | {"qps": 8}),
        "rank_order": (shared, shared | {"rank_order": str(folder / "ranks.txt")}),
    }


def test_every_flag_of_predict_acts(tmp_path):
    found = questions(tmp_path)
    assert found.keys() | {"run", "job"} == PredictQuestion.model_fields.keys()
    for name, (before, after) in found.items():
        answers = (dict(numbers(PredictQuestion.of(one).answer().to_dict())) for one in (before, after))
        assert differ(*answers), name


def test_every_flag_of_predict_is_a_key_that_is_turned():
    names = {flag.split()[0].removeprefix("--").replace("-", "_") for flag in flags_of("predict")}
    keys = {key.name.replace("-", "_") for key in keys_of(Run)} | {key.name for key in keys_of(Job, ("job",))}
    parts = {"lora", "phases", "measured", "model", "cluster", "FILE", "from"}
    left = names - keys - PredictQuestion.model_fields.keys() - {one.replace("-", "_") for one in OUTPUT}
    assert {one.removeprefix("layout.").removeprefix("job.") for one in left} <= parts, left
