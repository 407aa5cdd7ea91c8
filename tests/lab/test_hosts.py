"""Real hosts, real processes: rates of links, places of workers, faults."""

import json
import os
import shutil
import signal
import threading
import time

import pytest

from syncwall.lab import Topology, host_machine, lab
from syncwall.lab.experiment import CutLink, Fault, Kill, SlowWorker
from syncwall.lab.experiment_run import link_rate
from syncwall.lab.virtual_hosts import Hosts, Terminated

pytestmark = pytest.mark.lab
NEEDS_IPERF3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
SHOW = (
    "import json, os; print(json.dumps({name: os.environ[name] for name in ('RANK', 'WORLD_SIZE', "
    "'LOCAL_RANK', 'MASTER_ADDR', 'GLOO_SOCKET_IFNAME', 'SYNCWALL_HOST')} "
    "| {'nics': sorted(os.listdir('/sys/class/net'))}))"
)
SLEEP = ["-c", "import time; time.sleep(30)"]
SPIN = """
import os, time
start, own = time.monotonic(), time.process_time()
while time.monotonic() - start < 1.5: pass
print(time.process_time() - own)
"""


def test_workers_know_their_place():
    with lab(Topology(hosts=2, workers=2, nics=2, rails=2), "test") as hosts:
        outcome = hosts.run(["-c", SHOW], time_limit_s=20)
        assert outcome.ok, outcome.message
        found = [json.loads(outcome.outputs[rank]) for rank in range(4)]
    assert [one["SYNCWALL_HOST"] for one in found] == ["h0", "h0", "h1", "h1"]
    assert [one["LOCAL_RANK"] for one in found] == ["0", "1", "0", "1"]
    assert [one["GLOO_SOCKET_IFNAME"] for one in found] == ["eth0", "eth1", "eth0", "eth1"]
    assert found[3]["MASTER_ADDR"] == "10.77.0.1"
    assert found[3]["nics"] == ["eth0", "eth1", "lo"]


def test_who_failed_is_named_with_the_last_words():
    code = "import os, sys, time; time.sleep(30) if os.environ['RANK'] != '1' else sys.exit('ouch')"
    with lab(Topology(hosts=3), "test") as hosts:
        outcome = hosts.run(["-c", code], time_limit_s=20, grace_s=0.5)
    assert outcome.message == "rank 1 on h1 ended with code 1\nouch"
    assert outcome.ended_first == ("h1",)
    assert outcome.codes == (None, 1, None)
    assert outcome.seconds < 5


def test_a_time_limit_ends_a_job():
    with lab(Topology(hosts=2), "test") as hosts:
        outcome = hosts.run(SLEEP, time_limit_s=0.5)
    assert outcome.message is not None
    assert outcome.message.startswith("still running after")


def test_a_worker_is_killed_on_purpose():
    fault = Fault(kill=Kill(rank=1, after_s=0.3))
    with lab(Topology(hosts=2), "test") as hosts:
        outcome = hosts.run(SLEEP, time_limit_s=20, grace_s=0.3, faults=[fault])
    assert outcome.message == "rank 1 on h1 was ended by SIGKILL"


def test_a_slow_worker_gets_its_share_of_time():
    fault = Fault(slow_worker=SlowWorker(rank=0, share=0.3))
    with lab(Topology(hosts=1), "test", keep_awake=False) as hosts:
        outcome = hosts.run(["-c", SPIN], time_limit_s=20, faults=[fault])
    assert outcome.ok
    assert float(outcome.outputs[0]) < 0.5 * 1.5


def test_a_cut_link_is_cut_and_comes_back():
    code = """
import os, subprocess, time
seen = []
for _ in range(12):
    seen.append(open("/sys/class/net/eth0/operstate").read().strip()); time.sleep(0.1)
print(seen[0], seen[-1])
"""
    fault = Fault(cut_link=CutLink(host=1, after_s=0.6))
    with lab(Topology(hosts=2), "test") as hosts:
        cut = hosts.run(["-c", code], time_limit_s=20, faults=[fault])
        healed = hosts.run(["-c", code], time_limit_s=20)
    assert cut.outputs[1].split() == ["up", "down"]
    assert healed.outputs[1].split() == ["up", "up"]


def test_sigterm_removes_the_hosts():
    def send() -> None:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=send)
    names = []

    def run() -> None:
        with lab(Topology(hosts=2), "test") as hosts:
            names.append(hosts.name)
            thread.start()
            hosts.run(SLEEP, time_limit_s=20)

    with pytest.raises(Terminated):
        run()
    thread.join()
    assert names[0] not in [one.name for one in host_machine.labs()]


@NEEDS_IPERF3
@pytest.mark.slow
@pytest.mark.parametrize("rate_mbit", [100, 1000])
def test_a_link_gives_its_rate_both_ways_at_once(rate_mbit):
    rate = rate_mbit * 125e3
    with lab(Topology(hosts=2, rate_bytes_per_s=rate), "test") as hosts:
        found = link_rate(hosts, both_ways=True)
    assert found.backward_bytes_per_s is not None
    for way in (found.forward_bytes_per_s, found.backward_bytes_per_s):
        assert 0.85 * rate < way < rate  # 0.957 of it is payload; a busy machine may cost some


@NEEDS_IPERF3
@pytest.mark.slow
def test_an_oversubscribed_spine_is_the_slowest_part():
    with lab(Topology(hosts=4, leaves=2, oversubscription=4, rate_bytes_per_s=25e6), "test") as hosts:
        near, far = _best_rate(hosts, 0, 1), _best_rate(hosts, 0, 3)
    assert near > 0.8 * 25e6
    assert 0.8 * 12.5e6 < far < 1.1 * 12.5e6  # what queued before the first second counts, too


def _best_rate(hosts: Hosts, client: int, server: int) -> float:
    """The best of three: what else runs on the machine can only take from a link's rate."""
    found = (link_rate(hosts, client, server, seconds=2) for _ in range(3))
    return max(one.forward_bytes_per_s for one in found)
