from pathlib import Path

import pytest
from pydantic import ValidationError

from syncwall.describe import Layout, Run, lookup
from syncwall.describe.base import is_open
from syncwall.describe.layout import PLAIN
from syncwall.problems import InputError
from tests.describe.samples import cluster, model


def test_a_run_is_complete():
    run = Run(model=model(), cluster=cluster(), nodes=4, layout=Layout(tp=8, global_batch=64))
    assert (run.gpus, run.layout.dp, run.seq) == (32, 4, 4096)
    assert run.tokens_per_step == 64 * 4096
    assert run.cluster.nodes == run.nodes == 4


def test_the_cluster_may_bring_its_own_nodes():
    assert Run(model=model(), cluster=cluster(nodes=2)).gpus == 16


def test_a_part_of_each_node_may_be_used():
    run = Run(model=model(), cluster=cluster(nodes=2), gpus_per_node=2)
    assert (run.gpus, run.layout.dp) == (4, 4)


def test_an_unknown_training_length_must_be_given():
    with pytest.raises(ValidationError, match='"seq" is missing: no training length is known'):
        Run(model=model(train_seq=None), cluster=cluster())


def test_names_are_looked_up():
    run = Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=32)
    assert (run.gpus, run.model.layers, run.cluster.device.name) == (256, 80, "h100-sxm")


def test_a_file_reports_every_problem_where_it_stands(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "model: llama-3.1-80b\ncluster: dgx-h100\nnodse: 4\nlayout:\n  shard: fsdb\n  bucket: 400GBps\n"
    )
    with pytest.raises(InputError) as caught:
        lookup.run(path)
    lines = str(caught.value).replace(str(tmp_path) + "/", "").splitlines()
    assert lines[0].startswith('run.yaml:1:1  unknown model "llama-3.1-80b"; did you mean "llama-3')
    assert lines[1:] == [
        'run.yaml:3:1  unknown key "nodse"; did you mean "nodes"?',
        'run.yaml:5:3  unknown shard "fsdb"; did you mean "fsdp"?',
        'run.yaml:6:3  unknown unit "GBps": did you mean "400 GB"?',
        "4 problems, nothing was computed",
    ]


def test_layouts_that_cannot_be_are_blamed_on_their_keys(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text("model: llama-3.1-70b\ncluster: dgx-h100\nnodes: 2\nlayout:\n  tp: 3\n  pp: 100\n")
    with pytest.raises(InputError) as caught:
        lookup.run(path)
    found = {(problem.line, problem.message) for problem in caught.value.problems}
    assert (5, "tp 3 does not divide 64 attention heads") in found
    assert (
        6,
        "pp 100 x virtual_stages 1 is more than 80 layers, embedding and output layer",
    ) in found


def test_a_machine_may_be_varied_from_another(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_text(
        "model: llama-3.1-8b\n"
        "cluster:\n"
        "  base: dgx-h100\n"
        "  nodes: 4\n"
        "  node: {nics: {count: 4}, device: {base: h100-sxm, memory: {size: 96 GB}}}\n"
    )
    run = lookup.run(path)
    assert run.gpus == 32
    assert run.cluster.nic_bytes_per_s_per_gpu == 25e9
    assert run.cluster.device.memory.size_bytes == 96e9
    assert run.cluster.device.memory.rate_bytes_per_s == 3.35e12


def test_files_are_found_beside_the_file_that_names_them(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("base: llama-3.1-8b\nlayers: 16\n")
    (tmp_path / "run.yaml").write_text("model: ./mine.yaml\ncluster: dgx-h100\n")
    run = lookup.run(tmp_path / "run.yaml")
    assert (run.model.name, run.model.layers) == ("mine", 16)


@pytest.mark.parametrize(
    ("stated", "machine"),
    [
        ({}, (1, 8)),
        ({"gpus": 8}, (1, 8)),
        ({"gpus": 32}, (4, 8)),
        ({"gpus": 4}, (1, 4)),
        ({"gpus": 32, "nodes": 4}, (4, 8)),
        ({"gpus": 8, "nodes": 2, "gpus_per_node": 4}, (2, 4)),
        ({"gpus": 8, "gpus_per_node": 4}, (2, 4)),
        ({"nodes": 3}, (3, 8)),
    ],
)
def test_gpus_are_another_way_to_state_nodes(stated, machine):
    run = Run(model=model(), cluster=cluster(), **stated)
    assert (run.nodes, run.gpus_per_node) == machine
    assert run.gpus == run.cluster.gpus == run.layout.dp == machine[0] * machine[1]


def test_gpus_beat_the_nodes_that_the_cluster_brings():
    assert Run(model=model(), cluster=cluster(nodes=2), gpus=32).nodes == 4


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ("gpus: 24\nnodes: 2\n", "2 nodes of 8 GPUs are not 24 GPUs"),
        ("gpus: 12\n", "12 GPUs do not fill whole nodes of 8"),
        ("gpus: 6\ngpus_per_node: 4\n", "6 GPUs do not fill whole nodes of 4"),
        ("gpus: 0\n", "0 is out of range: write 1 to 10,000,000"),
    ],
)
def test_gpus_that_cannot_be_are_refused_with_their_line(tmp_path, stated, says):
    path = tmp_path / "run.yaml"
    path.write_text(f"model: llama-3.1-8b\ncluster: dgx-h100\n{stated}")
    with pytest.raises(InputError) as caught:
        lookup.run(path)
    assert [(one.line, one.message) for one in caught.value.problems] == [(3, says)]


def test_what_somebody_has_to_choose_stays_open():
    run = Run(model=model(), cluster=cluster(), layout=Layout(tp=2))
    assert (run.layout.dp, run.layout.global_batch) == (4, 16)
    assert is_open(run.layout, "shard_degree")
    assert all(is_open(run.layout, name) for name in PLAIN)
    assert is_open(run.software, "framework")


def test_a_run_may_be_changed_and_is_checked_again():
    run = Run(model=model(), cluster=cluster(), layout=Layout(tp=2, micro_batch=2))
    other = run.changed(tp=4, dp=None, shard_degree=None, micro_batch=None)
    assert (other.layout.dp, other.layout.tp) == (2, 4)
    assert is_open(other.layout, "micro_batch")
    assert other.layout.global_batch == run.layout.global_batch == 8
    assert run.changed() == run
    with pytest.raises(ValidationError, match="tp 4 x cp 1 x pp 1 x dp 4 = 16, not the 8 GPUs"):
        run.changed(tp=4)
    with pytest.raises(ValidationError, match="unknown shard"):
        run.changed(shard="fsdb")


def test_a_run_may_move_to_another_machine():
    run = Run(model=model(), cluster=cluster(), layout=Layout(tp=2), seq=1024)
    again = {"dp": None, "shard_degree": None, "global_batch": None}
    open_again = run.layout.model_copy(update=again)
    moved = run.on(run.cluster.using(nodes=2), open_again)
    assert (moved.gpus, moved.nodes, moved.layout.dp, moved.seq) == (16, 2, 8, 1024)
    assert run.on(cluster(nics={"count": 8, "rate": "800 Gb/s"})).layout == run.layout
    with pytest.raises(ValidationError, match="not the 16 GPUs in use"):
        run.on(run.cluster.using(nodes=2))
