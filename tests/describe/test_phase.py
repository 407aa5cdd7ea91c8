from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from syncwall.describe import Job, Layout, Run
from syncwall.describe.job import MOST_STRETCHES
from syncwall.describe.reading import read
from syncwall.problems import InputError
from tests.describe.samples import cluster, model

RUN = Run(model=model(), cluster=cluster(), layout=Layout(global_batch=64))


def job(*phases: dict[str, Any], **fields: Any) -> Job:
    return Job(run=RUN, phases=phases, **fields)


def test_what_a_phase_leaves_out_is_as_in_the_run():
    first, second = job({"steps": 3}, {"steps": 4, "name": "long", "seq": 8192}).stretches
    assert first.run is RUN
    assert (first.phase, first.steps) == ("1", 3)
    assert (second.phase, second.run.seq) == ("long", 8192)
    assert second.run.layout == RUN.layout


def test_replicas_follow_the_layout_of_a_phase():
    (one,) = job({"steps": 1, "layout": {"tp": 2, "shard": "fsdp"}}).stretches
    assert one.run.layout.tp * one.run.layout.dp == RUN.gpus
    assert one.run.layout.shard_degree == one.run.layout.dp


def test_a_batch_grows_as_with_megatron():
    """--rampup-batch-size 16 16 SAMPLES: equal shares of the samples with 16, 32 and 48."""
    found = job({"tokens": 3 * 96 * 4096, "ramp": {"start": 16, "increment": 16}}).stretches
    assert [one.run.layout.global_batch for one in found] == [16, 32, 48]
    assert [one.steps for one in found] == [6, 3, 2]


def test_steps_of_all_phases_are_those_of_the_job():
    assert job({"steps": 3}, {"tokens": 64 * 4096 * 2 + 1}).total_steps == 6


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([{}], "either `tokens` or `steps` of each phase"),
        ([{"steps": 1, "ramp": {"start": 16, "increment": 16}}], "write the `tokens`"),
        ([{"steps": 1, "layout": {"seq": 3}}], "write `seq` beside `layout`"),
        ([{"steps": 1}, {"steps": 1, "layout": {"tpp": 2}}], "phases.1.layout.tpp: unknown key"),
        ([{"steps": 1, "global_batch": 3}], "phases.0.global_batch: "),
        (
            [{"tokens": 1e9, "global_batch": 6400, "ramp": {"start": 16, "increment": 16}}],
            f"more than {MOST_STRETCHES} batch sizes",
        ),
    ],
)
def test_what_is_wrong_with_phases(phases, message):
    with pytest.raises(ValidationError, match=message):
        job(*phases)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"tokens": 1e9}, "the phases say"), ({"measured": {"step_s": 3}}, "`measured.step`")],
)
def test_phases_say_how_long_the_job_is(fields, message):
    with pytest.raises(ValidationError, match=message):
        job({"steps": 3}, **fields)


def test_phases_are_read_from_text_as_from_a_file():
    texts = Job(run=RUN, phases="[{tokens: 1T}, {steps: 10, seq: 8192}]")
    assert texts.phases == job({"tokens": 1e12}, {"steps": 10, "seq": 8192}).phases


def test_a_problem_has_the_line_of_its_phase(tmp_path: Path):
    (tmp_path / "job.yaml").write_text(
        "run: {model: llama-3.1-8b, cluster: dgx-h100, nodes: 2}\n"
        "phases:\n"
        "  - {tokens: 1T}\n"
        "  - {tokens: 1B, layout: {tp: 3}}\n"
    )
    with pytest.raises(InputError, match=r"job\.yaml:4:\d+ .*tp"):
        read(tmp_path / "job.yaml", Job)
