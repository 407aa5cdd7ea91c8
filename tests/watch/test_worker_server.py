"""Torch's own server says where a rank stands; without one nothing is said."""

import pytest

from syncwall.watch.ranks import _collective, _line, stands_at

DUMP = """Current thread 0x01 (most recent call first):
  <no Python frame>

Thread 0x02 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 706 in readinto
  File "/home/me/train.py", line 31 in load
  File "/home/me/train.py", line 90 in main
"""


def test_the_innermost_line_of_the_users_own():
    assert _line(DUMP) == ["/home/me/train.py:31 in load"]
    assert _line("") == []


def test_the_latest_collective():
    entries = [{"profiling_name": f"gloo:{name}", "state": "started"} for name in ("a", "b")]
    assert _collective({"entries": entries}) == ["gloo:b started"]
    assert _collective({}) == []


def test_a_real_server(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    from torch._C._distributed_c10d import _WorkerServer

    server = _WorkerServer(str(tmp_path / "socket"))
    try:
        found = stands_at(str(tmp_path / "socket"))
    finally:
        server.shutdown()
    assert "ranks.py:" in found


def test_nobody_answers(tmp_path):
    assert stands_at(str(tmp_path / "nothing")) == ""
