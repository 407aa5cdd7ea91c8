"""How long a recorded program trains, and what that costs: by terminal, Python and JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

import syncwall as sw
from syncwall.ask.predict import PredictQuestion
from syncwall.cli import main
from syncwall.job.completion import Completion
from syncwall.problems import InputError
from syncwall.read.recorded_program import read_program

FILE = Path(__file__).parents[2] / "examples/capture/hybrid.work.json.gz"
PROGRAM = read_program(FILE)


def asked(**stated) -> Completion:
    question = PredictQuestion(run={"cluster": "dgx-a100"}, work=FILE, job={"simulations": 100}, **stated)
    found = question.answer()
    assert isinstance(found, Completion)
    return found


def test_a_job_repeats_the_step_and_costs_its_gpus():
    found = asked(steps=100_000)
    step_s = sw.predict(PROGRAM, cluster=sw.cluster("dgx-a100")).step_s
    assert found.prediction.step_s == step_s
    assert found.settled.plan.work_s == pytest.approx(100_000 * step_s)
    low_s, half_s, high_s = found.finish_s
    assert 100_000 * step_s * 0.5 < low_s < half_s < high_s
    hours = found.bill.gpus * half_s / 3600
    assert found.cost_usd is not None
    assert found.bill.usd_per_gpu_hour is not None
    assert found.cost_usd[1] == pytest.approx(hours * found.bill.usd_per_gpu_hour)
    assert found.bill.gpus >= PROGRAM.world_size
    assert found.settled.checkpoint_bytes > 2 * PROGRAM.parameters


def test_samples_are_steps_rounded_up():
    samples = int(PROGRAM.samples)
    assert asked(samples=10 * samples + 1).phases.steps == asked(steps=11).phases.steps == 11


def test_samples_of_a_described_run():
    run = {"model": "vit-h-14", "cluster": "dgx-a100", "layout": {"global_batch": 256}}
    found: Any = PredictQuestion(run=run, samples="1.28M", job={"simulations": 100}).answer()
    assert found.phases.steps == 5000


def test_python_takes_the_keys_of_the_job_beside_the_prediction():
    prediction = sw.predict(PROGRAM, cluster=sw.cluster("dgx-a100"))
    found = sw.finish({"steps": 100_000, "simulations": 100}, prediction)
    assert found.finish_s == asked(steps=100_000).finish_s
    with pytest.raises(TypeError, match="recorded program"):
        sw.finish({"steps": 1})


def test_json_has_the_step_and_the_job(capsys):
    words = ["--work", str(FILE), "--cluster", "dgx-a100", "--gpus", "256", "--samples", "1M"]
    assert main(["predict", *words, "--job.simulations", "100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verb"] == "predict work"
    assert found["job"]["steps"] == -(-1_000_000 // int(PROGRAM.samples))
    assert found["job"]["cost_usd"][1] > 0
    assert found["mfu_convention"] == "FLOPs as recorded, dense 16-bit peak"


def test_a_step_without_a_job_says_so_in_json(capsys):
    assert main(["predict", "--work", str(FILE), "--cluster", "dgx-a100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["job"] is None


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"tokens": "1B"}, "nobody knows how many tokens a step of the program has: write steps N"),
        ({"samples": "x"}, '"x" is not a number of samples: write 1000000 or 1M'),
        ({"samples": 9, "steps": 9}, "write steps or samples, not both"),
        ({}, "how long is the job"),
        ({"steps": 9, "life": "life.jsonl"}, "life is for descriptions, not for work"),
    ],
)
def test_what_is_no_length(stated, said):
    with pytest.raises(InputError, match=said):
        asked(**stated)


def test_other_gpus_than_it_was_recorded_with_are_refused():
    for gpus in (8, 257):
        with pytest.raises(InputError, match="a program recorded with 256 ranks: record it again"):
            PredictQuestion(run={"cluster": "dgx-a100", "gpus": gpus}, work=FILE).answer()
