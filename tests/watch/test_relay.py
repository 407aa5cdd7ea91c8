"""Agents hear of each other through a store of their own, and notice who falls silent."""

import resource
import socket
import time

import pytest

from syncwall.watch.events import NodeReport, Process, RankState
from syncwall.watch.judges import Thresholds
from syncwall.watch.place import folder, store_port
from syncwall.watch.relay import Relay, listening, room_for


def report(node_rank: int, number: int = 1) -> NodeReport:
    state = RankState(node_rank, f"n{node_rank}", 1, Process.RUNNING)
    return NodeReport(f"n{node_rank}", node_rank, number, 0.0, (state,))


def until(holds, limit_s=30.0):
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


QUICK = Thresholds(poll_s=0.02)


def test_the_first_node_hears_of_all_and_the_others_of_the_first():
    pytest.importorskip("torch", reason="torch is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    relays = [Relay("127.0.0.1", port, rank, 3, QUICK) for rank in range(2)]
    try:
        for rank, one in enumerate(relays):
            one.tell(report(rank))
        until(lambda: set(relays[0].heard()) == {0, 1} and set(relays[1].heard()) == {0})
        assert relays[0].heard()[1][0] == report(1)
        relays[1].stop()
        time.sleep(0.3)
        relays[0].tell(report(0, 2))
        until(lambda: relays[0].heard()[0][0].number == 2)
        heard = relays[0].heard()
        assert heard[1][1] > 0.25 > heard[0][1]
        assert not relays[0].missing
    finally:
        for one in relays:
            one.stop()


def test_it_listens_at_the_address_of_the_job_alone(monkeypatch):
    with listening("127.0.0.1", 0) as found:
        assert found.getsockname()[0] == "127.0.0.1"
    for address in ("192.0.2.1", "127.0.1.1"):  # of somebody else; what Debian calls a host itself
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=addresses, **__: found)
        with listening("a-node", 0) as found:
            assert found.getsockname()[0] in ("::", "0.0.0.0")


def test_without_a_store_it_says_why():
    pytest.importorskip("torch", reason="torch is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        alone = Relay("127.0.0.1", taken.getsockname()[1], 0, 2, QUICK)
        until(lambda: alone.missing)
    assert "no relay between nodes" in alone.missing
    assert not alone.heard()


def test_a_store_that_answers_again_is_used_again(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr("syncwall.watch.relay._TIMEOUT_S", 0.05)
    asked = []

    def sometimes(*_):
        asked.append(1)
        if len(asked) < 3:
            raise TimeoutError("wait timeout, keys: " + "x" * 5000)

    monkeypatch.setattr("syncwall.watch.relay.Exchange.round", sometimes)
    alone = Relay("127.0.0.1", 0, 0, 2, QUICK)
    try:
        until(lambda: alone.missing)
        assert len(alone.missing) < 300
        until(lambda: not alone.missing)
    finally:
        alone.stop()


def test_the_first_node_has_room_for_connections_of_all():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        assert not room_for(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (556, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    if before[1] != resource.RLIM_INFINITY:
        assert f"of {before[1]} nodes: raise ulimit -Hn" in room_for(before[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_store_of_agents_has_a_port_of_its_own():
    assert store_port({"MASTER_PORT": "29500"}) == store_port({}) == 26503
    assert store_port({"MASTER_PORT": "29500", "SYNCWALL_WATCH_PORT": "7"}) == 7


def test_a_folder_is_the_jobs_and_the_users():
    assert str(folder({"SYNCWALL_WATCH_FOLDER": "/x"})) == "/x"
    assert folder({"TORCHELASTIC_RUN_ID": "../a b"}).name.endswith("----a-b")
