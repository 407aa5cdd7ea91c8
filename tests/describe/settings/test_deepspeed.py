"""DeepSpeed's JSON."""

import json
from pathlib import Path

import pytest

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Shard
from syncwall.describe.settings import Settings, SettingsContext, read_settings, written
from syncwall.problems import InputError

DATA = Path(__file__).parents[2] / "data" / "settings"


def configuration(directory: Path, text: str) -> Settings:
    path = directory / "ds.json"
    path.write_text(text)
    return read_settings(path)


def test_auto_is_open():
    settings = read_settings(DATA / "zero3_auto.json")
    said = {
        "shard": Shard.FSDP,
        "precision": Dtype.BF16,
        "offload_optimizer": True,
        "offload_gradients": True,
        "reshard_after_forward": 8,
    }
    assert settings.layout == said
    assert settings.software == {"framework": "deepspeed"}
    assert not settings.notes


def test_the_batch_follows_from_the_replicas():
    settings = read_settings(DATA / "zero2.json")
    assert settings.layout_on(SettingsContext(gpus=16)).micro_batch == 4
    with pytest.raises(InputError, match="do not divide a batch of 256"):
        settings.layout_on(SettingsContext(gpus=24))


def test_micro_batches_that_contradict_the_batch(tmp_path):
    text = '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}'
    settings = configuration(tmp_path, text)
    assert settings.layout_on(SettingsContext(gpus=16)).resolved(16).microbatches == 2
    with pytest.raises(InputError, match="are 32, not the batch of 64"):
        settings.layout_on(SettingsContext(gpus=8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"zero_optimization": {"stage": 1}}', {"shard": Shard.ZERO1}),
        (
            '{"zero_optimization": {"stage": 2, "overlap_comm": true}}',
            {"shard": Shard.ZERO2, "overlap_gradients": True},
        ),
        (
            '{"zero_optimization": {"stage": 3, "overlap_comm": false, "mics_shard_size": 8}}',
            {
                "shard": Shard.FSDP,
                "overlap_gradients": False,
                "overlap_parameters": False,
                "shard_degree": 8,
            },
        ),
        (
            '{"bf16": {"enabled": false}, "fp16": {"enabled": true}}',
            {"precision": Dtype.FP16},
        ),
        (
            '{"fp16": {"enabled": false}, "bf16": {"enabled": false}}',
            {"precision": Dtype.FP32},
        ),
        (
            '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}',
            {"shard": Shard.ZERO3, "offload_optimizer": True, "offload_gradients": True},
        ),
        (
            '{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},'
            ' "offload_optimizer": {"device": "none"}}}',
            {"shard": Shard.ZERO3, "offload_weights": True},
        ),
        (
            '{"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}',
            {"shard": Shard.ZERO1, "offload_optimizer": True},
        ),
        (
            '{"bf16": {"enabled": "auto"}, "communication_data_type": "fp32"}',
            {"gradient_dtype": Dtype.FP32},
        ),
        (
            '{"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}, "sequence_parallel_size": 2}',
            {"global_batch": 8, "tp": 4, "cp": 2, "cp_kind": ContextKind.ULYSSES},
        ),
    ],
)
def test_keys(tmp_path, text, expected):
    assert configuration(tmp_path, text).layout == expected


def test_problems_name_their_line(tmp_path):
    text = '{\n "bf16": {"enabled": true},\n "fp16": {"enabled": true},\n'
    text += ' "zero_optimization": {\n  "stage": 4}\n}'
    with pytest.raises(InputError) as caught:
        configuration(tmp_path, text)
    assert [problem.line for problem in caught.value.problems] == [2, 5]


def test_zero_plus_plus_is_read_and_written(tmp_path):
    stated = {
        "stage": 3,
        "zero_hpz_partition_size": 8,
        "zero_quantized_weights": True,
        "zero_quantized_gradients": True,
    }
    path = tmp_path / "zeropp.json"
    path.write_text(json.dumps({"zero_optimization": stated, "bf16": {"enabled": True}}))
    found = read_settings(path)
    assert not found.notes
    assert found.layout["reshard_after_forward"] == 8
    assert found.layout["gather_dtype"] == Dtype.INT8
    assert found.layout["quantized_gradients"] is True
    layout = Layout.model_validate(found.layout).resolved(32)
    told = json.loads(written(layout, "deepspeed").text)["zero_optimization"]
    assert stated.items() <= told.items()


@pytest.mark.parametrize(
    ("stage", "device", "says"),
    [(2, "cpu", "with stage 3 only: ignored"), (3, "nvme", "priced as the memory of the host")],
)
def test_parameters_elsewhere_are_noted(tmp_path, stage, device, says):
    stated = {"stage": stage, "offload_param": {"device": device}}
    found = configuration(tmp_path, json.dumps({"zero_optimization": stated}))
    assert says in str(found.notes[0])
    assert found.layout.get("offload_weights", False) == (stage == 3)


def test_what_is_on_the_host_is_written_as_it_is_read():
    there = {"offload_weights": True, "offload_optimizer": True, "offload_gradients": True}
    layout = Layout.model_validate({"shard": "zero3", "micro_batch": 1, "dp": 2, **there})
    found = written(layout, "deepspeed")
    assert json.loads(found.text)["zero_optimization"]["offload_param"] == {"device": "cpu"}
    assert not any("offload" in one for one in found.unsaid)
