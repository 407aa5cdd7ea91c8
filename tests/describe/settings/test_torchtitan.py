"""torchtitan's job files, read as torchtitan takes them."""

from pathlib import Path

import pytest

from syncwall.cli import main
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.settings import Settings, SettingsContext, read_settings, written
from syncwall.describe.stated import StatedRun
from syncwall.problems import InputError
from tests.describe.samples import model

DATA = Path(__file__).parents[2] / "data" / "settings"


def job(directory: Path, text: str) -> Settings:
    path = directory / "job.toml"
    path.write_text(text)
    return read_settings(path)


def test_a_job_with_a_pipeline():
    settings = read_settings(DATA / "titan_405b.toml")
    assert settings.layout == {
        "tp": 8,
        "sp": True,
        "overlap_tp": True,
        "pp": 8,
        "schedule": Schedule.INTERLEAVED,
        "virtual_stages": 2,
        "micro_batch": 2,
        "precision": Dtype.FP8,
        "recompute": Recompute.OPERATIONS,
        "shard": Shard.FSDP,  # in a pipeline its weights stay gathered after the forward pass
    }
    assert settings.run == {"seq": 8192, "model": "llama-3.1-405b"}
    assert settings.software == {"framework": "torchtitan", "fp8_scaling": "row"}
    layout = settings.layout_on(SettingsContext(gpus=256))
    assert layout.global_batch == 16 * 4  # 4 replicas take 16 sequences each


@pytest.mark.parametrize(
    ("converter", "table"),
    [("float8", "float8"), ("quantize.linear.float8", "quantize.linear.float8")],
)
def test_weights_are_gathered_in_eight_bits_where_a_job_says_so(tmp_path, converter, table):
    text = f"[model]\nconverters = ['{converter}']\n[parallelism]\ntensor_parallel_degree = 1\n[{table}]\n"
    assert "gather_dtype" not in job(tmp_path, text).layout
    layout = job(tmp_path, f"{text}enable_fsdp_float8_all_gather = true\n").layout_on(SettingsContext(8))
    assert layout.gather_dtype == Dtype.FP8
    said = written(layout.model_copy(update={"recompute": Recompute.NONE, "micro_batch": 1}), "torchtitan")
    assert not [one for one in said.unsaid if one.startswith("gather_dtype")]
    assert job(tmp_path, said.text).layout["gather_dtype"] == Dtype.FP8


def test_what_is_left_out_stays_open(tmp_path):
    settings = job(tmp_path, "[parallelism]\ntensor_parallel_degree = 1\n")
    assert settings.layout == {"tp": 1, "shard": Shard.FSDP}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data_parallel_shard_degree = 8", {"dp": 8, "shard": Shard.FSDP}),
        (
            "data_parallel_shard_degree = 8\ndata_parallel_replicate_degree = 4",
            {"dp": 32, "shard": Shard.FSDP, "shard_degree": 8},
        ),
        (
            "data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 4",
            {"dp": 4, "shard": Shard.DDP},
        ),
        (
            "data_parallel_shard_degree = 4\ncontext_parallel_degree = 2",
            {"dp": 4, "cp": 2, "cp_kind": ContextKind.ALL_GATHER, "shard": Shard.FSDP},
        ),
        (
            "context_parallel_degree = 2\ncontext_parallel_rotate_method = 'alltoall'",
            {"cp": 2, "cp_kind": ContextKind.RING, "shard": Shard.FSDP},
        ),
        ("fsdp_reshard_after_forward = 'never'", {"shard": Shard.ZERO2}),
        (
            "pipeline_parallel_degree = 4\nfsdp_reshard_after_forward = 'always'",
            {
                "pp": 4,
                "shard": Shard.FSDP,
                "reshard_after_forward": True,
                "schedule": Schedule.ONE_F_ONE_B,
                "virtual_stages": 1,
                "micro_batch": 1,
            },
        ),
    ],
)
def test_parallel_degrees(tmp_path, text, expected):
    assert job(tmp_path, f"[parallelism]\n{text}\n").layout == expected


def test_copies_of_the_shards_wait_for_the_number_of_gpus(tmp_path):
    settings = job(tmp_path, "[parallelism]\ndata_parallel_replicate_degree = 4\n")
    assert "shard_degree" not in settings.layout
    assert settings.layout_on(SettingsContext(gpus=64)).shard_degree == 16
    with pytest.raises(InputError, match="4 copies do not divide the 6 ranks"):
        settings.layout_on(SettingsContext(gpus=6))


def test_virtual_stages_wait_for_the_layers_of_the_model(tmp_path):
    """torchtitan counts embedding and head as a layer each: (126 + 2) / 4 = 32 stages."""
    text = (
        "[parallelism]\npipeline_parallel_degree = 8\npipeline_parallel_layers_per_stage = 4\n"
        'pipeline_parallel_schedule = "Interleaved1F1B"\n'
    )
    settings = job(tmp_path, text)
    assert "virtual_stages" not in settings.layout
    assert settings.layout_on(SettingsContext(layers=126)).virtual_stages == 4
    with pytest.raises(InputError, match="not a multiple of pp 8"):
        settings.layout_on(SettingsContext(layers=40))


