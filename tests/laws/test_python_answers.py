"""One question, one answer: Python says what the verbs say, of the same run to the last digit."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.answer.sweep import varied_run
from syncwall.cli import main
from syncwall.public import Answer

DENSE = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 4\nlayout: {shard: fsdp, global_batch: 512}\n"
EXPERTS = "model: mixtral-8x7b\ncluster: dgx-h100\nnodes: 8\nlayout: {ep: 8, global_batch: 512}\n"
TOO_LARGE = "model: llama-3.1-70b\ncluster: dgx-h100\nnodes: 1\nlayout: {shard: fsdp}\n"
JOB = "run: {model: llama-3.1-8b, cluster: dgx-h100, nodes: 16}\ntokens: 1T tokens\nsimulations: 100\n"


@pytest.fixture
def file(tmp_path):
    """Writes a run file."""

    def written(text: str):
        path = tmp_path / "run.yaml"
        path.write_text(text)
        return path

    return written


@pytest.fixture
def verb(capsys):
    """What a verb says with --json."""

    def said(*words: object) -> Any:
        main([*map(str, words), "--json"])
        return json.loads(capsys.readouterr().out)

    return said


@pytest.mark.parametrize("text", [DENSE, EXPERTS, TOO_LARGE], ids=["dense", "experts", "too large"])
def test_predict(file, verb, text):
    path = file(text)
    answer = sw.predict(sw.run(path)).to_dict()
    assert answer == verb("predict", path)
    assert answer["next"]


def test_finish(file, verb):
    path = file(JOB)
    assert sw.finish(path).to_dict() == verb("predict", path)


def test_wall(file, verb):
    path = file(DENSE)
    assert sw.plan.wall(sw.run(path), most=64).to_dict() == verb("plan", "wall", path, "--most", 64)


@pytest.mark.parametrize("from_file", [True, False])
def test_what_nobody_states_is_chosen_as_by_the_verb(file, verb, from_file):
    keys = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 2, "layout": {"sp": False}}
    run = file(json.dumps(keys)) if from_file else keys
    words = ("--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", 2, "--sp", "false")
    assert sw.plan.wall(run, most=16).to_dict() == verb("plan", "wall", *words, "--most", 16)


def test_network(file, verb):
    path = file(DENSE)
    answer = sw.plan.network(sw.run(path), gpus=[32, 64], efficiency=0.8)
    words = ("plan", "network", path, "--nodes", 4, "--gpus", "32,64", "--efficiency", "80%")
    assert answer.to_dict()["counts"] == verb(*words)["counts"]


def test_fabric(file, verb):
    path = file(DENSE)
    powers = {"switch": 900.0, "optic": 14.0}
    answer = sw.plan.fabric(sw.predict(sw.run(path)), growth=0.2, powers=powers)
    words = ("--growth", "20%", "--power.switch", "900W", "--power.optic", "14W")
    assert answer.to_dict() == verb("plan", "fabric", path, *words)


def test_layouts(verb):
    model, cluster = sw.model("llama-3.1-8b"), sw.cluster("dgx-h100", nodes=3)
    answer = sw.plan.layouts(model, cluster, global_batch=100, pinned={"cp": 1, "sp": False})
    words = ("--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", 3)
    stated = ("--global-batch", 100, "--cp", 1, "--sp", "false")
    assert answer.to_dict() == verb("plan", "layouts", *words, *stated)


def test_explain(verb):
    path = "examples/explain/nccl.log"
    assert sw.explain(path).to_dict() == verb("explain", path)


def test_validate(verb):
    assert sw.validate("examples/runs.csv").to_dict() == verb("validate", "examples/runs.csv")


def test_a_row_of_a_sweep_is_a_prediction(file):
    run = sw.run(file(DENSE))
    rows = sw.sweep(run, nodes=[2, 4], tp=[1, 2], recompute="full")
    assert [(row["nodes"], row["tp"]) for row in rows] == [(2, 1), (2, 2), (4, 1), (4, 2)]
    for row in rows:
        layout = sw.Layout(shard="fsdp", global_batch=512, tp=row["tp"], recompute="full")
        own = sw.Run(model=run.model, cluster="dgx-h100", nodes=row["nodes"], layout=layout)
        said = sw.predict(own).to_dict()
        for key in said.keys() & row.keys() - {"verdict"}:
            assert row[key] == said[key], key
        assert row["verdict"] == said["verdict"]["kind"]
        assert [row["step_p10_s"], row["step_p90_s"]] == said["step_interval_s"]
        for table in ("ledger_s", "memory_by_cause_bytes"):
            of_table = {key: value for key, value in row.items() if key.startswith(f"{table}.")}
            named = {f"{table}.{cause}": value for cause, value in said[table].items()}
            assert {key: value for key, value in of_table.items() if value} == {
                key: value for key, value in named.items() if value
            }


def test_rows_of_a_sweep_are_flat_plain_and_of_one_shape(file):
    rows = sw.sweep(
        sw.run(file(DENSE)),
        cluster=["dgx-h100", sw.cluster("dgx-b200")],
        tp=np.array([1, 3]),
        framework=["torchtitan"],
        order=("tp", "cp", "ep", "dp", "pp"),
    )
    assert len({tuple(row) for row in rows}) == 1
    assert [bool(row["problem"]) for row in rows] == [False, True, False, True]
    assert [row["cluster"] for row in rows] == ["dgx-h100", "dgx-h100", "dgx-b200", "dgx-b200"]
    kinds = {type(value) for row in rows for key, value in row.items() if key != "order"}
    assert kinds <= {str, int, float, bool, type(None)}
    with pytest.raises(sw.InputError, match='no field "ndoes"; did you mean "nodes"'):
        sw.sweep(sw.run(file(DENSE)), ndoes=[1])


def test_a_shard_degree_of_its_own_stays_in_a_sweep(file):
    run = sw.run(file(DENSE.replace("fsdp,", "fsdp, shard_degree: 8,")))
    assert varied_run(run, {"nodes": 8}).layout.shard_degree == 8
    assert varied_run(sw.run(file(DENSE)), {"nodes": 8}).layout.shard_degree == 64


PINNED = {"tp": 1, "pp": 1, "cp": 1, "sp": False, "recompute_layers": None}


def answers(run: sw.Run) -> dict[str, Answer]:
    found = sw.predict(run)
    return {
        "prediction": found,
        "ledger": found.ledger,
        "timeline": found.timeline(),
        "job": sw.finish(sw.Job(run=run, tokens=1e12, simulations=100), found),
        "wall": sw.plan.wall(run, most=32),
        "network": sw.plan.network(run),
        "fabric": sw.plan.fabric(found),
        "layouts": sw.plan.layouts(run.model, run.cluster, global_batch=64, pinned=PINNED),
        "rl": sw.predict_rl("examples/rl/grpo-8b.yaml"),
        "islands": sw.predict_islands("examples/islands/intellect-1.yaml"),
        "explanation": sw.explain("examples/explain/nccl.log"),
        "report": sw.validate("examples/runs.csv"),
    }


def test_every_answer_has_a_line_a_screen_a_page_and_data(file):
    for name, answer in answers(sw.run(file(DENSE))).items():
        assert repr(answer).startswith("<"), name
        assert len(repr(answer)) <= 140, name
        lines = str(answer).splitlines()
        assert 2 <= len(lines) <= 70, name
        assert max(map(len, lines)) <= 100, name
        assert "\x1b" not in str(answer)
        page = answer._repr_html_()
        assert page.startswith("<iframe ")
        assert "<script" not in page.replace("&lt;script", "")
        assert json.loads(json.dumps(answer.to_dict(), allow_nan=False))


def test_descriptions_are_one_line_too(file):
    run = sw.run(file(DENSE))
    assert repr(run) == (
        "Run(model=Model('llama-3.1-8b'), cluster=Cluster('dgx-h100'), nodes=4, gpus_per_node=8, "
        "gpus=32, layout=Layout(dp=32, shard='fsdp', shard_degree=32, global_batch=512), seq=8192)"
    )


def test_numbers_of_one_run_are_plain(file):
    found = sw.predict(sw.run(file(DENSE)))
    memory = [getattr(found.memory, part.name) for part in fields(found.memory)]
    numbers = [
        *memory,
        *found.ledger.values(),
        *found.step_interval_s,
        found.step_s,
        found.mfu,
        found.exposed_s,
        found.memory_bytes,
        *found.room.interval_bytes,
        found.room.probability,
        found.ledger.total,
        found.verdict.share,
    ]
    numbers += [x for one in sw.improvements(found) for x in (one.gained_s, one.memory_bytes)]
    numbers += [x for one in found.timeline().intervals for x in (one.start_s, one.end_s)]
    assert {type(number) for number in numbers} == {float}
    assert type(found.fits) is bool
    assert sum(dict(found.ledger).values()) == pytest.approx(found.step_s)


FRAMEWORK = (
    "title: Ours\nattention: {2024-01: flash-2}\ntraffic: 3\nhost: {per_operation: 7 us}\n"
    "overlap_gradients: {2024-01: true}\noverlap_parameters: {2024-01: true}\n"
    "overlap_tp: {2024-01: false}\noverlap_pp: {2024-01: true}\n"
)


def test_a_catalogue_of_ones_own_stays_with_the_answer(tmp_path, file):
    (tmp_path / "frameworks").mkdir()
    (tmp_path / "frameworks" / "ours.yaml").write_text(FRAMEWORK)
    path = file(DENSE + "software: {framework: ours}\n")
    with pytest.raises(sw.InputError, match="unknown framework"):
        sw.run(path)
    found = sw.predict(sw.run(path, catalogue=tmp_path), catalogue=tmp_path)
    assert found.pricing.setting.framework.traffic == 3
    assert found.to_dict()["next"]
    assert "llama-3.1-8b" in str(found)
    assert sw.sweep(found.run, nodes=[4], catalogue=[tmp_path])[0]["step_s"] == found.step_s
