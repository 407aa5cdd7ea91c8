"""The Predict page's numbers are those of the Python API."""

import json
import re

import pytest
import yaml

import syncwall as sw
from syncwall.answer.improvements import improvements
from syncwall.records import json_text, plain
from syncwall.show.layout import run_words

HF_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
}


def predicted(run):
    layout = sw.Layout(**run["layout"])
    cluster = sw.cluster(run["cluster"], nodes=run["nodes"])
    return sw.predict(sw.Run(model=run["model"], cluster=cluster, layout=layout))


def test_a_prediction_is_that_of_the_api(client, run):
    answer = client.post("/api/predict", json=run)
    assert answer.status_code == 200
    own = predicted(run)
    said = answer.json()
    for key, value in plain(own.step).items():
        assert said[key] == pytest.approx(value) if isinstance(value, float) else said[key] == value
    assert sum(said["ledger_s"].values()) == pytest.approx(said["step_s"])


MOE = {
    "model": "deepseek-v3",
    "cluster": "dgx-h100",
    "nodes": 64,
    "layout": {"tp": 8, "shard": "fsdp", "global_batch": 1024},
}
LARGE = {
    "model": "llama-3.1-405b",
    "cluster": "dgx-h100",
    "gpus": 64,
    "layout": {"tp": 8, "global_batch": 64},
}
HALF = {"model": "gpt3-13b", "cluster": "dgx-h100", "gpus": 4, "layout": {"tp": 4}}


def applied(run, proposal):
    """The run that a click on a proposal leads to."""
    layout = {**run["layout"], **proposal["layout"]}
    changed = {**run, "layout": {key: one for key, one in layout.items() if one is not None}}
    if proposal["nodes"]:
        changed.pop("gpus", None)
        changed |= {key: proposal[key] for key in ("nodes", "gpus_per_node") if proposal[key]}
    return changed


@pytest.mark.parametrize("other", [None, MOE, LARGE, HALF], ids=["70b", "experts", "405b", "half"])
def test_a_proposal_that_is_applied_brings_what_it_promised(client, run, other):
    asked = other or run
    before = client.post("/api/predict", json=asked).json()
    answer = client.post("/api/next", json=asked).json()
    proposals = answer["next"] + [answer["more"]] * bool(answer["more"])
    assert proposals
    for one in proposals:
        after = client.post("/api/predict", json=applied(asked, one)).json()
        assert before["step_s"] - after["step_s"] == pytest.approx(one["gained_s"], rel=1e-9)
        assert after["memory_bytes"] - before["memory_bytes"] == pytest.approx(one["memory_bytes"])
        assert after["tokens"] == before["tokens"]
        assert after["fits"]


def test_proposals_are_those_of_python(client, run):
    own = improvements(predicted(run), 5)
    shown = client.post("/api/next", json=run).json()["next"]
    assert [one["change"] for one in shown] == [one.change for one in own]
    for page, here in zip(shown, own, strict=True):
        assert page["gained_s"] == pytest.approx(here.gained_s, rel=1e-9)
        assert set(page["layout"]) == set(here.fields)


def test_expert_parallelism_is_proposed_where_only_it_makes_a_run_fit(client):
    answer = client.post("/api/next", json=MOE).json()
    assert not answer["fits"]
    first = answer["next"][0]
    assert first["change"].startswith("ep ")
    assert set(first["layout"]) == {"ep"}
    assert answer["step_s"] - first["gained_s"] < 20


def test_nodes_are_proposed_where_no_change_of_the_layout_fits(client):
    grown, moved = client.post("/api/next", json=LARGE).json()["next"]
    assert grown["nodes"] == 16
    assert grown["change"] == "nodes 16"
    assert moved["layout"]["offload_optimizer"] is True
    asked = {**LARGE, "layout": LARGE["layout"] | moved["layout"]}
    assert client.post("/api/predict", json=asked).json()["fits"]


def test_it_says_what_was_predicted_and_what_was_chosen(client, run):
    said = client.post("/api/predict", json=run).json()
    own = predicted(run)
    assert said["what"] == run_words(own.run)
    assert {one["field"]: one["value"] for one in said["chosen"] if not one["follows"]} == (said["left_open"])
    assert all(one["why"] for one in said["chosen"])
    assert "shard" not in {one["field"] for one in said["chosen"]}


def test_the_reason_names_the_heaviest_traffic_of_its_axis(client, run):
    """The all-gathers of every layer, not the single one of the embedding."""
    why = client.post("/api/predict", json=run).json()["why"]
    assert re.search(r"exposed TP, .*: 1,280 all-gathers of attention and MLP", why)
    assert "embedding" not in why


def test_every_problem_is_listed_with_its_key(client, run):
    run["layout"] |= {"tp": 7, "shard": "fsp"}
    answer = client.post("/api/predict", json=run)
    assert answer.status_code == 422
    problems = {one["where"]: one["what"] for one in answer.json()["problems"]}
    assert 'did you mean "fsdp"' in problems["layout.shard"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.yaml", "C:\\x.json", "x.json"])
@pytest.mark.parametrize("key", ["model", "cluster"])
def test_paths_are_refused(client, run, key, name):
    answer = client.post("/api/predict", json=run | {key: name})
    assert answer.status_code == 422
    assert "only names of the catalogue" in answer.text


def test_a_pasted_configuration_becomes_a_model_in_place(client, run):
    answer = client.post("/api/paste", json={"text": json.dumps(HF_CONFIG)})
    pasted = answer.json()["run"]
    assert pasted["model"]["layers"] == 16
    assert pasted["seq"] == 8192
    said = client.post("/api/predict", json=run | pasted)
    assert said.status_code == 200, said.text
    assert said.json()["parameters"] == pytest.approx(1.2358e9, rel=1e-3)


def test_a_pasted_run_file_is_read_and_its_faults_have_places(client):
    text = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 2\nlayout: {shard: fsdp}\n"
    assert client.post("/api/paste", json={"text": text}).json()["run"]["nodes"] == 2
    answer = client.post("/api/paste", json={"text": text.replace("nodes", "nodse")})
    assert answer.status_code == 422
    assert 'pasted:3:1  unknown key "nodse"; did you mean "nodes"?' in answer.text.replace("\\", "")


def test_exports_are_what_the_command_line_writes(client, run, tmp_path):
    text = client.post("/api/export/yaml", json=run).json()
    (tmp_path / "run.yaml").write_text(text)
    own = sw.predict(sw.run(tmp_path / "run.yaml"))
    assert yaml.safe_load(text) == run
    said = json.loads(client.post("/api/export/json", json=run).json())
    assert said == json.loads(json_text(own.to_dict()))
    trace = json.loads(client.post("/api/export/perfetto", json=run).json())
    assert len(trace["traceEvents"]) > 100


def test_the_form_offers_the_whole_catalogue(client):
    said = client.get("/api/options").json()
    assert {"llama-3.1-70b", "deepseek-v3"} <= {one["name"] for one in said["models"]}
    assert "dgx-h100" in {one["name"] for one in said["clusters"]}
