"""Hugging Face accelerate's YAML."""

from pathlib import Path

import pytest

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import ContextKind, Layout, Recompute, Schedule, Shard
from syncwall.describe.settings import Settings, SettingsContext, read_settings, written
from syncwall.problems import InputError

DATA = Path(__file__).parents[2] / "data" / "settings"


def configuration(directory: Path, text: str) -> Settings:
    path = directory / "config.yaml"
    path.write_text(text)
    return read_settings(path)


def test_the_first_fsdp_with_a_copy_in_every_node():
    settings = read_settings(DATA / "accelerate_fsdp1.yaml")
    assert settings.layout == {
        "shard": Shard.FSDP,
        "precision": Dtype.BF16,
        "recompute": Recompute.NONE,
        "overlap_parameters": False,
    }
    assert settings.run == {"nodes": 4, "gpus_per_node": 8}
    assert settings.software == {"framework": "pytorch"}
    assert settings.layout_on(SettingsContext(32, 8)).shard_degree == 8


def test_a_deepspeed_file_beside_it():
    settings = read_settings(DATA / "accelerate_deepspeed.yaml")
    assert settings.software == {"framework": "deepspeed"}
    assert settings.layout["shard"] == Shard.ZERO2
    assert settings.layout["precision"] == Dtype.BF16  # the file beside it counts
    assert settings.layout_on(SettingsContext(16)).micro_batch == 4


def test_a_deepspeed_file_that_is_missing(tmp_path):
    text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: no.json\n"
    with pytest.raises(InputError, match=r"config.yaml:3:3 .*no.json: cannot be read"):
        configuration(tmp_path, text)


def test_megatron_through_accelerate():
    settings = read_settings(DATA / "accelerate_megatron.yaml")
    assert settings.layout == {
        "tp": 2,
        "pp": 2,
        "sp": True,
        "shard": Shard.ZERO1,
        "recompute": Recompute.SELECTIVE,
        "precision": Dtype.BF16,
        "schedule": Schedule.ONE_F_ONE_B,
        "virtual_stages": 1,
    }
    assert settings.left.accumulated == 8
    layout = settings.layout_on(SettingsContext(16), {"micro_batch": 2})
    assert layout.global_batch == 2 * 8 * 4


@pytest.mark.parametrize("prefix", ["", "parallelism_config_"])
def test_parallel_sizes(tmp_path, prefix):
    text = (
        "distributed_type: FSDP\nparallelism_config:\n"
        f"  {prefix}dp_replicate_size: 2\n  {prefix}dp_shard_size: 4\n"
        f"  {prefix}tp_size: 2\n  {prefix}cp_size: 2\n"
    )
    assert configuration(tmp_path, text).layout == {
        "shard": Shard.FSDP,
        "dp": 8,
        "tp": 2,
        "cp": 2,
        "cp_kind": ContextKind.ALL_GATHER,
        "shard_degree": 8,
    }


def test_ddp_is_stated(tmp_path):
    settings = configuration(tmp_path, "distributed_type: MULTI_GPU\nmixed_precision: 'no'\n")
    assert settings.layout == {"shard": Shard.DDP}  # the format is that of the script's model


def test_processes_that_do_not_fit_the_machines(tmp_path):
    with pytest.raises(InputError, match=r"config.yaml:3:1  10 processes do not fit 4 machines"):
        configuration(tmp_path, "distributed_type: FSDP\nnum_machines: 4\nnum_processes: 10\n")


def test_an_unknown_type_suggests_the_nearest(tmp_path):
    with pytest.raises(InputError, match='did you mean "FSDP"'):
        configuration(tmp_path, "distributed_type: FSPD\n")


ON_THE_HOST = {"offload_weights": True, "offload_gradients": True, "offload_optimizer": True}


def test_the_cpu_offload_of_fsdp(tmp_path):
    text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\n"
    found = configuration(tmp_path, text)
    assert found.layout == {"shard": Shard.FSDP, **ON_THE_HOST}
    kept = configuration(tmp_path, text + "  fsdp_sharding_strategy: SHARD_GRAD_OP\n")
    assert kept.layout == {"shard": Shard.ZERO2}
    assert "fully sharded weights only" in str(kept.notes[0])


def test_devices_of_deepspeed_without_a_file(tmp_path):
    text = (
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n"
        "  offload_optimizer_device: cpu\n  offload_param_device: cpu\n"
    )
    assert configuration(tmp_path, text).layout == {"shard": Shard.FSDP, **ON_THE_HOST}


@pytest.mark.parametrize("format_", ["accelerate", "torchtitan"])
def test_the_cpu_offload_is_written_as_it_is_read(format_):
    layout = Layout.model_validate({"shard": "fsdp", "micro_batch": 1, "dp": 2, **ON_THE_HOST})
    found = written(layout, format_)
    assert not any("offload" in one for one in found.unsaid)
    part = layout.model_copy(update={"offload_gradients": False})
    assert "offload_weights: true" in written(part, format_).unsaid
