import pytest

import syncwall as sw
from syncwall.answer.priced import VerdictKind, limit_of
from syncwall.cost.path import host_link_bytes_per_s
from syncwall.cost.prices import offload_seconds
from syncwall.describe import Run
from syncwall.work.operations import Offload


def predicted(cluster="dgx-h100", **layout):
    fields = {"shard": "zero1", "micro_batch": 1, "global_batch": 16, "recompute": "none"} | layout
    described = {"model": "llama-3.1-8b", "cluster": cluster, "nodes": 2, "layout": fields}
    return sw.predict(Run.model_validate(described))


@pytest.mark.parametrize(("name", "least", "most"), [("h100-sxm", 50e9, 57e9), ("gb200", 350e9, 400e9)])
def test_copies_are_as_fast_as_was_measured(name, least, most):
    """55 GB/s over PCIe 5 (H200), 359 to 377 GB/s over NVLink-C2C."""
    assert least < host_link_bytes_per_s(sw.device(name)) < most


def test_a_billion_parameters_on_the_host_as_zero_offload_measured_them():
    """0.22 s for a whole node, so about 1.8 s for each of eight devices at once."""
    taken = offload_seconds(Offload(4e9, 34e9), sw.device("h200-sxm"))
    assert 1.5 < taken < 2.5


def test_an_optimizer_on_the_host_costs_time_and_saves_memory():
    plain, there = predicted(), predicted(offload_optimizer=True)
    assert there.memory_bytes < plain.memory_bytes
    assert there.ledger["host optimizer"] > 0
    assert there.step_s > plain.step_s
    assert sum(map(float, there.ledger.values())) == pytest.approx(there.step_s)


def test_activations_on_the_host_wait_for_a_slow_link_only():
    """Copies hide behind a layer's computation over NVLink-C2C, over PCIe only a few do."""
    slow, fast = predicted(offload_layers=32), predicted("gb200-nvl72", offload_layers=32)
    assert slow.ledger["exposed offload"] > 0.1 * slow.step_s
    assert float(fast.ledger.get("exposed offload", 0.0)) < 0.01 * fast.step_s
    assert slow.memory_bytes < predicted().memory_bytes


@pytest.mark.parametrize("there", [{"offload_optimizer": True}, {"offload_layers": 32}])
def test_what_waits_for_the_host_is_called_so(there):
    """Not compute-bound, nor bound by a network that has nothing to do with it."""
    assert limit_of(predicted(**there).ledger).kind is VerdictKind.HOST
    assert limit_of(predicted().ledger).kind is VerdictKind.COMPUTE
