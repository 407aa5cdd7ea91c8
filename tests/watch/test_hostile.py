"""What an agent and those who look at it make of files and clocks that are not as they should be."""

import json
import math
import os
import random
import signal
import struct
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from syncwall.hosts import Place
from syncwall.problems import InputError
from syncwall.watch import rings
from syncwall.watch.agent import Agent
from syncwall.watch.attach import _describe, _made
from syncwall.watch.events import Finding, FindingKind, from_json, to_json
from syncwall.watch.exporters import said
from syncwall.watch.judges import Thresholds
from syncwall.watch.ranks import read_facts
from syncwall.watch.relay import shifted
from syncwall.watch.rings import MarkKind, Ring
from syncwall.watch.summary import SNAPSHOT, Recent, Snapshot, SnapshotFile, read_snapshot, watched_here
from tests.watch.lives import live
from tests.watch.test_agent import Rank, rounds

if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

QUICK = Thresholds(poll_s=0.0)
FACTS = {
    "rank": 1,
    "pid": 1,
    "world": 3,
    "node": "here",
    "node_rank": 0,
    "nodes": 1,
    "store_host": "",
    "store_port": 1,
    "server": "",
}
BAD_FACTS: dict[str, Any] = {
    "a list": [],
    "null": None,
    "a number": 5,
    "a text": "rank",
    "nothing": {},
    "nodes as text": FACTS | {"nodes": "two"},
    "nodes as null": FACTS | {"nodes": None},
    "nodes as a list": FACTS | {"nodes": [2]},
    "no nodes": FACTS | {"nodes": 0},
    "endless nodes": FACTS | {"nodes": 10**40},
    "a negative rank": FACTS | {"rank": -1},
    "another rank": FACTS | {"rank": 2},
    "another process": FACTS | {"pid": 2},
    "no world": FACTS | {"world": 0},
    "a node that is a number": FACTS | {"node": 5},
    "a port that is a list": FACTS | {"store_port": [1]},
}
BAD_TEXTS: dict[str, Any] = {
    "deeply nested": "[" * 60_000,
    "no JSON": "{",
    "not UTF-8": b"\xff\xfe{}",
    "too long": json.dumps(FACTS | {"node": "n" * 100_000}),
    "empty": "",
}
BAD_MARKS = {
    "nan": (MarkKind.OPTIMIZER_END, math.nan, 1),
    "inf": (MarkKind.OPTIMIZER_END, math.inf, 1),
    "a huge step": (MarkKind.OPTIMIZER_END, 1e300, 1),
    "skipped inf": (MarkKind.STEP_SKIPPED, -math.inf, 0),
    "restarts of nan": (MarkKind.START, math.nan, 0),
    "unknown kinds of nan": (999, math.nan, 2**32 - 1),
    "kind 0": (0, math.nan, 7),
    "a device's time of nan": (MarkKind.DEVICE_TIME, math.nan, 3),
    "an unknown note": (MarkKind.NOTE, 0.0, 4_000_000_000),
}


@pytest.fixture
def healthy(tmp_path):
    one = Rank(tmp_path, 0)
    yield one
    one.process.kill()
    one.process.communicate()


def outlives(home, *, said=True):
    """The agent goes on with the rank that is well, and says what it does not watch."""
    agent = Agent(home, limits=QUICK)
    for _ in range(3):
        found = agent.round()
        assert [one.rank for one in found.ranks][:1] == [0]
        to_json(found.reports[0])
    assert bool(agent.findings.notes) == said
    assert not [note for note in agent.findings.notes if "\n" in note or len(note) > 400]
    return agent


@pytest.mark.parametrize("name", BAD_FACTS)
def test_what_a_rank_says_of_itself_may_be_wrong(tmp_path, healthy, name):
    Ring(tmp_path / "rank-1-1.ring", 1, 64)
    (tmp_path / "rank-1-1.json").write_text(json.dumps(BAD_FACTS[name]))
    outlives(tmp_path)


@pytest.mark.parametrize("name", BAD_FACTS)
def test_a_run_beside_a_bad_file_is_still_shown(tmp_path, healthy, name):
    (tmp_path / "rank-0-0.json").write_text(json.dumps(BAD_FACTS[name]))
    recent = Recent()
    Agent(tmp_path, [recent, SnapshotFile(recent, tmp_path)], QUICK).round()
    assert [one.rank for one in read_snapshot(tmp_path).ranks] == [0]


def test_a_ring_that_is_a_pipe_stops_nobody(tmp_path, healthy):
    os.mkfifo(tmp_path / "rank-1-1.ring")
    (tmp_path / "rank-1-1.json").write_text(json.dumps(FACTS))
    outlives(tmp_path)


