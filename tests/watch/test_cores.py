"""What the kernel says of cores that are taken; what it does not say is not known."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from syncwall.watch import cores
from syncwall.watch.cores import CoreWait, HostLoad, HostWatch

NOW_S = 1000.0


def looked(monkeypatch, *samples: dict[str, int]) -> CoreWait:
    """After a look every second, at nanoseconds of waiting by thread."""
    found = CoreWait(1)
    for number, sample in enumerate(samples):
        monkeypatch.setattr(CoreWait, "_each", lambda _, sample=sample: iter(sample.items()))
        found.look(NOW_S + number)
    return found


def test_waits_of_threads_do_not_add_up_and_are_told_between_any_two_times(monkeypatch):
    looks = ({"1": 5_000_000_000, "2": 0}, {"1": 5_200_000_000, "2": 500_000_000}, {"1": 5_300_000_000})
    found = looked(monkeypatch, *looks)
    assert found.between(NOW_S, NOW_S + 1) == pytest.approx(0.5)
    assert found.between(NOW_S, NOW_S + 1.5) == pytest.approx(0.55)
    assert found.between(NOW_S, NOW_S + 9) == pytest.approx(0.6)


def test_what_nobody_looked_at_is_not_known(monkeypatch):
    found = looked(monkeypatch, {"1": 0}, {"1": 1_000_000_000})
    assert found.between(NOW_S - 30, NOW_S) is None
    assert looked(monkeypatch, {"1": 0}).between(NOW_S, NOW_S + 1) is None
    assert looked(monkeypatch, {}, {}, {}).between(NOW_S, NOW_S + 1) is None


def test_what_the_hypervisor_takes_is_waited_for_too(monkeypatch):
    found = looked(monkeypatch, {"1": 0})
    found.look(NOW_S + 1, stolen_s=0.25)
    assert found.between(NOW_S, NOW_S + 1) == pytest.approx(0.25)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel has no schedstat")
def test_two_processes_on_one_core_wait_for_it():
    core = min(os.sched_getaffinity(0))
    loop = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    both = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(2)]
    try:
        time.sleep(0.3)
        found, began_s = CoreWait(both[0].pid), time.time()
        found.look(began_s)
        time.sleep(0.6)
        ended_s = time.time()
        found.look(ended_s)
        waited_s = found.between(began_s, ended_s)
        assert waited_s is not None
        assert waited_s > 0.2 * (ended_s - began_s)
        load = HostWatch().load(time.time(), [both[0].pid])
        assert load.running is None or load.running >= 1
        assert load.cores == os.cpu_count()
    finally:
        for one in both:
            one.kill()
            one.wait()


def test_a_load_is_told_in_words(monkeypatch):
    load = HostLoad(2, 7, 0.8, 0.05, ("stress (4)", "gcc"))
    assert load.is_busy
    said = "7 threads on 2 cores, CPU pressure 80%, 5% stolen by the hypervisor, others that run: "
    assert str(load) == f"{said}stress (4), gcc"
    assert not HostLoad(2, 1, 0.05).is_busy
    monkeypatch.setattr(cores, "kernel_text", lambda *_: "")
    assert HostWatch().load(NOW_S) == HostLoad(os.cpu_count() or 1)
