"""Agents of several nodes, each with a real rank, at a real store."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from syncwall.watch.agent import Agent
from syncwall.watch.events import FindingKind, NodeReport, Process, RankState, to_json
from syncwall.watch.exporters import EventLines
from syncwall.watch.judges import Thresholds
from syncwall.watch.life import LifeFile, life_of, read_life
from syncwall.watch.relay import first_number
from syncwall.watch.secret import Seal
from syncwall.watch.summary import Recent

pytest.importorskip("torch", reason="torch is not installed")
if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)

RANK = """
import os, sys
from pathlib import Path
from syncwall.watch.attach import _describe
from syncwall.watch.rings import MarkKind, Ring
from syncwall.hosts import Place
home, rank, host, port = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ring = Ring(home / f"rank-{rank}-{os.getpid()}.ring", rank)
os.environ |= {"SYNCWALL_HOST": f"node-{rank}", "SYNCWALL_WATCH_PORT": str(port)}
_describe(home, Place(rank, 3, node_rank=rank, address=host))
ring.mark(MarkKind.START)
print("ready", flush=True)
sys.stdin.read()
"""
QUICK = Thresholds(poll_s=0.05)
REFUSED = "a report of node 1 without the secret of this job was refused"
SECRET = b"that all ranks have agreed on"


class Node:
    """An agent in this process, and the only rank of its node in another."""

    def __init__(self, home, rank, host, port):
        home.mkdir()
        (home / "secret").write_bytes(SECRET)
        words = [sys.executable, "-c", RANK, home, rank, host, port]
        made: Any = subprocess.Popen(
            [str(one) for one in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.process = made
        made.stdout.readline()  # it has its ring
        self.recent = Recent()
        self.life = LifeFile(home.parent / "life.jsonl", time.time())
        self.lines = EventLines(str(home / "events.jsonl"))
        self.agent = Agent(home, [self.recent, self.life, self.lines], QUICK)

    def end(self):
        self.process.kill()
        self.process.communicate()
        summary = self.agent.end()
        self.life.close()
        self.lines.__exit__(None, None, None)
        return summary


@pytest.fixture
def nodes(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    made = [Node(tmp_path / str(rank), rank, "127.0.0.1", port) for rank in range(3)]
    yield made
    for one in reversed(made):
        one.end()


def rounds(nodes, until, limit_s=30.0):
    end = time.monotonic() + limit_s
    while not until([one.agent.round() for one in nodes]):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_every_node_shows_what_the_first_has_found(nodes, tmp_path):
    rounds(nodes, lambda lives: len(lives[0].reports) == 3 and len(lives[1].reports) == 2)
    os.kill(nodes[2].process.pid, signal.SIGSTOP)
    rounds(nodes, lambda lives: lives[1].told)
    live, shown = nodes[1].recent.live, nodes[1].recent.snapshot()
    assert (live.findings, live.new) == ((), ())  # it alerts nobody: the first one does
    (found,) = shown.findings
    assert (found.kind, found.rank, found.node) == (FindingKind.STOPPED, 2, "node-2")
    assert (shown.node, set(nodes[1].recent.totals)) == ("node-1", {1})
    assert not nodes[0].recent.live.told
    os.kill(nodes[2].process.pid, signal.SIGCONT)
    rounds(nodes, lambda lives: not lives[1].told)
    events = map(json.loads, (tmp_path / "1" / "events.jsonl").read_text().splitlines())
    lines = [one for one in events if one["event"] == "told"]
    assert [(one["kind"], one["rank"]) for one in lines] == [("stopped rank", 2)]
    assert [one.nodes for one in life_of(read_life(tmp_path / "life.jsonl")).attempts] == [3]


def test_a_report_of_a_stranger_is_refused_and_said(nodes):
    rounds(nodes, lambda lives: len(lives[0].reports) == 3)
    from torch.distributed import TCPStore

    facts = next(iter(nodes[0].agent.ranks.values())).facts
    store = TCPStore(facts.store_host, facts.store_port, is_master=False, wait_for_workers=False)
    died = RankState(1, "node-1", 1, Process.DEAD, where="\x1b[2J\nsyncwall watch: a forged line")
    forged = NodeReport("node-1", 1, 2 * first_number(), time.time(), (died,), world=3, nodes=3)
    kept = store.get("syncwall/node/1")
    own = Seal(b"another secret").sealed("syncwall/node/1", to_json(forged))
    nodes[1].agent._relay.stop()  # it would write over what is forged
    for text in (to_json(forged), own, Seal(SECRET).sealed("syncwall/node/2", to_json(forged)), kept[:-2]):
        store.set("syncwall/node/1", text)
        for _ in range(10):
            live = nodes[0].agent.round()
            time.sleep(0.02)
        assert not live.findings or live.findings[0].kind is FindingKind.NODE_LOST
        assert any(one.startswith(REFUSED) for one in live.reports[0].notes)


def test_nodes_wait_for_a_secret_and_say_so(tmp_path):
    one = Node(tmp_path / "0", 0, "127.0.0.1", 1)
    (tmp_path / "0" / "secret").unlink()
    one.agent.round()
    shown = one.recent.snapshot()
    assert shown
    (said,) = shown.notes
    assert "the ranks have no process group, and SYNCWALL_WATCH_SECRET is not set" in said
    one.end()


def test_nodes_that_cannot_meet_say_so(tmp_path):
    one = Node(tmp_path / "0", 0, "", 0)
    one.agent.round()
    shown = one.recent.snapshot()
    assert shown
    (said,) = shown.notes
    assert said.startswith("no relay between 3 nodes: MASTER_ADDR is not set")
    assert one.end().notes == shown.notes
