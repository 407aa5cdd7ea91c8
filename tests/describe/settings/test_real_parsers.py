"""What is written as settings is loaded by the parsers of frameworks that are installed."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from syncwall.describe import Layout
from syncwall.describe.settings import written
from tests.describe.settings.layouts import MODEL, SEQ

LAYOUTS: tuple[dict[str, Any], ...] = (
    {"shard": "fsdp", "dp": 16, "recompute": "full"},
    {"shard": "fsdp", "dp": 16, "shard_degree": 8},
    {"shard": "ddp", "dp": 16, "precision": "fp16"},
    {"shard": "zero2", "dp": 4, "tp": 4, "sp": True},
    {"shard": "fsdp", "dp": 4, "cp": 4, "cp_kind": "all-gather"},
)
NODES, GPUS_PER_NODE = 2, 8


def text(format: str, fields: dict[str, Any]) -> str:  # noqa: A002 - the word that users know
    layout = Layout.model_validate({"micro_batch": 2, "global_batch": 128, **fields})
    found = written(layout, format, seq=SEQ, model=MODEL, nodes=NODES, gpus_per_node=GPUS_PER_NODE)
    return found.text


@pytest.mark.parametrize("fields", LAYOUTS)
def test_accelerate_launch_takes_its_configuration(fields, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    launch = pytest.importorskip("accelerate.commands.launch", reason="accelerate is not installed")
    from accelerate.utils.launch import prepare_multi_gpu_env

    path = tmp_path / "accelerate.yaml"
    path.write_text(text("accelerate", fields))
    asked = launch.launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    arguments, _, _ = launch._validate_launch_command(asked)
    assert (arguments.num_machines, arguments.num_processes) == (NODES, NODES * GPUS_PER_NODE)
    assert arguments.use_fsdp == (fields["shard"] != "ddp")
    environment = prepare_multi_gpu_env(arguments)
    if arguments.use_fsdp:
        assert environment["FSDP_VERSION"] == "2"
        kept = str(fields["shard"] == "fsdp").lower()
        assert environment["FSDP_RESHARD_AFTER_FORWARD"].lower() == kept
    for size, key in (("TP", "tp"), ("CP", "cp")):
        if fields.get(key, 1) > 1:
            assert environment[f"PARALLELISM_CONFIG_{size}_SIZE"] == str(fields[key])


@pytest.mark.parametrize("fields", LAYOUTS)
def test_deepspeed_takes_its_configuration(fields):
    pytest.importorskip("torch", reason="torch is not installed")
    config = pytest.importorskip("deepspeed.runtime.zero.config", reason="deepspeed is missing")
    stated = json.loads(text("deepspeed", fields))["zero_optimization"]
    found = config.DeepSpeedZeroConfig(**stated)
    assert int(found.stage) == stated["stage"]
    assert found.overlap_comm == stated["overlap_comm"]


@pytest.mark.parametrize("fields", LAYOUTS)
def test_megatron_takes_its_arguments(fields, monkeypatch):
    arguments = pytest.importorskip("megatron.training.arguments", reason="Megatron-LM is missing")
    lines = [line for line in text("megatron", fields).splitlines() if not line.startswith("#")]
    words = shlex.split(" ".join(line.rstrip("\\") for line in lines))
    shape = "--num-layers 30 --hidden-size 4096 --num-attention-heads 64"
    monkeypatch.setattr("sys.argv", ["pretrain_gpt.py", *words, *shape.split()])
    found = arguments.parse_args()
    assert found.tensor_model_parallel_size == fields.get("tp", 1)
    assert found.global_batch_size == 128


def test_a_key_that_accelerate_does_not_know_would_fail(tmp_path):
    """That its parser is strict, or the test above says nothing."""
    pytest.importorskip("torch", reason="torch is not installed")
    args = pytest.importorskip("accelerate.commands.config.config_args", reason="no accelerate")
    path = Path(tmp_path) / "accelerate.yaml"
    path.write_text(text("accelerate", LAYOUTS[0]) + "fast: true\n")
    with pytest.raises(ValueError, match="fast"):
        args.load_config_from_file(str(path))
