"""Laws of the switches and the software of a run, whatever the constants."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.answer.site import Site
from syncwall.catalogue import CatalogueKind, names
from syncwall.describe import Run
from syncwall.describe.layout import Dispatcher
from tests.answer.known_steps import known
from tests.answer.runs import runs

FILTERS = [HealthCheck.filter_too_much, HealthCheck.too_slow]
many = settings(max_examples=60, suppress_health_check=FILTERS)
SLACK = 1 + 1e-9
FRAMEWORKS = names(CatalogueKind.FRAMEWORK)
MONTHS = st.sampled_from([None, "2020-01", "2022-06", "2024-03", "2026-01"])


def with_layout(run: Run, **changes: Any) -> Run:
    return run.model_copy(update={"layout": run.layout.model_copy(update=changes)})


def with_software(run: Run, **changes: Any) -> Run:
    return run.model_copy(update={"software": run.software.model_copy(update=changes)})


@many
@given(
    runs(),
    st.lists(st.floats(0.5, 2), max_size=3),
    st.booleans(),
    st.sampled_from(FRAMEWORKS),
    MONTHS,
)
def test_the_ledger_sums_to_the_step_whatever_runs_it(run, ratios, frozen, framework, date):
    run = with_software(with_layout(run, frozen_weights=frozen), framework=framework, date=date)
    site = Site(tuple(known(ratio) for ratio in ratios))
    found, plain = predict(run, site=site), predict(run)
    assert found.ledger.total == pytest.approx(found.step_s, rel=1e-9)
    assert all(float(seconds) > 0 for _, seconds in found.ledger.items())
    turned = [float(knob) for knob in found.pricing.knobs.by_name().values()]
    slack = 1e-9 * plain.step_s
    if found.run == plain.run:
        assert min(turned) * plain.step_s - slack <= found.step_s
        assert found.step_s <= max(turned) * plain.step_s + slack


@many
@given(runs())
def test_frozen_weights_are_never_slower_and_never_need_more_memory(run):
    plain, frozen = predict(run), predict(with_layout(run, frozen_weights=True))
    assert frozen.step_s <= plain.step_s * SLACK
    assert frozen.memory_bytes < plain.memory_bytes
    assert frozen.memory.gradients == frozen.memory.optimizer == 0


@many
@given(runs(), st.sampled_from(["overlap_ep", "overlap_tp"]))
def test_a_switch_that_helps_communication_never_slows_a_step(run, switch):
    off, on = (with_layout(run, **{switch: value}) for value in (False, True))
    assert predict(on).step_s <= predict(off).step_s * SLACK


@many
@given(runs(), st.sampled_from([Dispatcher.DEEPEP, Dispatcher.HYBRIDEP]))
def test_sending_a_token_once_to_a_rank_never_slows_a_step(run, dispatcher):
    plain = with_layout(run, dispatcher=Dispatcher.ALL_TO_ALL)
    merged = with_layout(run, dispatcher=dispatcher)
    assert predict(merged).step_s <= predict(plain).step_s * SLACK


@many
@given(
    runs(),
    st.sampled_from(["tp_exposed_share", "ep_exposed_share"]),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
)
def test_less_exposed_communication_never_slows_a_step(run, name, one, other):
    few, more = sorted((one, other))
    switch = {"tp_exposed_share": "overlap_tp", "ep_exposed_share": "overlap_ep"}[name]
    times = [predict(with_layout(run, **{switch: True, name: left})).step_s for left in (few, more)]
    assert times[0] <= times[1] * SLACK


@many
@given(runs())
def test_a_fixed_number_of_tokens_an_expert_never_slows_a_step(run):
    assume(run.model.moe is not None)
    fixed, dropless = (predict(with_layout(run, dropless=value)) for value in (False, True))
    assert fixed.step_s <= dropless.step_s * SLACK


@many
@given(runs(), st.sampled_from(FRAMEWORKS), MONTHS)
def test_more_graphs_never_slow_a_step(run, framework, date):
    run = with_software(run, framework=framework, date=date)
    graphs = ("none", "router", "attention", "full")
    times = [predict(with_software(run, graphs=graph)).step_s for graph in graphs]
    assert all(more <= less * SLACK for less, more in pairwise(times))
