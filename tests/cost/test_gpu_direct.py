"""Without GPUDirect RDMA, what NICs send passes host memory: a narrower way, and a longer one."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.answer import predict
from syncwall.cost.communication import NcclNetwork
from syncwall.cost.path import REACHED, STAGED, nic_bytes_per_s_per_gpu
from syncwall.describe import Cluster, Layout, Run
from syncwall.work.operations import Collective, Group

PCIE_5 = 63.015e9


def machine(name: str = "dgx-h100", nodes: int = 4, **nics: Any) -> Cluster:
    found = sw.cluster(name).using(nodes)
    assert found.node.nics is not None
    node = found.node.model_copy(update={"nics": found.node.nics.model_copy(update=nics)})
    return found.model_copy(update={"node": node})


def seconds(cluster: Cluster, size: float, ranks: int | None = None) -> float:
    fit = predict(Run(model="gpt2", cluster=cluster)).calibration.network
    group = Group("dp", cluster.gpus if ranks is None else ranks)
    return float(NcclNetwork(cluster, fit).collective_seconds(Collective("all-gather", size, group)))


def test_a_wide_link_to_the_host_costs_what_was_measured_on_grace_hopper():
    """82.2 instead of 94.5 GB/s for an all-gather, 79.7 instead of 96.1 for an all-reduce."""
    direct, staged = (machine("isambard-ai", gpu_direct=on) for on in (True, False))
    assert nic_bytes_per_s_per_gpu(staged) == STAGED * nic_bytes_per_s_per_gpu(direct)
    assert seconds(direct, 4e9) / seconds(staged, 4e9) == pytest.approx(STAGED, abs=0.02)


def test_a_switch_that_nic_and_gpu_share_halves_pcie():
    apart, shared = (machine(gpu_direct=False, pcie_shared=on) for on in (False, True))
    assert nic_bytes_per_s_per_gpu(apart) == STAGED * 50e9
    assert nic_bytes_per_s_per_gpu(shared) == pytest.approx(REACHED * PCIE_5 / 2)
    assert seconds(shared, 4e9) > 1.5 * seconds(apart, 4e9)


def test_a_narrow_slot_is_the_limit():
    narrow = machine(gpu_direct=False, pcie="pcie-3")
    assert nic_bytes_per_s_per_gpu(narrow) == pytest.approx(REACHED * PCIE_5 / 4, rel=0.01)
    assert nic_bytes_per_s_per_gpu(machine(pcie="pcie-3")) == 50e9  # does not count with GPUDirect


def test_every_hop_takes_longer():
    direct, staged = (seconds(machine(gpu_direct=on), 1e3) for on in (True, False))
    assert staged - direct == pytest.approx(2e-6 * 2, rel=0.05)  # four domains are two doublings


@pytest.mark.parametrize("nics", [{"transport": "tcp"}, {"transport": "gloo"}])
def test_what_passes_the_host_anyway_costs_no_more(nics):
    direct, staged = (seconds(machine(gpu_direct=on, **nics), 1e9) for on in (True, False))
    assert staged == direct


def test_nothing_changes_inside_a_node():
    assert seconds(machine(gpu_direct=False), 1e9, ranks=8) == seconds(machine(), 1e9, ranks=8)


def test_a_step_waits_longer_for_the_network():
    layout = Layout(shard="fsdp", micro_batch=1, recompute="none")
    steps = [
        predict(Run(model="llama-3.1-8b", cluster=cluster, seq=2048, layout=layout))
        for cluster in (machine(), machine(gpu_direct=False), machine(gpu_direct=False, pcie_shared=True))
    ]
    assert steps[0].step_s < steps[1].step_s < steps[2].step_s
    assert steps[1].ledger.exposed_s > 1.05 * steps[0].ledger.exposed_s
