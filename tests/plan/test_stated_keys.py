"""What a file states holds: every key that is not searched is in every layout found.

Keys come from the types, so that a new one is turned too.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from syncwall.answer import predict
from syncwall.ask.plan import LayoutsQuestion
from syncwall.cli import main
from syncwall.describe import Layout, Run
from syncwall.describe.choice import Dtype
from syncwall.describe.files import RunFile, run_text
from syncwall.describe.settings.formats import parsed_text, read_settings, settings_in
from syncwall.describe.stated import StatedRun
from syncwall.describe.switches import Optimizer
from syncwall.documents import Document
from syncwall.plan.choices import SEARCHED
from syncwall.plan.reference import start_of
from syncwall.problems import InputError
from syncwall.records import plain
from tests.answer.keys import Key, keys_of, other_values

IN_FILE = {"in_file": True}
FREE = {*SEARCHED, "dp", "global_batch"}
KEYS = [key for key in keys_of(Layout) if key.path[0] not in FREE]
LORA = {"rank": 8, "targets": ["attention"]}
MACHINES = [("llama-3.1-8b", "dgx-h100", 8), ("mixtral-8x7b", "dgx-h100", 16), ("gpt2", "dgx-a100", 4)]
AXES: dict[str, list[Any]] = {
    "tp": [1, 2, 4],
    "pp": [1, 2],
    "shard": ["fsdp", "zero1", "ddp"],
    "recompute": ["none", "full"],
}
SOFTWARE = {
    "framework": ["megatron-core", "torchtitan", "deepspeed", "pytorch"],
    "kernels": ["fused", "eager"],
    "fp8_scaling": ["tensor", "block"],
    "date": ["2024-06", "2025-10"],
}
SMALL = {"layout.cp": "1", "layout.tp": "1,2", "layout.pp": "1,2", "layout.micro_batch": "1"}
"""Few of the layouts: what is searched is not what is asked here."""


def name_of(key: Key) -> str:
    return key.name.partition(".")[0]


def field_of(name: str) -> str:
    return next((field for field, one in Layout.model_fields.items() if one.alias == name), name)


@st.composite
def stated_layouts(draw: st.DrawFn, most: int) -> dict[str, Any]:
    """Keys of a layout that no search chooses, as a file writes them."""
    found: dict[str, Any] = {}
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=most, unique_by=name_of)):
        value = LORA if key.path[0] == "lora" else draw(st.sampled_from(other_values(key, None)))
        found[name_of(key)] = plain(value)
    return found


@st.composite
def files(draw: st.DrawFn) -> dict[str, Any]:
    model, cluster, gpus = draw(st.sampled_from(MACHINES))
    some = st.fixed_dictionaries({}, optional={name: st.sampled_from(v) for name, v in AXES.items()})
    software = st.fixed_dictionaries({}, optional={name: st.sampled_from(v) for name, v in SOFTWARE.items()})
    layout = {"global_batch": 32, **draw(some), **draw(stated_layouts(5))}
    return {"model": model, "cluster": cluster, "gpus": gpus, "layout": layout, "software": draw(software)}


def held(layout: Layout, stated: dict[str, Any]) -> dict[str, Any]:
    """Values of the fields of `layout` that `stated` names, each beside what is stated."""
    want = Layout.model_validate(stated, context=IN_FILE)
    names = [field_of(name) for name in stated]
    return {n: getattr(layout, n) for n in names if getattr(layout, n) != getattr(want, n)}


@pytest.mark.slow
@settings(max_examples=500)
@given(values=files(), flags=stated_layouts(2), settings_format=st.sampled_from(["megatron", "torchtitan"]))
def test_what_is_stated_and_not_searched_is_in_every_layout_found(values, flags, settings_format):
    file = RunFile(text=Document("run.yaml", values, {(): (1, 1)}))
    keys = {f"layout.{name}": value for name, value in flags.items()}
    try:
        mine = predict(StatedRun(file=file).run())
        predict(Run.model_validate(values | {"layout": {**values["layout"], **flags}}, context=IN_FILE))
    except (ValidationError, InputError):
        assume(False)
    asked = StatedRun(keys={**SMALL, **keys}, file=file)
    plan = LayoutsQuestion(run=asked, settings=settings_format).answer()
    assert plan.now is not None
    assert plan.now.step_s == mine.step_s
    assert plan.now.run == mine.run
    want = {name: one for name, one in values["layout"].items() if field_of(name) not in FREE} | flags
    for one in plan.found.families.values():
        assert held(one.layout, want) == {}
        assert one.run.software == StatedRun(file=file).run().software
    for point in plan.front:
        assert held(point.layout(), want) == {}
    assume(plan.best)
    best = plan.best[0].prediction
    assert f", {best.run.layout.precision} on " in plan.verdict
    saved = Run.model_validate(yaml.safe_load(run_text(best.run)), context=IN_FILE)
    assert held(saved.layout, want) == {}
    assert predict(saved).step_s == pytest.approx(best.step_s)


TOML = """
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
local_batch_size = 2
[parallelism]
tensor_parallel_degree = 1
[activation_checkpoint]
mode = "none"
"""
SCRIPT = """
torchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 1 --global-batch-size 64 --bf16 \\
  --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer \\
  --fp8-format hybrid --fp8-recipe blockwise \\
  --recompute-granularity selective --recompute-modules layernorm mlp
