"""Reading what was written gives the same layout back, or says what is missing."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.describe import Layout, Model, Run, Software, lookup
from syncwall.describe.layout import Recompute
from syncwall.describe.settings import FORMATS, SettingsContext, read_settings, written
from tests.describe.samples import MOE, model
from tests.describe.settings.layouts import IN_THE_SCRIPT, MODEL, SAYABLE, SEQ, layouts
from tests.describe.stated import run_with

FIXTURE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
FEW = settings(FIXTURE, max_examples=12)


def put_down(
    layout: Layout, name: str, directory: Path, model: Model = MODEL
) -> tuple[Path, tuple[str, ...]]:
    said = written(layout, name, seq=SEQ, nodes=layout.gpus, gpus_per_node=1, model=model)
    path = directory / f"settings{FORMATS[name].suffix}"
    path.write_text(said.text)
    return path, said.unsaid


@pytest.mark.parametrize("name", FORMATS)
@FIXTURE
@given(st.data())
def test_what_a_format_has_words_for_comes_back(name, tmp_path, data):
    layout = data.draw(SAYABLE[name])
    path, unsaid = put_down(layout, name, tmp_path)
    assert {line.partition(":")[0] for line in unsaid} <= IN_THE_SCRIPT[name]
    back = read_settings(path)
    assert back.format == name
    found = back.layout_on(SettingsContext(layout.gpus, 1, MODEL.layers)).resolved(layout.gpus)
    for field in (
        "dp",
        "tp",
        "pp",
        "cp",
        "ep",
        "shard",
        "shard_degree",
        "precision",
        "virtual_stages",
    ):
        assert getattr(found, field) == getattr(layout, field), field
    missing = IN_THE_SCRIPT[name]
    for field in {"micro_batch", "global_batch", "recompute"} - missing:
        assert getattr(found, field) == getattr(layout, field), field
    assert back.run.get("seq", SEQ) == SEQ


@pytest.mark.parametrize("name", FORMATS)
@FEW
@given(layouts())
def test_settings_and_what_they_leave_unsaid_predict_the_same(name, tmp_path, layout):
    """Whatever the layout: text and list together are all of it."""
    path, unsaid = put_down(layout, name, tmp_path, lookup.model("mixtral-8x7b"))
    back = read_settings(path)
    flags = {
        f"layout.{key}" if key != "seq" else key: value
        for key, _, value in (line.partition(": ") for line in unsaid)
    }
    file = tmp_path / "run.yaml"
    file.write_text(
        f"model: {{base: mixtral-8x7b}}\ncluster: dgx-h100\nnodes: {layout.gpus}\ngpus_per_node: 1\n"
    )
    software = Software(**back.software)
    if name == "torchtitan" and (layout.async_tp or layout.recompute == Recompute.SELECTIVE):
        reject()  # these words mean something else there
    try:
        run = Run.model_validate(
            {
                "model": "mixtral-8x7b",
                "cluster": "dgx-h100",
                "nodes": layout.gpus,
                "gpus_per_node": 1,
                "layout": layout,
                "software": software,
                "seq": SEQ,
            }
        )
    except ValueError:
        reject()  # not for this model
    assert predict(run_with(file, flags, back)).step_s == predict(run).step_s


@FIXTURE
@given(layout=layouts(), name=st.sampled_from(list(FORMATS)))
def test_what_is_unsaid_is_said_as_a_comment(layout, name):
    said = written(layout, name, seq=SEQ, model=MODEL)
    for line in said.unsaid:
        assert FORMATS[name].comment is None or f"# not in this file: {line}\n" in said.text


def test_pipelines_have_no_words_in_json():
    said = written(Layout(dp=2, pp=8, shard="zero1", global_batch=64), "deepspeed", seq=2048)
    assert "pp: 8" in said.unsaid
    assert "seq: 2048" in said.unsaid
    assert "#" not in said.text


def test_an_open_layout_stays_open(tmp_path):
    said = written(Layout(shard="fsdp", tp=8, sp=True, overlap_tp=False), "torchtitan")
    path = tmp_path / "job.toml"
    path.write_text(said.text)
    assert not {"dp", "global_batch", "shard_degree"} & set(read_settings(path).layout)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match='unknown settings format "megatro"; did you mean "megatron"'):
        written(Layout(), "megatro")


def test_a_dense_model_gets_no_arguments_for_experts():
    said = written(Layout(dp=2, tp=4), "megatron", model=model()).text
    assert "expert" not in said
    assert (
        "--expert-tensor-parallel-size 1"
        in written(Layout(dp=2, tp=4), "megatron", model=model(moe=MOE)).text
    )  # else it would be that of the other layers


@pytest.mark.parametrize(
    ("name", "kernels", "unsaid"),
    [
        ("torchtitan", "eager", ()),
        ("accelerate", "eager", ("software.fp8_scaling: row",)),
        ("megatron", "eager", ("software.kernels: eager", "software.fp8_scaling: row")),
        ("deepspeed", "eager", ()),  # as its models are anyway
        ("deepspeed", "fused", ("software.kernels: fused",)),
    ],
)
def test_what_is_said_of_the_software(tmp_path, name, kernels, unsaid):
    software = Software(kernels=kernels, fp8_scaling="row")
    precision = "bf16" if name == "deepspeed" else "fp8"  # which has no word for it
    said = written(Layout(dp=8, shard="fsdp", precision=precision), name, software=software)
    assert tuple(line for line in said.unsaid if line.startswith("software")) == unsaid
    path = tmp_path / f"settings{FORMATS[name].suffix}"
    path.write_text(said.text)
    if name == "torchtitan":
        found = Software(**read_settings(path).software)
        assert (found.kernels, found.fp8_scaling) == ("eager", "row")
