"""Laws that hold for every run."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.answer.pricing import Pricing
from syncwall.describe import Cluster, Layout, Run
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Shard
from syncwall.work.memory import step_memory
from tests.answer.runs import runs

FILTERS = [HealthCheck.filter_too_much, HealthCheck.too_slow]
many = settings(max_examples=300, suppress_health_check=FILTERS)
SLACK = 1 + 1e-9


def on(run: Run, cluster: Cluster) -> Run:
    return run.model_copy(update={"cluster": cluster})


def faster(run: Run, part: str, factor: float) -> Run:
    """The run on a machine whose NICs, scale-up links, memory or arithmetic are faster."""
    cluster, node, device = run.cluster, run.cluster.node, run.cluster.device
    update: dict[str, Any] = {}
    if part == "nics" and node.nics is not None:
        rate = node.nics.rate_bytes_per_s * factor
        nics = node.nics.model_copy(update={"rate_bytes_per_s": rate})
        update["node"] = node.model_copy(update={"nics": nics})
    elif part == "scale-up" and cluster.scale_up is not None:
        rate = cluster.scale_up.rate_bytes_per_s * factor
        update["scale_up"] = cluster.scale_up.model_copy(update={"rate_bytes_per_s": rate})
    elif part == "arithmetic":
        peak = {dtype: rate * factor for dtype, rate in device.peak_flop_per_s.items()}
        other = device.model_copy(update={"peak_flop_per_s": peak})
        update["node"] = node.model_copy(update={"device": other})
    elif part == "memory":
        rate = device.memory.rate_bytes_per_s * factor
        memory = device.memory.model_copy(update={"rate_bytes_per_s": rate})
        other = device.model_copy(update={"memory": memory})
        update["node"] = node.model_copy(update={"device": other})
    return on(run, cluster.model_copy(update=update))


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=FILTERS)
@given(runs())
def test_the_ledger_sums_to_the_step(run):
    found = predict(run)
    assert found.ledger.total == pytest.approx(found.step_s, rel=1e-9)
    assert all(float(seconds) >= 0 for _, seconds in found.ledger.items())


@many
@given(runs())
def test_mfu_is_at_most_hfu_is_at_most_one(run):
    found = predict(run)
    assert 0 < found.mfu <= found.hfu * SLACK
    assert found.hfu <= 1


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=FILTERS)
@given(runs(), st.sampled_from(["nics", "arithmetic", "memory"]), st.floats(1, 16))
def test_a_faster_machine_never_slows_a_step(run, part, factor):
    assert predict(faster(run, part, factor)).step_s <= predict(run).step_s * SLACK


@pytest.mark.slow
@many
@given(runs())
def test_fewer_bytes_never_slow_a_step(run):
    """Gradients in 16 instead of 32 bits."""
    narrow = run.layout.model_copy(update={"gradient_dtype": Dtype.BF16})
    lighter = run.model_copy(update={"layout": narrow})
    assert predict(lighter).step_s <= predict(run).step_s * SLACK


@pytest.mark.slow
@many
@given(runs(), st.sampled_from([2.0, 4.0, 8.0]))
def test_faster_scale_up_links_never_slow_a_step(run, factor):
    """By whole factors: NCCL packs channels of fixed speeds, so 1% more may use no more."""
    assert predict(faster(run, "scale-up", factor)).step_s <= predict(run).step_s * 1.02


@many
@given(runs())
def test_sharding_more_never_needs_more_memory(run):
    layouts = [run.layout.model_copy(update={"shard": shard}).plain() for shard in Shard]
    whole = (run.layout.dp or 1) * run.layout.cp
    degrees = [degree for degree in (1, 2, 4, 8, 16) if whole % degree == 0]
    layouts = [
        *layouts[:-1],
        *(layouts[-1].model_copy(update={"shard_degree": degree}) for degree in degrees),
    ]
    totals = [float(step_memory(run.model, layout, run.seq).total) for layout in layouts]
    assert all(b <= a * SLACK for a, b in pairwise(totals[:3]))
    assert all(b <= a * SLACK for a, b in pairwise(totals[3:]))
    assert totals[-1] <= totals[0] * SLACK


@settings(max_examples=100, suppress_health_check=FILTERS)
@given(runs(), st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4))
def test_arrays_and_single_layouts_agree(run, micros):
    def single(micro: int) -> Any:
        per_rank = micro * run.layout.dp * 8
        return layout.model_copy(update={"micro_batch": micro, "global_batch": per_rank})

    layout = run.layout.plain()
    layouts = [single(micro) for micro in micros]
    columns = {name: getattr(layout, name) for name in Layout.model_fields}
    columns["micro_batch"] = np.array(micros)
    columns["global_batch"] = np.array([layout.global_batch for layout in layouts])
    pricing = Pricing.on(run.cluster)
    together = pricing.step(run.model, Layout.arrays(**columns), run.seq, run.cluster)
    for index, layout in enumerate(layouts):
        alone = pricing.step(run.model, layout, run.seq, run.cluster)
        assert float(together.step_s[index]) == pytest.approx(float(alone.step_s), rel=1e-12)
        for cause in alone.ledger:
            found = np.broadcast_to(together.ledger[cause], len(micros))[index]
            assert float(found) == pytest.approx(float(alone.ledger[cause]), rel=1e-9, abs=1e-15)