def test_a_rank_with_an_endless_command_is_watched(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["train.py", *("\u20ac" * 1000 for _ in range(1000))])
    _describe(tmp_path, Place(0, 1))
    (path,) = tmp_path.glob("*.json")
    assert read_facts(path).command[0] == "train.py"


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_or_no_text_of_it(tmp_path, healthy, name):
    text = BAD_TEXTS[name]
    Ring(tmp_path / "rank-1-1.ring", 1, 64)
    (tmp_path / "rank-1-1.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    outlives(tmp_path)


def with_ring(home, rank=1):
    """A ring of this process, and what belongs to it."""
    ring = Ring(home / f"rank-{rank}-{os.getpid()}.ring", rank, 64)
    (home / f"rank-{rank}-{os.getpid()}.json").write_text(json.dumps(FACTS | {"pid": os.getpid()}))
    return ring


@pytest.mark.parametrize("name", BAD_MARKS)
def test_marks_may_hold_anything(tmp_path, healthy, name):
    ring = with_ring(tmp_path)
    agent = Agent(tmp_path, limits=QUICK)
    agent.round()
    for _ in range(4):
        ring.mark(MarkKind.BACKWARD_BEGIN)
        ring.mark(*BAD_MARKS[name])
        ring.mark(MarkKind.OPTIMIZER_END, 0.0, 1)
        found = agent.round()
        assert found.ranks[0].rank == 0
        to_json(found.reports[0])
    to_json(agent.end())


def test_a_ring_may_be_cut_short_link_elsewhere_or_be_noise(tmp_path, healthy):
    ring = with_ring(tmp_path)
    agent = Agent(tmp_path, limits=QUICK)
    assert len(agent.round().ranks) == 2
    ring.mark(MarkKind.BACKWARD_BEGIN)
    os.truncate(ring.path, 80)
    assert [one.rank for one in agent.round().ranks] == [0]
    assert "rank 1 is not watched any more: too short" in agent.findings.notes[0]
    noise = random.Random(1)
    for number in range(20):
        path = tmp_path / f"rank-1-{number}.ring"
        path.write_bytes(struct.pack("<8sII", rings.MAGIC, rings.VERSION, number) + noise.randbytes(4096))
        path.with_suffix(".json").write_text(json.dumps(FACTS))
    (tmp_path / "rank-1-99.ring").symlink_to(ring.path)
    (tmp_path / "rank-1-99.json").write_text(json.dumps(FACTS))
    assert [one.rank for one in agent.round().ranks] == [0]
    assert len(agent.findings.notes) >= 20


@pytest.mark.parametrize("jump_s", [86_400, -86_400])
def test_a_clock_that_jumps_by_a_day_changes_nothing(tmp_path, healthy, monkeypatch, jump_s):
    agent = Agent(tmp_path, limits=replace(QUICK, hang_floor_s=0.5, start_s=0.5, nobody_waits_s=0.5))
    agent.round()
    now_s = time.time
    monkeypatch.setattr(time, "time", lambda: now_s() + jump_s)
    healthy.mark(MarkKind.BACKWARD_BEGIN, MarkKind.OPTIMIZER_END)
    found = agent.round()
    assert not found.findings
    hung = rounds(agent, lambda found: found.findings)  # and a real one is told
    assert [one.kind for one in hung.findings] == [FindingKind.HUNG]
    healthy.send(signal.SIGKILL)
    rounds(agent, lambda found: FindingKind.DEAD in [one.kind for one in found.findings])
    assert 0 < agent.end().watched_s < 60


def test_reports_of_a_node_whose_clock_is_elsewhere_are_told_by_ours(tmp_path):
    agent = Agent(tmp_path)
    report = live(3).reports[0]
    away = shifted(report, 86_400.0)
    assert agent._by_own_clock(report, 0.5, report.sent_s + 0.5) is report
    assert agent._by_own_clock(away, 0.5, report.sent_s + 0.5) == report
    later = replace(away, number=9, sent_s=away.sent_s + 1.0)
    assert agent._by_own_clock(later, 0.0, report.sent_s + 1.3).sent_s == report.sent_s + 1.0
    assert from_json(type(report), to_json(away)) == away


def test_a_finding_of_another_node_cannot_write_to_the_terminal():
    finding = Finding(FindingKind.DEAD, 1, "\x1b[2J", 0.0, "gone\nsyncwall watch: forged\r\u202e")
    assert said(finding) == r"dead rank 1 on \x1b[2J: gone\nsyncwall watch: forged\r\u202e"


def test_a_folder_that_is_a_link_is_not_taken(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert _made(tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700
    with pytest.raises(PermissionError):
        _made(tmp_path / "link")


def test_runs_behind_links_of_others_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("syncwall.watch.summary.homes", lambda: [tmp_path])
    recent = Recent()
    (tmp_path / "syncwall-own").mkdir()
    recent.round(live(0))
    SnapshotFile(recent, tmp_path / "syncwall-own").round(live(0))
    own = tmp_path / "syncwall-own" / SNAPSHOT
    (tmp_path / "syncwall-link").symlink_to(own.parent)
    (tmp_path / "syncwall-file").mkdir()
    (tmp_path / "syncwall-file" / SNAPSHOT).symlink_to(own)
    (tmp_path / "syncwall-pipe").mkdir()
    os.mkfifo(tmp_path / "syncwall-pipe" / SNAPSHOT)
    (tmp_path / "syncwall-large").mkdir()
    with (tmp_path / "syncwall-large" / SNAPSHOT).open("wb") as file:
        file.truncate(3 << 30)
    assert tmp_path / "syncwall-link" not in watched_here()
    began_s = time.process_time()
    readable = []
    for home in watched_here():
        try:
            assert isinstance(read_snapshot(home), Snapshot)
            readable.append(home.name)
        except InputError:
            continue
    assert readable == ["syncwall-own"]
    assert time.process_time() - began_s < 1.0
