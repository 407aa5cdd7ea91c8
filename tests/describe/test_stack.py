"""A model that is no transformer: read, refused, written and read again."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from syncwall.describe import Layout, Model, Run, lookup
from syncwall.describe.files import run_text
from syncwall.describe.layer_kinds import of_a_sample
from syncwall.describe.reading import read
from syncwall.describe.rules import broken_rules
from syncwall.problems import InputError
from tests.describe.samples import cluster

RESNET = str(Path(__file__).parents[2] / "examples" / "models" / "resnet-50.yaml")
TEXT = """\
name: net
stack:
  - {name: down, parameters: 10.5M, flops: 120 GFLOP, activations: 220 MB, output: 20 MB, repeat: 2}
  - {name: up, parameters: 7, flops: 1 MFLOP, activations: 4 MB, moved: 9 MB, output: 1 MB}
"""


def net(**changes: Any) -> Model:
    return Model.model_validate(yaml.safe_load(TEXT) | changes)


def test_a_file_gives_layers_and_their_sums(tmp_path):
    (tmp_path / "net.yaml").write_text(TEXT)
    model = lookup.model(str(tmp_path / "net.yaml"))
    assert (model.layers, model.parameters, model.train_seq) == (3, 21_000_007, 1)
    assert model.active_parameters == model.parameter_count.stack == model.parameters
    assert of_a_sample(model.stack or ()) == {
        "forward_flops": 240_001_000_000,
        "activation_bytes": 444_000_000,
        "traffic_bytes": 2 * 440_000_000 + 9_000_000,
    }
    assert not model.is_plain_decoder


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("120 GFLOP", "120", 'net.yaml:3:37  "120" has no unit'),
        ("220 MB", "many", "net.yaml:3:55"),
        ("10.5M", "-3", "out of range"),
        ("10.5M", "10.5", "not a whole number"),
        ("repeat: 2", "repeat: {value: 2}", "written as a number alone"),
        ("repeat: 2", "repeats: 2", 'did you mean "repeat"'),
        ("name: net", "hidden: 64", "is of a transformer"),
        ("name: net", "encoder: {layers: 2}", "is of a transformer"),
        ("name: net", "train_seq: 512", "is of a transformer"),
        ("name: net", "titel: Net", 'did you mean "title"'),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, old, new, says):
    file = tmp_path / "net.yaml"
    file.write_text(TEXT.replace(old, new))
    with pytest.raises(InputError) as error:
        lookup.model(str(file))
    assert says in str(error.value)


def test_a_stack_without_parameters_is_refused():
    empty = {"name": "a", "parameters": 0, "flops": "1 FLOP", "activations": "1 B"}
    for stack in ([], [empty]):
        with pytest.raises(ValidationError, match="has layers, and these have parameters"):
            Model.model_validate({"stack": stack})


def test_a_run_file_gives_it_again(tmp_path):
    run = Run(model=net(), cluster=cluster(), layout=Layout(micro_batch=4))
    (tmp_path / "run.yaml").write_text(run_text(run))
    again = read(tmp_path / "run.yaml", Run)
    assert again.model == run.model
    assert again.layout == run.layout


def test_a_stack_can_be_varied():
    (tail,) = yaml.safe_load(TEXT)["stack"][1:]
    varied = Run.model_validate(
        {
            "model": {"base": RESNET, "stack": [tail]},
            "cluster": "dgx-h100",
        }
    )
    assert varied.model.parameters == 7
    assert varied.model.layers == 1


def test_samples_have_no_length():
    assert Run(model=net(), cluster=cluster()).seq == 1
    with pytest.raises(ValidationError, match="counts in samples: leave seq out"):
        Run(model=net(), cluster=cluster(), seq=512)


@pytest.mark.parametrize(
    ("field", "layout"),
    [
        ("tp", {"tp": 2}),
        ("cp", {"cp": 2}),
        ("pp", {"pp": 2}),
        ("ep", {"ep": 2}),
        ("recompute", {"recompute": "selective"}),
        ("lora", {"lora": {"rank": 8}}),
        ("precision", {"precision": "fp8"}),
        ("document_tokens", {"document_tokens": 1}),
        ("offload_layers", {"offload_layers": 1}),
        ("frozen", {"frozen_layers": 1}),
        ("images", {"images": 2}),
    ],
)
def test_layouts_that_cut_or_know_the_inside_of_layers_are_refused(field, layout):
    broken = broken_rules(net(), Layout.model_validate(layout).resolved(8).plain(), 1, 8)
    assert field in {name for name, _ in broken}


@pytest.mark.parametrize("shard", ["ddp", "zero1", "zero2", "fsdp"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_every_way_to_shard_is_taken(shard, recompute):
    layout = Layout.model_validate({"shard": shard, "recompute": recompute}).resolved(8).plain()
    assert broken_rules(net(), layout, 1, 8) == []


def test_recomputation_needs_to_know_what_layers_hand_on():
    stack = [{"name": "a", "parameters": 1, "flops": "1 FLOP", "activations": "1 B"}]
    layout = Layout.model_validate({"recompute": "full"}).resolved(8).plain()
    ((field, reason),) = broken_rules(net(stack=stack), layout, 1, 8)
    assert field == "recompute"
    assert "`output`" in reason
