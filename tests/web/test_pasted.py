"""What is pasted: whatever `--from` takes gives the run that the command line makes of it."""

from pathlib import Path

import pytest

from syncwall.describe.names import only_catalogue
from syncwall.describe.settings import read_settings
from syncwall.describe.settings.formats import title_of
from syncwall.web.answers.pasted import pasted
from syncwall.web.questions import AskedRun, AskedText
from tests.describe.stated import run_with

SETTINGS = sorted((Path(__file__).parents[2] / "examples" / "settings").iterdir())
ALONE = [file for file in SETTINGS if not file.name.startswith("trainer")]
"""Those that name no other file."""
PAGE = AskedRun(model="llama-3.1-8b", cluster="dgx-h100", gpus=64, layout={"tp": 8, "global_batch": 64})


@pytest.mark.parametrize("named", [True, False], ids=["dropped", "pasted"])
@pytest.mark.parametrize("file", SETTINGS, ids=lambda file: file.name)
def test_all_files_of_the_examples_are_taken(file, named):
    said = pasted(AskedText(text=file.read_text(), name=file.name * named, run=PAGE))
    assert title_of(read_settings(file).format) in said["recognised"]
    assert "cluster" in said["kept"]
    run = AskedRun(**said["run"]).run()
    stated = {**said["run"].get("layout", {}), "framework": run.software.framework}
    assert {key.removeprefix("layout.") for key in said["taken"] if "layout." in key} <= set(stated)
    assert not {f"layout.{key}" for key in said["run"]["layout"]} & set(said["open"])


@pytest.mark.parametrize("file", ALONE, ids=lambda file: file.name)
def test_the_run_is_that_of_the_command_line(file):
    settings = read_settings(file)
    flags = {"cluster": "dgx-h100"}
    flags |= {} if "model" in settings.run else {"model": "llama-3.1-8b"}
    flags |= {} if "nodes" in settings.run else {"gpus": "64"}
    own = run_with(None, flags, settings)
    page = AskedRun(**pasted(AskedText(text=file.read_text(), run=PAGE))["run"]).run()
    assert page.layout == own.layout
    assert page.software == own.software
    assert (page.gpus, page.seq, page.model.parameters) == (own.gpus, own.seq, own.model.parameters)


def test_gpus_count_for_what_settings_leave_to_the_machine():
    """The batch of DeepSpeed's settings follows from the replicas: 64, not those of one node."""
    (file,) = [file for file in SETTINGS if file.name == "deepspeed.json"]
    flags = {"model": "llama-3.1-8b", "cluster": "dgx-h100"}
    by_gpus = run_with(None, flags | {"gpus": "64"}, read_settings(file))
    by_nodes = run_with(None, flags | {"nodes": "8"}, read_settings(file))
    assert by_gpus.layout.global_batch == by_nodes.layout.global_batch == 2 * 4 * 64


def test_files_that_a_text_names_are_not_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.json").write_text('{"zero_optimization": {"stage": 2}}')
    text = "per_device_train_batch_size: 2\ndeepspeed: secret.json\nmodel_name_or_path: ./here\n"
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "config.json").write_text("{}")
    said = pasted(AskedText(text=text, run=PAGE))
    assert "shard" not in said["run"]["layout"]
    assert said["run"]["model"] == "llama-3.1-8b"
    assert any("secret.json is not read" in note for note in said["notes"])
    assert any("./here" in note for note in said["notes"])
    with only_catalogue():
        assert read_settings(SETTINGS[0]).run["nodes"] == 4  # only what is named is refused


def test_a_cluster_and_a_part_of_a_run_are_laid_over_the_page():
    said = pasted(AskedText(text="base: dgx-h100\nnodes: 2\n", run=PAGE))
    assert said["recognised"] == "a cluster"
    assert said["run"]["cluster"]["base"] == "dgx-h100"
    assert AskedRun(**PAGE.fields() | said["run"]).run().cluster.device.name == "h100-sxm"
    part = pasted(AskedText(text="layout: {tp: 4}\n", run=PAGE))
    assert part["recognised"] == "part of a run file"
    assert not part["whole"]
    assert "model" in part["kept"]


def test_a_stack_of_layers_is_a_model_whatever_the_length_on_the_page():
    layer = "{name: a, parameters: 1M, flops: 1 GFLOP, activations: 1 MB}"
    page = AskedRun(model="llama-3.1-8b", cluster="dgx-h100", gpus=64, seq=8192)
    said = pasted(AskedText(text=f"stack:\n  - {layer}\n", run=page))
    assert said["recognised"] == "a model"
    run = AskedRun(**page.fields() | said["run"]).run()
    assert (run.model.parameters, run.seq) == (1_000_000, 1)