"""
RUN = "model: llama-3.1-8b\ncluster: dgx-h100\nlayout: {precision: fp8, shard: fsdp, global_batch: 64}\n"
FLAGS = ["--cluster", "dgx-h100", "--gpus", "8", "--cp", "1", "--json"]


@pytest.mark.parametrize(
    ("name", "text", "beside"),
    [
        ("job.toml", TOML, ["--from"]),
        ("job.sh", SCRIPT, ["--model", "llama-3.1-8b", "--from"]),
        ("run.yaml", RUN, []),
        ("run.yaml", RUN.replace("fp8", "bf16"), ["--precision", "fp8"]),
    ],
)
def test_precision_of_a_file_is_that_of_every_layout(name, text, beside, tmp_path, capsys):
    file, saved = tmp_path / name, tmp_path / "best.yaml"
    file.write_text(text)
    asked = [*beside, str(file), *FLAGS]
    assert main(["plan", "layouts", *asked, "--settings", "megatron", "--save", str(saved)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {one["layout"]["precision"] for one in plan["best"]} == {"fp8"}
    assert yaml.safe_load(saved.read_text())["layout"]["precision"] == "fp8"
    printed = settings_in(parsed_text(plan["settings"], Path("printed.sh")))
    assert printed.layout["precision"] == Dtype.FP8
    assert printed.software.get("fp8_scaling") == ("block" if name == "job.sh" else None)
    assert ", fp8 on 8 GPUs: " in plan["verdict"]
    file_only = [one for one in beside if one not in ("--precision", "fp8")]
    assert main(["predict", *file_only, str(file), *FLAGS[:4], "--json"]) == 0
    assert plan["yours"]["step_s"] == json.loads(capsys.readouterr().out)["step_s"]
    assert ("as fast as yours (precision bf16)" in plan["verdict"]) == (beside == ["--precision", "fp8"])


def test_modules_that_a_script_recomputes_are_those_of_layouts_that_recompute_some(tmp_path):
    file = tmp_path / "job.sh"
    file.write_text(SCRIPT)
    keys = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "gpus": 8, "layout.recompute": "selective"}
    question = LayoutsQuestion(run=StatedRun(keys, read_settings(file)), settings="megatron")
    plan = question.answer()
    assert {one.layout.recompute_modules for one in plan.best} == {("layernorm", "mlp")}
    assert "--recompute-modules layernorm mlp" in str(plan.settings)


def test_a_run_of_python_is_compared_with_what_is_found():
    layout = Layout.model_validate({"precision": "fp8", "shard": "fsdp", "global_batch": 64, "cp": 1})
    run = Run.model_validate({"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 1, "layout": layout})
    plan = LayoutsQuestion(run=run).answer()
    assert plan.now is not None
    assert plan.now.step_s == predict(run).step_s
    assert {one.layout.precision for one in plan.best} == {Dtype.FP8}
    open_run = Run.model_validate({"model": "gpt2", "cluster": "dgx-h100", "nodes": 1})
    assert LayoutsQuestion(run=open_run).answer().now is None


def test_replicas_that_are_stated_are_those_of_every_layout():
    keys = {"model": "gpt2", "cluster": "dgx-h100", "gpus": 8, "layout.dp": "4", "layout.global_batch": "32"}
    plan = LayoutsQuestion(run=StatedRun(keys)).answer()
    assert {one.layout.dp for one in plan.found.families.values()} == {4}


def test_what_is_kept_on_the_host_holds_where_a_wall_searches_layouts():
    keys = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "gpus": 8, "layout.optimizer": "muon"}
    start = start_of(StatedRun({**keys, "layout.loss_chunks": 4}))
    assert start.layout_searched
    assert (start.run.layout.optimizer, start.run.layout.loss_chunks) == (Optimizer.MUON, 4)
