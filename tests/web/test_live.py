"""The Live page: runs of this user on this machine, and nothing else of the disk."""

import os
import time
from dataclasses import replace

import pytest

from syncwall.watch.events import RankFacts, to_json
from syncwall.watch.job_state import Writer
from syncwall.watch.summary import SNAPSHOT, SnapshotFile, read_snapshot, watched_here
from syncwall.web.answers.explanation import shown
from tests.watch import lives


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr("syncwall.watch.summary.homes", lambda: [tmp_path])
    return tmp_path


def written(memory, name="syncwall-0-job"):
    home = memory / name
    home.mkdir()
    command = ("python", "-u", "/home/me/train.py", "--lr", "1")
    facts = RankFacts(0, 7, 1, "node-a", 0, 1, "", 1, command=command)
    (home / "rank-0-7.json").write_bytes(to_json(facts))
    recent = lives.recent()
    assert recent.live is not None
    SnapshotFile(recent, home).round(recent.live)
    return home


def test_a_watched_run_is_shown_as_the_terminal_shows_it(memory):
    home = written(memory)
    (run,) = shown()["runs"]
    assert run["id"] == home.name
    assert run["title"] == "Live: train.py --lr 1"
    assert "The job stands still: rank 1 in &quot;data&quot; for 5.0 s" in run["html"]
    assert run["html"].count("<svg") == 3, "the ledger, step times and losses"
    assert run["record"]["findings"][0]["kind"] == "hung rank"
    assert run["record"]["state"] == "hung"
    assert sum(run["record"]["ledger_s"].values()) == pytest.approx(0.1)


def test_runs_that_ended_long_ago_and_other_files_are_left_out(memory, monkeypatch):
    home = written(memory)
    (memory / "syncwall-x").mkdir()
    (memory / "syncwall-x" / SNAPSHOT).write_text("{}")
    later_s = time.clock_gettime(time.CLOCK_BOOTTIME) + 10_000
    monkeypatch.setattr("syncwall.watch.job_state._since_boot_s", lambda: later_s)
    assert shown() == {"runs": []}
    assert {one.name for one in watched_here()} == {home.name, "syncwall-x"}


def test_the_latest_run_comes_first(memory):
    old, new = written(memory, "syncwall-old"), written(memory, "syncwall-new")
    os.utime(old / SNAPSHOT, (1, 1))
    assert watched_here() == [new, old]


def test_a_snapshot_comes_back_as_it_was(memory):
    home = written(memory)
    found = read_snapshot(home)
    assert replace(found, writer=Writer(), name="") == lives.recent().snapshot()
    assert found.findings == (lives.HUNG,)


def test_the_route_answers(client):
    assert client.get("/api/live").json().keys() == {"runs"}
    assert "Live" in client.get("/live").text
