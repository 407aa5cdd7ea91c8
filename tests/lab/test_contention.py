"""Real flows on shared links beside predictions; all: `python -m bench accuracy contention`."""

import subprocess
from statistics import mean

import pytest
from bench.accuracy.contention import CASES, measured_s, predicted_s

from syncwall.lab import Topology, lab
from syncwall.lab.host_machine import inside

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.alone]
SHORT = [case for case in CASES if case.name in ("ring crossed, 2:1", "two equal jobs")]


@pytest.mark.parametrize("case", SHORT, ids=lambda case: case.name)
def test_jobs_on_shared_links_take_as_long_as_predicted(case):
    pytest.importorskip("torch", reason="torch is not installed")
    expected = pytest.approx(mean(predicted_s(case)), rel=case.gate)
    found = (mean(measured_s(case)) for _ in range(3))  # what else runs makes it longer
    assert any(seconds == expected for seconds in found)


def test_connections_are_hashed_over_all_spines():
    with lab(Topology(hosts=4, leaves=2, uplinks=2, rate_bytes_per_s=12.5e6), "hashed") as hosts:
        one, other = hosts.network.hosts[0], hosts.network.hosts[2]
        listen = inside(other, ["iperf3", "-s", "--forceflush"])
        with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as listening:
            assert listening.stdout is not None
            while "listening" not in listening.stdout.readline():
                pass
            send = ["iperf3", "-c", hosts.address(2), "-t", "1", "-P", "16"]
            subprocess.run(inside(one, send), check=True, capture_output=True)
            listening.kill()
        leaf = hosts.network.switches[0]
        sent = [_sent_bytes(leaf, f"uplink{way}") for way in range(2)]
    assert min(sent) > 0.1 * sum(sent)


def _sent_bytes(namespace: str, interface: str) -> int:
    words = ["cat", f"/sys/class/net/{interface}/statistics/tx_bytes"]
    return int(subprocess.check_output(inside(namespace, words), text=True))
