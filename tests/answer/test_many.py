"""Many layouts in one call are each what they are alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer.many import SIZES, memory_of, timed_layouts
from syncwall.answer.pricing import Pricing
from syncwall.catalogue import CatalogueKind, names
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.describe import Layout, Run, Software
from syncwall.describe.layout import Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules
from syncwall.work.operations import Collective, Transfer
from tests.answer.runs import runs
from tests.answer.test_prediction import FSDP, run


def others(run: Run) -> list[Layout]:
    """The layout of a run and others of the same GPUs that differ in sizes only."""
    found, layout = [run.layout], run.layout
    dp = layout.dp or 1
    plain = {"schedule": Schedule.ONE_F_ONE_B, "virtual_stages": 1}
    changes: list[dict[str, Any]] = [
        {"micro_batch": 1},
        {"shard": Shard.ZERO1},
        {"shard": Shard.FSDP, "reshard_after_forward": True},
        {"ep": 1},
        {"pp": 1, "dp": dp * layout.pp} | plain,
        {"cp": 1, "dp": dp * layout.cp},
        {"schedule": Schedule.ZERO_BUBBLE, "virtual_stages": 1},
    ]
    if layout.tp * layout.cp == 1:  # else exchanges wait a little otherwise after recomputation
        changes += [{"recompute": Recompute.FULL}, {"recompute": Recompute.NONE}]
    for change in changes:
        one = layout.model_copy(update={**change, "shard_degree": None}).resolved(run.gpus)
        if not broken_rules(run.model, one, run.seq, run.gpus):
            found.append(one)
    return found


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(runs(), st.sampled_from(names(CatalogueKind.FRAMEWORK)), st.booleans(), st.booleans())
def test_together_is_as_one_by_one(run, framework, balanced, frozen):
    software = run.software.model_copy(update={"framework": framework})
    run = sw.predict(run).run
    switches = {"balanced_stages": balanced, "frozen_weights": frozen}
    layouts = [one.model_copy(update=switches) for one in others(run)]
    pricing = Pricing.on(run.cluster, software)
    found = timed_layouts(pricing, run.model, run.cluster, layouts, run.seq)
    assert [one.layout for one in found] == layouts
    assert [one.memory_bytes for one in found] == memory_of(run.model, layouts, run.seq)
    for one in found:
        alone = sw.predict(run.model_copy(update={"layout": one.layout, "software": software}))
        assert one.step_s == pytest.approx(alone.step_s, rel=1e-9)
        assert one.memory_bytes == pytest.approx(alone.memory_bytes, rel=1e-9)
        for cause in {*one.ledger, *alone.ledger}:
            expected = pytest.approx(alone.ledger[cause], rel=1e-9, abs=1e-12)
            assert one.ledger.get(cause, 0.0) == expected
        assert sum(one.ledger.values()) == pytest.approx(one.step_s, rel=1e-9)


def test_sizes_are_fields_of_a_layout():
    assert set(SIZES) <= set(Layout.model_fields)


def test_evaluation_is_the_model_behind_a_prediction():
    one = sw.predict(run(**FSDP)).run
    timed = Pricing.of(one).step(one.model, one.layout, one.seq, one.cluster)
    answer = sw.predict(one)
    assert float(timed.step_s) == answer.step_s
    assert float(timed.work.tokens) == float(answer.work.tokens)


class Free:
    """A network that takes no time."""

    def collective_seconds(self, collective: Collective) -> Any:
        return np.float64(0.0)

    def transfer_seconds(self, transfer: Transfer) -> Any:
        return np.float64(0.0)


def test_another_network_prices_communication():
    one = sw.predict(run(**FSDP)).run
    answer = sw.predict(one, network=Free())
    assert answer.exposed_s == 0
    assert answer.step_s < sw.predict(one).step_s
    timed = Pricing.of(one, network=Free()).step(one.model, one.layout, one.seq, one.cluster)
    assert float(timed.step_s) == answer.step_s


def test_prices_know_the_software():
    one = sw.predict(run(**FSDP)).run
    software = Software(framework="nanotron", date="2024-06")
    work = sw.predict(one).work
    prices = Pricing.on(one.cluster, software).timed(work, one.cluster).prices
    assert prices.setting == ResolvedSoftware.of(software)
    assert prices.host_s == prices.setting.host_s(work, one.cluster)
    graphs = Pricing.on(one.cluster, Software(graphs="full")).timed(work, one.cluster).prices
    assert graphs.host_s == graphs.host_wait_s == 0


def test_ways_to_exchange_tokens_are_priced_together_as_alone():
    """Layouts with a part that others lack, in one call: gathered tokens, experts split by tp."""
    model, cluster = sw.model("mixtral-8x7b"), sw.cluster("dgx-h100", nodes=2)
    pricing = Pricing.on(cluster)
    layouts = [
        Layout(
            tp=4,
            sp=True,
            ep=ep,
            etp=etp,
            dispatcher=dispatcher,
            overlap_ep=overlap,
            global_batch=16,
        ).resolved(16)
        for ep, etp in ((1, 1), (4, 1), (2, 4))
        for dispatcher in Dispatcher
        for overlap in (False, True)
    ]
    together = timed_layouts(pricing, model, cluster, layouts, 4096)
    for layout, one in zip(layouts, together, strict=True):
        (alone,) = timed_layouts(pricing, model, cluster, [layout], 4096)
        assert one.step_s == pytest.approx(alone.step_s, rel=1e-9)
