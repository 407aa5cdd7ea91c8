"""What the killed leave behind goes, and what the living need stays: real processes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from syncwall.watch.place import AGENT_LOCK, COMMAND_LOCK, Lock, remove_leftovers

if not hasattr(os, "pidfd_open"):
    pytest.skip("processes are watched on Linux", allow_module_level=True)


def left(tmp_path, *files, old_s=0.0):
    """A folder as `syncwall watch` leaves it when it is killed, or as ranks do without it."""
    home = tmp_path / "syncwall-x"
    home.mkdir()
    for name in (AGENT_LOCK, *files):
        (home / name).touch()
    os.utime(home, (time.time() - old_s, time.time() - old_s))
    return home


def ended() -> int:
    """The number of a process that is gone."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    return gone.pid


def test_a_folder_of_the_dead_goes(tmp_path):
    home = left(tmp_path, COMMAND_LOCK, f"rank-0-{ended()}.ring")
    assert remove_leftovers([tmp_path]) == [home]
    assert not home.exists()


@pytest.mark.parametrize("name", [AGENT_LOCK, COMMAND_LOCK])
def test_it_stays_while_its_agent_or_command_lives(tmp_path, name):
    home = left(tmp_path, COMMAND_LOCK)
    with Lock(home, name) as lock:
        assert lock.taken()
        assert not remove_leftovers([tmp_path])
    assert remove_leftovers([tmp_path]) == [home]


def test_it_stays_while_a_rank_lives(tmp_path):
    left(tmp_path, COMMAND_LOCK, f"rank-0-{ended()}.ring", f"rank-1-{os.getpid()}.json")
    assert not remove_leftovers([tmp_path])


def test_what_ranks_left_can_be_looked_at_for_an_hour(tmp_path):
    home = left(tmp_path, "summary.json", old_s=3000.0)
    assert not remove_leftovers([tmp_path])
    os.utime(home, (0, 0))
    assert remove_leftovers([tmp_path]) == [home]


def test_what_is_not_ours_stays(tmp_path):
    (tmp_path / "syncwall-other").mkdir()  # no agent has lived here
    real = left(tmp_path, COMMAND_LOCK).rename(tmp_path / "real")
    (tmp_path / "syncwall-link").symlink_to(real)
    assert not remove_leftovers([tmp_path])
    assert (tmp_path / "syncwall-other").exists()
    assert real.exists()


@pytest.fixture
def watched():
    """`syncwall watch` around a process that only sleeps, and the folder that they share."""
    script = "import os, time; print(os.environ['SYNCWALL_WATCH_FOLDER'], flush=True); "
    made: Any = subprocess.Popen(
        [sys.executable, "-m", "syncwall", "watch", "--", sys.executable, "-c", script + "time.sleep(120)"],
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    yield made, Path(made.stdout.readline().strip())
    os.killpg(made.pid, signal.SIGKILL)
    made.communicate()


def agents_of(home: Path) -> list[int]:
    """Processes that were started for a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(home).encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_the_agent_of_a_killed_command_cleans_up(watched):
    command, home = watched
    assert home.exists()
    command.kill()
    end = time.monotonic() + 60
    while home.exists():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_the_next_start_cleans_up_where_all_were_killed(watched):
    command, home = watched
    (agent,) = agents_of(home)
    end = time.monotonic() + 30
    while not (home / AGENT_LOCK).exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    os.kill(agent, signal.SIGKILL)
    command.kill()
    command.wait()
    assert home.exists()
    subprocess.run(
        [sys.executable, "-m", "syncwall", "watch", "--", "sleep", "1"],
        check=True,
        capture_output=True,
    )
    assert not home.exists()
