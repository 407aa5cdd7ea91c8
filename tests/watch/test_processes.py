import signal
import subprocess
import sys
import time

import pytest

from syncwall.watch.events import Process
from syncwall.watch.ranks import Death, ProcessWatch

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sleeper():
    process = subprocess.Popen(SLEEPS)
    yield process
    process.kill()
    process.wait()


def test_how_a_process_ended_is_told(sleeper):
    watch = ProcessWatch()
    watch.add(sleeper.pid)
    assert watch.state(sleeper.pid) is Process.RUNNING
    assert not watch.wait(0.0)
    sleeper.send_signal(signal.SIGKILL)
    assert watch.wait(10.0)
    assert watch.state(sleeper.pid) is Process.DEAD
    assert watch.died[sleeper.pid].how == "was ended by SIGKILL"
    assert watch.alive == 0


def test_a_stopped_process_is_no_dead_one(sleeper):
    watch = ProcessWatch()
    watch.add(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    deadline_s = time.monotonic() + 10
    while watch.state(sleeper.pid) is not Process.STOPPED and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert watch.state(sleeper.pid) is Process.STOPPED


def test_a_killed_rank_died_before_those_that_failed_for_it():
    """It was noticed at 10.02 s; another rank said at 10.005 s that its peer is gone."""
    killed = Death(10.02, 0, int(signal.SIGKILL))
    assert killed.earliest_s(last_mark_s=9.98) == 9.98
    ended_by_torchrun = Death(10.2, 1, int(signal.SIGTERM))
    assert ended_by_torchrun.earliest_s(last_mark_s=9.98) == 10.2
    killed_by_torchrun = Death(40.2, 2, int(signal.SIGKILL))
    assert killed_by_torchrun.earliest_s(last_mark_s=9.98) == pytest.approx(39.2)
