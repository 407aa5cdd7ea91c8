"""A run file under settings under flags."""

from pathlib import Path

import pytest

from syncwall.describe.base import is_open
from syncwall.describe.layout import Shard
from syncwall.describe.settings import read_settings
from syncwall.problems import InputError
from tests.describe.stated import run_with

TITAN = """\
[training]
local_batch_size = 2
seq_len = 4096
[parallelism]
data_parallel_replicate_degree = 2
tensor_parallel_degree = 4
"""
RUN = {"model": "llama-3.1-8b", "cluster": "dgx-h100"}


def titan(directory: Path, text: str = TITAN) -> Path:
    path = directory / "job.toml"
    path.write_text(text)
    return path


def test_flags_win_over_settings_and_settings_over_the_run_file(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 4\nseq: 2048\n"
        "layout: {tp: 2, micro_batch: 8, overlap_gradients: false}\n"
    )
    run = run_with(file, {"layout.tp": "8"}, read_settings(titan(tmp_path)))
    assert (run.seq, run.nodes) == (4096, 4)
    assert (run.layout.tp, run.layout.micro_batch) == (8, 2)
    assert run.layout.overlap_gradients is False  # settings do not say
    assert (run.layout.shard, run.layout.shard_degree) == (Shard.FSDP, 2)  # 4 replicas, 2 copies


def test_what_settings_leave_open_stays_open(tmp_path):
    run = run_with(None, RUN, read_settings(titan(tmp_path)))
    assert all(is_open(run.layout, name) for name in ("recompute", "precision", "virtual_stages"))


def test_the_framework_is_that_of_the_settings_unless_another_is_named(tmp_path):
    settings = read_settings(titan(tmp_path))
    assert run_with(None, RUN, settings).software.framework == "torchtitan"
    flags = {**RUN, "software.framework": "pytorch"}
    assert run_with(None, flags, settings).software.framework == "pytorch"
    file = tmp_path / "run.yaml"
    file.write_text("model: llama-3.1-8b\ncluster: dgx-h100\nsoftware: {framework: megatron-core}\n")
    assert run_with(file, {}, settings).software.framework == "megatron-core"


def test_a_batch_given_as_a_flag_beats_counted_micro_batches(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text('{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}')
    settings = read_settings(path)
    assert run_with(None, RUN, settings).layout.global_batch == 2 * 4 * 8
    run = run_with(None, {**RUN, "layout.global_batch": "32"}, settings)
    assert (run.layout.global_batch, run.layout.micro_batch) == (32, 2)
    run = run_with(None, {**RUN, "layout.micro_batch": "1"}, settings)
    assert run.layout.global_batch == 1 * 4 * 8


def test_nodes_of_the_settings_are_used(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("distributed_type: FSDP\nnum_machines: 4\nnum_processes: 16\n")
    run = run_with(None, RUN, read_settings(path))
    assert (run.nodes, run.gpus_per_node, run.layout.dp) == (4, 4, 16)


def test_a_broken_rule_names_the_line_of_the_settings(tmp_path):
    text = TITAN.replace("= 4\n", "= 5\n").replace("data_parallel_replicate_degree = 2\n", "")
    with pytest.raises(InputError, match=r"job.toml:5:1  tp 5 does not divide 32 attention heads"):
        run_with(None, RUN, read_settings(titan(tmp_path, text)))


def test_copies_that_do_not_fit_name_their_line(tmp_path):
    text = TITAN.replace("replicate_degree = 2", "replicate_degree = 3")
    with pytest.raises(InputError, match=r"job.toml:5:1  3 copies do not divide the 2 ranks"):
        run_with(None, RUN, read_settings(titan(tmp_path, text)))


def test_a_wrong_model_is_named_even_if_settings_wait_for_it(tmp_path):
    with pytest.raises(InputError, match="model: unknown model"):
        run_with(None, {**RUN, "model": "lama"}, read_settings(titan(tmp_path)))
