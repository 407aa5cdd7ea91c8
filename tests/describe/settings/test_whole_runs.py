"""Settings files that say the whole run: model, layout and batch without a retyped flag."""

from pathlib import Path
from typing import Any

import pytest

import syncwall as sw
from syncwall.describe import Run
from syncwall.describe.settings import read_settings
from tests.describe.stated import run_with

WHOLE = Path("tests/data/settings/whole")
EXAMPLES = Path("examples/settings")
Said = tuple[str, float, int, dict[str, Any]]
"""Format, parameters in billions, tokens of a sequence, and keys of the layout."""
FILES: dict[str, Said] = {
    "titan_llama3_8b.toml": (
        "torchtitan",
        8.03,
        8192,
        {"shard": "fsdp", "global_batch": 128, "recompute": "operations"},
    ),
    "titan_deepseek_671b.toml": (
        "torchtitan",
        671.03,
        4096,
        {"pp": 8, "ep": 32, "schedule": "interleaved", "global_batch": 2048},
    ),
    "titan_qwen3_30b.toml": ("torchtitan", 30.53, 4096, {"ep": 8, "micro_batch": 4}),
    "titan_llama4.toml": ("torchtitan", 107.77, 8192, {"tp": 8, "ep": 8, "global_batch": 512}),
    "titan_flags.sh": ("torchtitan", 70.55, 8192, {"tp": 8, "recompute": "full", "micro_batch": 2}),
    "megatron_llama3_8b.sh": (
        "megatron",
        8.03,
        8192,
        {"cp": 2, "precision": "fp8", "shard": "zero1", "global_batch": 128},
    ),
    "megatron_mixtral.sh": (
        "megatron",
        46.70,
        4096,
        {"pp": 4, "ep": 8, "global_batch": 256, "dispatcher": "all-to-all"},
    ),
    "megatron_gpt_345m.sh": (
        "megatron",
        0.355,
        1024,
        {"shard": "ddp", "micro_batch": 8, "global_batch": 64, "precision": "fp16"},
    ),
    "megatron_deepseek_v3.sh": (
        "megatron",
        671.03,
        4096,
        {"pp": 16, "virtual_stages": 2, "ep": 64, "global_batch": 8192},
    ),
    "nemo_gpt3_5b.yaml": (
        "nemo",
        5.05,
        2048,
        {"shard": "zero1", "micro_batch": 4, "global_batch": 2048, "recompute": "selective"},
    ),
    "nemo_llama2_70b.yaml": (
        "nemo",
        68.98,
        4096,
        {"tp": 4, "pp": 4, "sp": True, "virtual_stages": 20, "overlap_tp": True, "precision": "fp8"},
    ),
    "bridge_llama3_70b.yaml": (
        "nemo",
        70.55,
        8192,
        {"tp": 4, "pp": 4, "cp": 2, "virtual_stages": 5, "overlap_gradients": True},
    ),
    "bridge_qwen3_moe.yaml": (
        "nemo",
        235.09,
        4096,
        {"ep": 32, "etp": 1, "recompute": "full", "dispatcher": "deepep", "precision": "fp8"},
    ),
    "bridge_shape.yaml": ("nemo", 8.03, 8192, {"tp": 2, "global_batch": 512}),
    "trainer_sft.yaml": (
        "trainer",
        7.62,
        4096,
        {"shard": "fsdp", "micro_batch": 4, "global_batch": 1024, "recompute": "full"},
    ),
    "trainer_args.json": (
        "trainer",
        6.74,
        2048,
        {"shard": "zero2", "micro_batch": 8, "global_batch": 4096, "recompute": "none"},
    ),
    "trainer_accelerate.sh": (
        "trainer",
        7.25,
        8192,
        {"shard": "fsdp", "micro_batch": 2, "global_batch": 512},
    ),
    "trainer_torchrun.sh": ("trainer", 9.24, 4096, {"shard": "zero2", "global_batch": 256}),
    "trainer_trl_ddp.sh": ("trainer", 14.66, 4096, {"shard": "ddp", "global_batch": 64, "recompute": "full"}),
    "llama_factory_lora.yaml": (
        "trainer",
        8.03,
        2048,
        {"frozen_weights": True, "shard": "ddp", "global_batch": 1024},
    ),
    "axolotl.yaml": ("trainer", 1.24, 2048, {"shard": "fsdp", "micro_batch": 2, "global_batch": 512}),
    "hf_local.yaml": ("trainer", 0.06, 1024, {"shard": "zero2", "global_batch": 256}),
}


