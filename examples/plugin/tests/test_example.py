"""Both entries by themselves, and as syncwall uses them: needs the package installed."""

from pathlib import Path

import pytest
from syncwall_example.recursive_doubling import cost

import syncwall as sw
from syncwall.answer.prediction import plugged_parts
from syncwall.cost.nccl import ChannelGraph, CollectiveRequest, NcclGroup, Tuner
from syncwall.explain.answer import explain

ROOT = Path(__file__).parents[1]
GRAPH = ChannelGraph(8, 45e9, 45e9, 8, 45e9, 45e9, link=370e9, nic=45e9)


def asked(ranks: int, nodes: int) -> CollectiveRequest:
    return CollectiveRequest("all-gather", NcclGroup(ranks, nodes), GRAPH, 0)


def test_twice_the_nodes_take_one_round_more():
    (few_us, _), (many_us, rate) = (cost(Tuner("hopper"), asked(8 * n, n)) for n in (64, 128))
    assert many_us - few_us == pytest.approx(14)
    assert rate == pytest.approx(8 * 45e9 * 128 / 127)  # the NICs of a node are the limit


def test_in_one_node_it_is_not_used():
    assert cost(Tuner("hopper"), asked(8, 1))[1] == 0


def test_a_prediction_rests_on_it_and_says_so():
    run = sw.Run(
        model=sw.model("llama-3.1-8b"),
        cluster=sw.cluster("example-cluster", nodes=256),
        layout=sw.Layout(shard="fsdp", global_batch=2048, micro_batch=1),
    )
    parts = {part.what: part.by for part in plugged_parts(sw.predict(run))}
    assert parts == {
        "cluster": "example-cluster",
        "all-gather of shard": "RecursiveDoubling",
        "reduce-scatter of shard": "RecursiveDoubling",
    }


def test_a_log_of_steps_is_explained():
    found = explain([ROOT / "steps.csv"])
    assert found.files == {"step log": 1}
    assert [one.says for one in found.read["step log"]] == ["100 steps, median 0.52 s"]
    (finding,) = found.findings
    assert "one every 20 steps" in finding.what
