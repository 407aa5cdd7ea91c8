"""The life of a job: parts sum to the wall time, whatever was killed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from syncwall.cause import Cause
from syncwall.cli import main
from syncwall.problems import InputError
from syncwall.watch.events import NodeReport, Process, RankState, StepRecord
from syncwall.watch.life import (
    ENDED,
    STARTED,
    STEPS,
    LifeFile,
    life_of,
    outlook,
    rates_of,
    read_life,
)
from syncwall.watch.summary import Live


def started(time_s, nodes=2):
    return {"event": STARTED, "time_s": time_s, "nodes": nodes, "ranks": 8 * nodes}


def steps(time_s, number, checkpoint=False, **seconds):
    spent = {"forward": 4.0, "backward": 6.0} | {key.replace("_", " "): s for key, s in seconds.items()}
    return {
        "event": STEPS,
        "time_s": time_s,
        "steps": number,
        "seconds": spent,
        "checkpoint": checkpoint,
    }


def ended(time_s, how="finished"):
    return {"event": ENDED, "time_s": time_s, "how": how}


TWICE = (
    started(1000),
    steps(1030, 10),
    steps(1045, 10, checkpoint=True),
    steps(1060, 10),
    ended(1070, "dead"),
    started(1100),
    steps(1130, 10),
    ended(1131),
)


def lines():
    found = [dict(line) for line in TWICE]
    found[2]["seconds"] = {"forward": 4.0, "backward": 6.0, "checkpoint": 5.0}
    return found


def test_parts_sum_to_the_wall_time():
    life = life_of(lines())
    assert life.wall_s == 131
    assert sum(life.seconds.values()) == pytest.approx(131, abs=1e-9)
    assert life.seconds == {
        Cause.REST: 6,
        Cause.USEFUL: 30,
        Cause.CHECKPOINT: 5,
        Cause.LOST_WORK: 10,
        Cause.RESTART: 60,
        Cause.START_UP: 20,
    }
    assert (life.steps, life.failures) == (30, 1)
    assert life.goodput == pytest.approx(30 / 131)


def test_a_run_that_goes_on_has_lost_nothing_yet():
    life = life_of(lines()[:4], now_s=1065)
    assert Cause.LOST_WORK not in life.seconds
    assert sum(life.seconds.values()) == pytest.approx(65)
    assert life.failures == 0


def test_a_kill_of_the_agent_too_is_a_restart():
    """No line says that the first attempt ended."""
    without = [line for line in lines() if line.get("how") != "dead"]
    assert life_of(without).seconds == life_of(lines()).seconds


def test_an_attempt_without_a_step_is_start_up():
    life = life_of([started(0), ended(30, "failed"), started(50), steps(70, 5), ended(70)])
    assert life.seconds == {Cause.USEFUL: 10, Cause.RESTART: 10, Cause.START_UP: 50}


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "life.jsonl"
    whole = "".join(json.dumps(line) + "\n" for line in lines()[:3])
    path.write_text(whole + '{"event": "steps", "tim')
    assert life_of(read_life(path)).steps == 20
    file = LifeFile(path, 200.0)
    file.round(live(200.0, 7))
    file.close()
    assert path.read_text().startswith(whole)
    assert [line["event"] for line in read_life(path)[3:]] == ["started", "closed"]


def test_only_the_first_node_writes(tmp_path):
    file = LifeFile(tmp_path / "life.jsonl", 0.0)
    seen = live(100.0, 7)
    other = replace(seen, reports=(replace(seen.reports[0], node_rank=1),))
    file.round(other)
    file.close()
    assert not file.path.exists()


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.txt"
    path.write_text("hello\n")
    with pytest.raises(InputError, match="no record of a job's life"):
        read_life(path)


def live(now_s, pid, process=Process.RUNNING, *records):
    state = RankState(0, "a", pid, process, phase_since_s=now_s, changed_s=now_s)
    report = NodeReport("a", 0, 1, now_s, (state,), world=4)
    return Live(now_s, (report,), records, (), ())


def record(step, end_s, **seconds):
    spent = {Cause.FORWARD: 1.0} | {Cause(key): s for key, s in seconds.items()}
    took_s = sum(spent.values())
    return StepRecord(0, step, end_s - took_s, took_s, spent)


def test_an_agent_writes_what_it_sees(tmp_path, monkeypatch):
    monkeypatch.setattr("syncwall.watch.life.clock_s", lambda: 130.0)
    file = LifeFile(tmp_path / "life.jsonl", 100.0)
    file.round(live(100.0, 7))
    file.round(live(112.0, 7, Process.RUNNING, record(0, 111.0), record(1, 112.0)))
    file.round(live(115.0, 7, Process.RUNNING, record(2, 115.0, checkpoint=2.0)))
    file.round(live(117.0, 7, Process.DEAD, record(3, 116.0)))
    file.round(live(118.0, 7, Process.DEAD))
    file.round(live(120.0, 8))
    file.round(live(130.0, 8, Process.FINISHED, record(0, 125.0)))
    file.close()
    life = life_of(read_life(file.path))
    assert [one.how for one in life.attempts] == ["dead", "finished"]
    assert life.seconds == {
        Cause.REST: 5,
        Cause.USEFUL: 4,
        Cause.CHECKPOINT: 2,
        Cause.LOST_WORK: 1,
        Cause.RESTART: 8,
        Cause.START_UP: 10,
    }
    assert sum(life.seconds.values()) == life.wall_s == 30


RUN = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 2\nlayout: {shard: fsdp, global_batch: 64}\n"


def failing_life(hours, *, checkpoint, aside):
    """Attempts of two hours that die, each with steps of a second and what stands `aside`."""
    found = []
    for number in range(hours // 2):
        at_s = 7200.0 * number
        seconds = {"forward": 6000.0, "checkpoint": 60.0 if checkpoint else 0.0, **aside}
        done = {"event": "steps", "time_s": at_s + 7000, "steps": 6000, "seconds": seconds}
        found += [started(at_s), {**done, "checkpoint": checkpoint}, ended(at_s + 7001, "dead")]
    return [*found, started(at_s + 7200), {**done, "time_s": at_s + 14_200}]


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("aside", [{}, {"data wait": 300.0, "evaluation": 200.0}])
def test_what_is_shown_live_is_what_predict_says_of_the_rest(
    tmp_path, monkeypatch, capsys, checkpoint, aside
):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(RUN)
    aside = {str(Cause.IDLE_DATA if key == "data wait" else key): s for key, s in aside.items()}
    past = failing_life(20, checkpoint=checkpoint, aside=aside)
    Path("life.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in past))
    life = life_of(read_life(Path("life.jsonl")))
    rates = rates_of(life)
    assert rates is not None
    shown = outlook(rates, 200_000 - life.steps)
    assert shown[0] < shown[2]
    words = ["run.yaml", "--steps", "200000", "--life", "life.jsonl", "--json"]
    assert main(["predict", *words]) == 0
    said = json.loads(capsys.readouterr().out)["job"]
    assert said["finish_s"] == pytest.approx(shown, rel=1e-9)
    assert said["steps"] == 200_000 - life.steps


def test_a_life_that_says_nothing_or_of_another_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(RUN)
    Path("life.jsonl").write_text(json.dumps(started(0)) + "\n")
    words = ["predict", "run.yaml", "--life", "life.jsonl"]
    assert main([*words, "--steps", "100"]) == 2
    Path("life.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines()))
    assert main(words) == 2
    assert main([*words, "--steps", "30"]) == 2
    assert main([*words, "--steps", "100", "--nodes", "4"]) == 2
    said = capsys.readouterr().err
    for part in (
        "no step of the job counts yet",
        "how long is the job?",
        "the job is done: 30 of",
        "a job on 2 nodes; the run has 4",
    ):
        assert part in said


def test_a_job_without_failures_is_expected_to_fail_as_others_do():
    """4.5 failures for 1,000 node-days of 8 GPUs; 100 failures in 1,000 node-days say more."""
    quiet = rates_of(life_of([started(0), steps(20, 10), ended(20)]))
    assert quiet is not None
    assert 3 < quiet.per_1000_node_days < 6
    day = 86400.0
    often = [
        line
        for n in range(100)
        for line in (
            started(n * 5 * day),
            steps(n * 5 * day + 100, 10),
            ended((n + 1) * 5 * day - 1, "dead"),
        )
    ]
    rates = rates_of(life_of([*often[:-1], steps(500 * day - 1, 10, checkpoint=True)]))
    assert rates is not None
    assert 75 < rates.per_1000_node_days < 99
    assert rates.deviation < 0.15 < quiet.deviation


def test_the_end_comes_later_with_failures_than_without():
    rates = rates_of(life_of(lines()))
    assert rates is not None
    low, half, high = outlook(rates, 100_000)
    assert 100_000 < low <= half <= high < 200_000
    assert outlook(rates, 0) == (0.0, 0.0, 0.0)
