"""Real processes on real hosts: measured, predicted, run, compared. Needs root and torch."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from syncwall.cli import main
from syncwall.lab import Topology, lab
from syncwall.lab.comparison import predicted_steps
from syncwall.lab.experiment import Experiment, Fault, Kill, SlowLink, SlowWorker
from syncwall.lab.experiment_run import LabRecord, link_rate, run_experiment
from syncwall.measure.collectives import CollectiveRow
from syncwall.measure.result import Result

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", reason="torch is not installed")


def measured(hosts, part: str, *flags: str, faults=()) -> dict[str, Any]:
    output = Path(hosts.directory) / "result.json"
    words = ["-m", "syncwall", "measure", part, *flags, "--json", str(output)]
    outcome = hosts.run(words, time_limit_s=150, faults=faults)
    assert output.exists(), outcome.message
    return Result.read(output).data


def test_a_step_over_a_slow_link_is_predicted():
    """Two hosts at 100 Mb/s, DDP and FSDP2: a small edition of the recorded findings."""
    small = {"model": "tiny-5m", "steps": 4, "warm_up": 1}
    experiment = Experiment.model_validate(
        {
            "places": ["2x1"],
            "rates": [12.5e6],
            "jobs": [
                {"measure": "step", "with": small | {"shard": "ddp", "bucket": "4MiB"}},
                {"measure": "step", "with": small | {"shard": "fsdp"}},
            ],
        }
    )
    records = list(run_experiment(experiment, predict=True))
    assert all(record.ok for record in records), [record.message for record in records]
    found = predicted_steps(records)
    assert len(found.rows) == 2
    print([f"{row.what} {row.error:+.1%}" for row in found.rows])
    assert abs(found.worst.error) < 0.25
    assert LabRecord.model_validate(records[-1].model_dump(mode="json")) == records[-1]


def test_an_all_reduce_uses_the_link_as_iperf3_does():
    with lab(Topology(hosts=2, rate_bytes_per_s=31.25e6)) as hosts:
        ratios = []
        for _ in range(2):
            link = link_rate(hosts, seconds=2, both_ways=True)
            flags = ("--kinds", "all-reduce", "--min-size", "16MB", "--max-size", "16MB")
            data = measured(hosts, "collectives", *flags, "--trials", "4")
            row = CollectiveRow.model_validate(data["rows"][0])
            both = (link.forward_bytes_per_s, link.backward_bytes_per_s or 0.0)
            ratios.append(row.busbw_bytes_per_s / statistics.mean(both))
    assert statistics.median(ratios) == pytest.approx(1.0, abs=0.05), ratios


def test_the_slow_link_is_named_and_the_healthy_lab_is_not():
    slow = Fault(slow_link=SlowLink(host=1, rate_bytes_per_s=8e6))
    with lab(Topology(hosts=3, rate_bytes_per_s=25e6)) as hosts:
        assert measured(hosts, "links")["suspects"] == []
        named = measured(hosts, "links", faults=[slow])["suspects"]
    assert {suspect["host"] for suspect in named} == {"h1"}


def test_the_slow_worker_is_named():
    slow = Fault(slow_worker=SlowWorker(rank=2, share=0.25))
    with lab(Topology(hosts=3, rate_bytes_per_s=125e6)) as hosts:
        data = measured(hosts, "step", "--steps", "6", "--warm-up", "1", faults=[slow])
    assert [suspect["host"] for suspect in data["suspects"]] == ["h2"]


def test_a_killed_worker_ends_the_job_with_its_host_named():
    with lab(Topology(hosts=3, rate_bytes_per_s=125e6)) as hosts:
        words = ["-m", "syncwall", "measure", "step", "--steps", "1000"]
        kill = Kill(rank=1, after_s=12.0)
        outcome = hosts.run(words, time_limit_s=120, faults=[Fault(kill=kill)])
    assert not outcome.ok
    assert outcome.seconds - kill.after_s < 60
    assert any("h1" in text for text in (str(outcome.message), *outcome.errors))


def test_a_run_of_the_command_leaves_a_result_that_can_be_reported(tmp_path):
    (tmp_path / "small.yaml").write_text(
        "title: A small lab\nplaces: [2x1]\nrates: [250Mb/s]\njobs:\n"
        "  - {measure: collectives, with: {kinds: all-reduce, max_size: 64kB, seconds: 0.1}}\n"
    )
    result, page = tmp_path / "small.json", tmp_path / "small.html"
    assert main(["lab", "run", str(tmp_path / "small.yaml"), "--json", str(result)]) == 0
    written = json.loads(result.read_text())
    assert (written["kind"], written["verb"]) == ("lab", "lab run")
    load = written["data"]["records"][0]["load"]
    assert load["before"].keys() == load["during"].keys() == {"average", "others", "steal"}
    assert main(["report", str(result), "--html", str(page), "--allow-busy"]) == 0
    assert "A small lab" in page.read_text()