def test_every_second_layer_is_recomputed(tmp_path):
    text = "[training]\nseq_len = 8192\n[activation_checkpoint]\nmode = 'selective'\n"
    layout = job(tmp_path, text).layout_on(SettingsContext(layers=32))
    assert (layout.recompute, layout.recompute_layers) == (Recompute.FULL, 16)


def test_a_pipeline_that_is_emptied_several_times_is_refused(tmp_path):
    text = (
        "[training]\nlocal_batch_size = 8\nglobal_batch_size = 128\n"
        "[parallelism]\npipeline_parallel_degree = 2\n"
    )
    with pytest.raises(InputError, match=r"job.toml:3:1 .* write local_batch_size 32"):
        job(tmp_path, text).layout_on(SettingsContext(gpus=8))


def test_what_a_layout_cannot_say_is_noted(tmp_path):
    text = (
        "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'LoopedBFS'\n"
        "[activation_checkpoint]\nmode = 'memory_budget'\n"
    )
    settings = job(tmp_path, text)
    assert [(note.line, note.message.split(" is ")[0]) for note in settings.notes] == [
        (3, 'schedule "LoopedBFS"'),
        (5, "memory_budget"),
    ]
    assert not {"schedule", "recompute"} & set(settings.layout)


def test_every_problem_is_reported_with_its_line(tmp_path):
    text = "[parallelism]\ntensor_parallel_degree = 'eight'\n\npipeline_parallel_degree = 0\n"
    with pytest.raises(InputError) as caught:
        job(tmp_path, text)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(2, 1), (4, 1)]


def test_toml_that_is_none_names_the_line(tmp_path):
    with pytest.raises(InputError, match=r"job.toml:2:\d+  not TOML"):
        job(tmp_path, "[parallelism]\ntensor_parallel_degree = = 8\n")


def test_flags_of_later_releases_are_read_from_a_script(tmp_path):
    path = tmp_path / "train.sh"
    path.write_text(
        "torchrun --nproc_per_node=8 -m torchtitan.train --module llama3 \\\n"
        "  --parallelism.tensor_parallel_degree 4 --parallelism.data_parallel_shard_degree=2\n"
    )
    settings = read_settings(path)
    assert settings.format == "torchtitan"
    assert settings.layout == {"tp": 4, "sp": True, "dp": 2, "shard": Shard.FSDP}


@pytest.mark.parametrize(("layers", "says"), [(126, True), (96, True), (40, False)])
def test_virtual_stages_are_written_as_layers_if_they_divide(tmp_path, layers, says):
    """32 stages: of 126 layers and two ends, of 96 layers alone; 40 layers cannot be cut so."""
    layout = Layout(
        dp=2,
        pp=8,
        schedule="interleaved",
        virtual_stages=4,
        shard="fsdp",
        global_batch=64,
        recompute="none",
    )
    said = written(layout, "torchtitan", model=model(layers=layers))
    assert said.unsaid == (() if says else ("virtual_stages: 4",))
    assert ("layers_per_stage" in said.text) is says
    back = job(tmp_path, said.text).layout_on(SettingsContext(16, 8, layers))
    assert back.virtual_stages == (4 if says else 2)


def test_a_misspelt_key_is_named(tmp_path):
    settings = job(tmp_path, "[parallelism]\ntensor_paralel_degree = 8\n")
    (note,) = settings.notes
    assert note.line == 2
    assert 'did you mean "tensor_parallel_degree"?' in note.message


LOCAL = """
[training]
local_batch_size = 16
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
"""


@pytest.mark.parametrize(
    ("flags", "micro", "batch"),
    [
        ({}, 16, 16 * 16),
        ({"tp": 4}, 16, 32 * 16),
        ({"tp": 4, "pp": 4}, 1, 8 * 16),
        ({"tp": 4, "pp": 4, "micro_batch": 2}, 2, 8 * 16),
        ({"tp": 4, "pp": 4, "global_batch": 64}, 1, 64),
        ({"micro_batch": 2}, 2, 16 * 2),  # its local batch is what one pass takes
    ],
)
def test_the_local_batch_keeps_its_meaning_beside_flags(flags, micro, batch, tmp_path):
    """Of each data-parallel rank; a pipeline cuts it into micro batches."""
    file = tmp_path / "job.toml"
    file.write_text(LOCAL)
    keys = {"model": "llama-3.1-70b", "cluster": "dgx-h100", "gpus": 128}
    keys |= {f"layout.{name}": value for name, value in flags.items()}
    layout = StatedRun(keys, read_settings(file)).run().layout
    assert (layout.micro_batch, layout.global_batch) == (micro, batch)


def test_the_local_batch_of_a_pipeline_is_a_micro_batch_without_one(tmp_path):
    file = tmp_path / "job.toml"
    file.write_text(LOCAL + "pipeline_parallel_degree = 2\n")
    keys = {"model": "llama-3.1-70b", "cluster": "dgx-h100", "gpus": 128, "layout.pp": 1}
    layout = StatedRun(keys, read_settings(file)).run().layout
    assert (layout.micro_batch, layout.global_batch) == (16, 16 * 16)


@pytest.mark.parametrize("name", ["run.toml", "job.sh"])
def test_settings_in_the_place_of_a_run_file_name_the_flag(name, tmp_path, capsys):
    file = tmp_path / name
    file.write_text(LOCAL)
    assert main(["predict", str(file)]) == 2
    assert f"--from {name}" in capsys.readouterr().err