def described(path: Path, nodes: int = 16) -> Run:
    """The run of the file on a cluster; only what no settings say is added."""
    settings = read_settings(path)
    flags = {"cluster": "dgx-h100"} | ({} if "nodes" in settings.run else {"nodes": str(nodes)})
    return run_with(None, flags, settings)


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_model_layout_and_batch(name):
    style, billions, seq, layout = FILES[name]
    path = WHOLE / name
    assert read_settings(path).format == style
    run = described(path, 128 if billions > 200 else 16)
    assert run.model.parameters / 1e9 == pytest.approx(billions, abs=0.006)
    assert run.seq == seq
    expected = run.layout.model_validate(layout)
    assert {key: getattr(run.layout, key) for key in layout} == {
        key: getattr(expected, key) for key in layout
    }


def test_every_file_here_is_tested():
    assert {path.name for path in WHOLE.iterdir() if path.is_file()} == set(FILES)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("torchtitan.toml", "llama-3.1-70b"),
        ("nemo.yaml", "llama-3-70b"),
        ("trainer.sh", "llama-3.1-8b"),
        ("trainer.yaml", "qwen2.5-7b"),
        ("megatron.sh", "model of megatron.sh"),
    ],
)
def test_the_examples_name_their_model(name, model):
    run = described(EXAMPLES / name, 32)
    assert run.model.name == model
    assert sw.predict(run).step_s > 0


def test_a_flag_wins_over_the_model_of_the_file():
    settings = read_settings(EXAMPLES / "torchtitan.toml")
    flags = {"cluster": "dgx-h100", "nodes": "32", "model": "llama-3.1-8b"}
    assert run_with(None, flags, settings).model.name == "llama-3.1-8b"


def test_the_shape_of_the_arguments_is_that_of_the_catalogue():
    for name, known in (("megatron_llama3_8b.sh", "llama-3-8b"), ("megatron_deepseek_v3.sh", "deepseek-v3")):
        run = described(WHOLE / name, 128)
        assert run.model.parameters == sw.model(known).parameters
        assert run.model.active_parameters == sw.model(known).active_parameters


@pytest.mark.parametrize(
    ("suffix", "text", "note"),
    [
        (
            ".toml",
            '[model]\nname = "llama3"\nflavor = "debugmodel"\n[training]\nseq_len = 2048\n',
            'run.toml:3:1  "debugmodel" of llama3 is not known here: name the model with --model',
        ),
        (
            ".yaml",
            "model_name_or_path: nobody/nothing\nper_device_train_batch_size: 1\n",
            'run.yaml:1:1  "nobody/nothing" is not known here: name the model with --model',
        ),
        (
            ".sh",
            "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1",
            "run.sh:1:1  the vocabulary is not stated: 50,257 rows (GPT-2) are taken",
        ),
        (".toml", "[parallelism]\ntensor_paralel_degree = 8\n", 'run.toml:2:1  "tensor_paralel_'),
        (".toml", "[parallelism]\nfancy_degree = 8\n", 'run.toml:2:1  "fancy_degree" is not a'),
        (".json", '{"zero_optimization": {"stage": 3, "fast": true}}', 'run.json:1:36  "fast" is '),
        (".yaml", "distributed_type: FSDP\nfsdp_config:\n  fsdp_speed: 1\n", "run.yaml:3:3  "),
        (".yaml", "model: {tensor_model_paralel_size: 2, micro_batch_size: 1}\n", "run.yaml:1:9  "),
    ],
)
def test_what_is_not_understood_is_noted_with_its_line(suffix, text, note, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(f"run{suffix}")
    path.write_text(text)
    notes = [str(one) for one in read_settings(path).notes]
    assert any(one.startswith(note) for one in notes), notes


def test_the_trainer_s_offload_is_that_of_fsdp(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text("per_device_train_batch_size: 1\nfsdp: full_shard auto_wrap offload\n")
    layout = read_settings(path).layout
    names = ("offload_weights", "offload_gradients", "offload_optimizer")
    assert [layout[name] for name in names] == [True, True, True]
