"""What else a machine does is told from what the measurement itself does."""

import subprocess
import sys
import time

import pytest

from syncwall.measure.result import Load, MachineLoad, Meter, Spent, watched

HALF = Spent("a", (0, 1), all_s=20.0, used_s=10.0, stolen_s=0.2, own_s=6.0, average=1.5)
WORK = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"


def test_own_work_is_no_load():
    found = MachineLoad.of([HALF])
    assert found == MachineLoad(before=Load(average=1.5, others=0.2, steal=0.01))
    busier = MachineLoad.of([HALF], [HALF._replace(own_s=8.0), HALF._replace(own_s=2.0)])
    assert busier is not None
    assert busier.during == Load(average=1.5, others=0.0, steal=0.01)


def test_ranks_with_cores_of_their_own_are_added_up():
    ranks = [HALF._replace(cores=(core,), own_s=own_s) for core, own_s in ((0, 4.0), (1, 10.0))]
    found = MachineLoad.of(ranks)
    assert found is not None
    assert found.before.others == pytest.approx(6 / 40)


def test_the_busiest_host_counts():
    calm = HALF._replace(host="b", used_s=6.0, stolen_s=1.0, average=3.0)
    found = MachineLoad.of([HALF, calm])
    assert found is not None
    assert found.before == Load(average=3.0, others=0.2, steal=0.05)
    assert found.before.is_busy
    assert MachineLoad.of([HALF, None]) is None


@pytest.mark.parametrize(
    ("others", "steal", "is_busy"),
    [(0.1, 0.02, False), (0.11, 0.0, True), (0.0, 0.021, True)],
)
def test_what_counts_as_busy(others, steal, is_busy):
    assert Load(average=20.0, others=others, steal=steal).is_busy is is_busy


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts so")
def test_children_that_have_ended_are_own_work():
    meter = Meter()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    spent = meter.spent()
    assert spent is not None
    assert spent.own_s >= 0.55
    assert spent.used_s >= 0.5
    assert spent.all_s >= 0.5 * len(spent.cores)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts so")
def test_a_stranger_is_seen():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as stranger:
        try:
            time.sleep(0.2)
            spent = watched()
        finally:
            stranger.kill()
    found = MachineLoad.of([spent])
    assert found is not None
    assert spent is not None
    assert found.before.others > 0.5 / len(spent.cores)


def test_where_the_kernel_does_not_tell_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr("syncwall.measure.result._STAT", tmp_path / "stat")
    assert MachineLoad.of([Meter().spent()]) is None
