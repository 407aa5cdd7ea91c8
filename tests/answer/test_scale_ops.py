"""The experiments of Scale Ops (Networking, parts 1 and 2) on Baskerville: GPT-2 large under DDP.

Stated inputs, the same for every case: 708 M parameters, batch 16 a GPU, 256 tokens (the posts do
not say; 128 and 512 fit worse), PyTorch eager with unfused attention (minGPT), gradients in fp32,
and the NIC at 52% of its rate, which is what the author's own all-reduce benchmark reached.
"""

import pytest

import syncwall as sw
from syncwall.cost.calibration import calibration
from syncwall.cost.communication import NcclNetwork
from syncwall.describe import Cluster, Layout, Model, Run, Software
from syncwall.describe.names import stated
from syncwall.work.operations import Collective, Group

STEPS = 2216
MODEL = Model.model_validate(
    {
        "name": "gpt2-large",
        "layers": 36,
        "hidden": 1280,
        "vocab": 65,
        "attention": {"heads": 20, "qkv_bias": True, "output_bias": True},
        "mlp": {"hidden": 5120, "gated": False, "bias": True},
        "norm": {"kind": "layer"},
    }
)
EPOCH_S = {(1, 1): 498.37, (1, 2): 266.83, (2, 1): 406.12, (1, 4): 135.42, (4, 1): 251.68}
UNEXPLAINED_S = 895.85  # two nodes of two GPUs


def epoch_s(nodes: int, gpus: int) -> float:
    run = Run(
        model=MODEL,
        cluster=sw.cluster("baskerville", nodes=nodes, gpus_per_node=gpus),
        seq=256,
        layout=Layout(shard="ddp", micro_batch=16),
        software=Software(framework="pytorch", attention="unfused"),
    )
    return sw.predict(run).step_s * STEPS / (nodes * gpus)


def all_reduce_s(machine: Cluster) -> float:
    network = NcclNetwork(machine, calibration(machine.device).network)
    every = Group("dp", machine.gpus)
    return float(network.collective_seconds(Collective("all-reduce", 1.416e9, every)))


@pytest.mark.parametrize(("place", "measured_s"), EPOCH_S.items())
def test_epoch_times_are_within_15_percent(place, measured_s):
    assert epoch_s(*place) == pytest.approx(measured_s, rel=0.15)


def test_two_nodes_of_two_gpus_stay_unexplained():
    """Slower than four nodes of one, but far from the 896 s that were measured, and not fitted."""
    predicted = epoch_s(2, 2)
    assert epoch_s(4, 1) < predicted < 0.5 * UNEXPLAINED_S


def test_all_reduce_times_come_in_the_measured_order():
    """Measured: 9.0, 16.6, 98, 122, 158, 309 and 876 ms."""
    base = sw.cluster("baskerville")

    def place(nodes: int, gpus: int) -> Cluster:
        return base.using(nodes, gpus)

    fields = stated(base)
    pcie = {"gpus": 4, "topology": "pcie", "rate": "31.5 GB/s"}
    over_pcie = Cluster.model_validate(fields | {"scale_up": pcie}).using(1, 2)
    slow = {"count": 1, "rate": "25 Gb/s", "transport": "tcp"}
    node = fields["node"] | {"nics": slow}
    over_ethernet = Cluster.model_validate(fields | {"node": node}).using(2, 1)
    in_order = [
        place(1, 4),
        place(1, 2),
        over_pcie,
        place(2, 1),
        place(4, 1),
        place(2, 2),
        over_ethernet,
    ]
    times = [all_reduce_s(machine) for machine in in_order]
    assert times == sorted(times)
