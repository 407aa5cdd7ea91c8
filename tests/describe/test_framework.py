"""Frameworks of the catalogue, and tables of dated values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from syncwall.catalogue import CatalogueKind, names
from syncwall.describe import Layout, lookup
from syncwall.describe.layout import Dispatcher, Recompute, Shard
from syncwall.describe.software import Framework, at, with_switches

MINIMAL = {
    "name": "ours",
    "attention": {"2023-01": "flash-2"},
    "traffic": 1.5,
    "host": {"per_operation": "50 us"},
    "overlap_gradients": {"2023-01": True},
    "overlap_parameters": {"2023-01": True},
    "overlap_tp": {"2023-01": False},
    "overlap_pp": {"2023-01": True},
}
months = st.builds("20{:02}-{:02}".format, st.integers(10, 40), st.integers(1, 12))


@pytest.mark.parametrize("name", names(CatalogueKind.FRAMEWORK))
def test_every_entry_loads_and_says_where_it_comes_from(name):
    found = lookup.framework(name)
    assert found.name == name
    assert found.title
    assert found.note
    assert found.traffic >= 0.5
    assert 0 <= found.host.per_operation_s < 1e-3
    tables: list[dict[str, Any]] = [
        {**found.attention},
        found.overlap_gradients,
        found.overlap_parameters,
        found.overlap_tp,
        found.overlap_pp,
        found.balanced_stages,
    ]
    for table in tables:
        assert at(table, None) == table[max(table)]
        assert at(table, "2000-01") == table[min(table)]


@pytest.mark.parametrize("alias", ["nemo", "mcore"])
def test_other_names_of_a_framework(alias):
    assert lookup.framework(alias).name == "megatron-core"


def test_recipes_of_megatron_bridge_run_the_kernels_of_megatron_core():
    """Only what they switch on differs."""
    core, bridge = (lookup.framework(name) for name in ("megatron-core", "megatron-bridge"))
    named = {"name", "title", "aliases", "provenance", "note", "untuned"}
    switched = {"graphs", "dispatchers", "overlap_ep", "offers_overlap_ep"}
    tables = {"needs", "efficiency", "meanings", "since"}  # all others are by month
    for field in set(Framework.model_fields) - named - switched:
        ours, theirs = getattr(bridge, field), getattr(core, field)
        if isinstance(ours, dict) and field not in tables:
            ours, theirs = at(ours, "2026-08"), at(theirs, "2026-08")
        assert ours == theirs, field


@pytest.mark.parametrize(
    ("date", "graphs", "dispatcher", "overlapped"),
    [
        ("2025-09", "none", Dispatcher.DEEPEP, False),
        ("2026-02", "attention", Dispatcher.HYBRIDEP, False),
        ("2026-08", "full", Dispatcher.HYBRIDEP, True),
        (None, "full", Dispatcher.HYBRIDEP, True),
    ],
)
def test_what_recipes_of_megatron_bridge_switch_on(date, graphs, dispatcher, overlapped):
    bridge = lookup.framework("megatron-bridge")
    assert at(bridge.graphs, date) == graphs
    layout = with_switches(Layout(ep=8, shard=Shard.ZERO1), bridge, date)
    assert (layout.dispatcher, layout.overlap_ep) == (dispatcher, overlapped)
    fixed = with_switches(Layout(ep=8, shard=Shard.ZERO1, dropless=False), bridge, date)
    assert fixed.plain().dispatcher == Dispatcher.ALL_TO_ALL
    full = Layout(ep=8, shard=Shard.ZERO1, recompute=Recompute.FULL)
    assert not with_switches(full, bridge, date).overlap_ep
    alone = with_switches(Layout(shard=Shard.ZERO1), bridge, date).plain()
    assert (alone.dispatcher, alone.overlap_ep) == (Dispatcher.ALL_TO_ALL, False)


@pytest.mark.parametrize(
    ("month", "value"),
    [
        (None, "c"),
        ("2019-01", "a"),
        ("2022-01", "a"),
        ("2023-05", "a"),
        ("2023-06", "b"),
        ("2024-11", "b"),
        ("2025-01", "c"),
        ("2031-12", "c"),
    ],
)
def test_the_value_of_a_month_is_the_latest_not_after_it(month, value):
    assert at({"2025-01": "c", "2022-01": "a", "2023-06": "b"}, month) == value


@given(st.dictionaries(months, st.integers(), min_size=1), months)
def test_a_month_without_a_value_of_its_own_has_that_before_it(table, month):
    found = at(table, month)
    past = [since for since in table if since <= month]
    assert found == (table[max(past)] if past else table[min(table)])
    assert at(table, None) == table[max(table)]


@pytest.mark.parametrize(
    "change",
    [
        {"attention": {"2023": "flash-2"}},
        {"attention": {"2023-13": "flash-2"}},
        {"attention": {"2023-01": "flash-9"}},
        {"overlap_tp": {"1999-01": True}},
        {"traffic": 0},
        {"efficiency": 1.5},
        {"tp_exposed_share": 0},
        {"kernels": "quick"},
        {"host": {}},
        {"host": {"per_operation": 50}, "speed": 3},
    ],
)
def test_what_cannot_be_is_refused(change):
    with pytest.raises(ValidationError):
        Framework.model_validate(MINIMAL | change)


def test_what_is_left_out_of_a_framework_is_nothing_special():
    found = Framework.model_validate(MINIMAL)
    assert (found.kernels, found.vocab_multiple) == ("fused", 1)
    assert found.efficiency_on("hopper", None) == 1
    assert found.host.per_wait_s == found.host.per_step_s == found.host.per_tensor_rank_s == 0
    assert not at(found.balanced_stages, None)
