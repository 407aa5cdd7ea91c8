"""An agent follows rings of real processes: their ends, their order, and what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from syncwall.watch.agent import Agent
from syncwall.watch.events import FindingKind, Process, from_json
from syncwall.watch.exporters import EventLines, said
from syncwall.watch.place import agent_command
from syncwall.watch.rings import MarkKind
from syncwall.watch.summary import Summary

if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

RANK = """
import json, os, sys, time
from pathlib import Path
from syncwall.watch.attach import _describe
from syncwall.watch.rings import MarkKind, Ring
from syncwall.hosts import Place
home, rank = Path(sys.argv[1]), int(sys.argv[2])
ring = Ring(home / f"rank-{rank}-{os.getpid()}.ring", rank)
os.environ["SYNCWALL_HOST"] = "here"
_describe(home, Place(rank, 3, local_world=3))
ring.mark(MarkKind.START)
print("ready", flush=True)
for line in sys.stdin:
    ring.mark(MarkKind[line.split()[0]], 0.0, 1)
ring.mark(MarkKind.EXIT)
"""


class Rank:
    """A process that makes the marks it is told to make."""

    def __init__(self, home, rank):
        made: Any = subprocess.Popen(
            [sys.executable, "-c", RANK, str(home), str(rank)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.process = made
        made.stdout.readline()  # it has its ring

    def mark(self, *kinds):
        self.process.stdin.writelines(f"{kind.name}\n" for kind in kinds)
        self.process.stdin.flush()

    def send(self, number):
        os.kill(self.process.pid, number)


@pytest.fixture
def ranks(tmp_path):
    made = [Rank(tmp_path, number) for number in range(3)]
    yield made
    for one in made:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout):
            pipe.close()


def rounds(agent, until, limit_s=10.0):
    """Rounds of an agent until something holds."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        live = agent.round()
        if until(live):
            return live
        agent._processes.wait(0.02)
    raise AssertionError("it never held")


def test_the_first_of_several_deaths_is_named(tmp_path, ranks):
    agent = Agent(tmp_path)
    assert [one.process for one in agent.round().ranks] == [Process.RUNNING] * 3
    for number in (2, 0, 1):
        ranks[number].send(signal.SIGKILL)
        agent._processes.wait(1.0)
    live = rounds(agent, lambda live: all(one.process.is_over for one in live.ranks))
    (found,) = live.findings
    assert (found.kind, found.rank, found.also) == (FindingKind.DEAD, 2, (0, 1))
    assert abs(found.since_s - time.time()) < 10
    assert "was ended by SIGKILL" in found.evidence
    summary = agent.end()
    assert (summary.ranks, summary.world, summary.findings) == (3, 3, (found,))
    assert not list(tmp_path.glob("*.ring"))


def test_stopped_and_continued(tmp_path, ranks):
    agent = Agent(tmp_path)
    ranks[1].send(signal.SIGSTOP)
    live = rounds(agent, lambda live: live.findings)
    assert [(one.kind, one.rank) for one in live.findings] == [(FindingKind.STOPPED, 1)]
    ranks[1].send(signal.SIGCONT)
    rounds(agent, lambda live: not live.findings)
    assert len(agent.findings.history) == 1


def test_who_says_goodbye_has_finished(tmp_path, ranks):
    agent = Agent(tmp_path)
    agent.round()
    for one in ranks:
        one.process.stdin.close()
    live = rounds(agent, lambda live: all(one.process.is_over for one in live.ranks))
    assert {one.process for one in live.ranks} == {Process.FINISHED}
    assert not live.findings


def test_a_rank_that_is_started_anew_takes_its_place(tmp_path, ranks):
    agent = Agent(tmp_path)
    agent.round()
    ranks[0].send(signal.SIGKILL)
    rounds(agent, lambda live: live.findings)
    ranks.append(Rank(tmp_path, 0))
    live = rounds(agent, lambda live: not live.findings)
    assert [one.rank for one in live.ranks] == [0, 1, 2]
    assert live.ranks[0].pid == ranks[-1].process.pid


def test_steps_are_read_and_lines_are_written(tmp_path, ranks):
    path = tmp_path / "events.jsonl"
    with EventLines(str(path)) as lines:
        agent = Agent(tmp_path, [lines, Broken()])
        ranks[0].mark(*[MarkKind.OPTIMIZER_BEGIN, MarkKind.OPTIMIZER_END] * 60)
        rounds(agent, lambda _: agent.ranks and max(r.steps for r in agent.ranks.values()) == 59)
        ranks[2].send(signal.SIGKILL)
        live = rounds(agent, lambda live: live.findings)
        lines.end(agent.end())
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["event"] for one in events].count("window") == 2
    assert events[-1]["event"] == "summary"
    assert events[-1]["steps"] == 59
    assert said(live.findings[0]).startswith("dead rank 2 on here: process")


class Broken:
    """A listener that always fails."""

    def round(self, live):
        raise RuntimeError


def test_what_is_no_ring_is_noted_and_left_alone(tmp_path):
    (tmp_path / "rank-0-1.ring").write_bytes(b"x" * 4096)
    (tmp_path / "rank-0-1.json").write_text(json.dumps({"node": "a"}))
    agent = Agent(tmp_path)
    live = agent.round()
    assert "cannot be read" in live.reports[0].notes[0]
    assert agent.end().ranks == 0


def test_an_agent_that_is_asked_to_leave_sums_up_once_no_rank_lives(tmp_path, ranks):
    words = [*agent_command(tmp_path), "--until-told"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as agent:
        end = time.monotonic() + 60
        while not (tmp_path / "live.json").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        agent.send_signal(signal.SIGTERM)
        time.sleep(0.6)
        assert agent.poll() is None
        for one in ranks:
            one.send(signal.SIGKILL)
        assert agent.wait(30) == 0
    assert from_json(Summary, (tmp_path / "summary.json").read_bytes()).ranks == 3
