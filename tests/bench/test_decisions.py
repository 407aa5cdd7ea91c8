"""What is picked for hidden layouts: groups, the nearest measured layout, regret, recipes."""

from dataclasses import replace

import pytest
from bench.accuracy import decisions
from bench.accuracy.decisions import (
    Decision,
    Group,
    by_plan,
    by_predict,
    by_predict_with_ranks,
    differing,
    distance,
    failed_cases,
    groups_of,
    least_of_measured,
    left_out,
    recipes_of,
    regret_table,
    report,
)

from syncwall.answer.many import seconds_of
from syncwall.answer.pricing import Pricing
from syncwall.describe import Layout
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import case_of
from syncwall.validate.table import RunRow
from tests.validate.samples import row

TUNED, LEFT_OUT = "torchtitan", "zero-bubble-2024"
"""Sources of one that is not left out and of one that is."""


def runs(*rows: RunRow) -> list[ValidatedRun]:
    return outcomes([case_of(one) for one in rows])


def micro_batches(*seconds: float, **cells: str) -> list[ValidatedRun]:
    """A run for each time, with micro batches 1, 2, 4 ..."""
    return runs(
        *(row(id=f"mb-{2**i}", mbs=str(2**i), step_time_s=str(s), **cells) for i, s in enumerate(seconds))
    )


def group(*seconds: float, **cells: str) -> Group:
    (found,) = groups_of(micro_batches(*seconds, **cells))
    return found


def tp(pick: Layout | None) -> int:
    return 0 if pick is None else pick.tp


def test_a_group_is_one_question_in_three_layouts():
    again = runs(row(id="again", mbs="1", step_time_s="1.5"))
    others = micro_batches(1.0, 2.0, 3.0, gbs="128") + micro_batches(1.0, 2.0, 3.0, framework="torchtitan")
    assert groups_of(micro_batches(1.0, 2.0) + again) == []
    found = groups_of(micro_batches(1.0, 2.0, 3.0) + again + others)
    assert [len(one.members) for one in found] == [4, 3, 3]
    assert found[0].measured_s(again[0].layout) == pytest.approx(1.25)


def test_regret_is_that_of_the_pick_or_of_the_nearest_measured_layout():
    asked = group(3.0, 2.0, 4.0)
    picked = asked.members[2].layout
    assert Decision(asked, picked).regret == pytest.approx(1.0)
    assert Decision(asked, picked).away == 0
    unknown = Decision(asked, picked.model_copy(update={"micro_batch": 16}))
    assert (unknown.away, unknown.nearest) == (2, asked.members[2])
    assert unknown.regret == pytest.approx(1.0)
    assert Decision(asked, None).regret is None


def test_runs_with_the_same_ranks_are_nearer_than_any_other():
    asked = Group(
        runs(*(row(id=f"{mbs}-{ranks}", mbs=mbs, tp=ranks) for mbs, ranks in (("1", "1"), ("8", "2"))))
    )
    alone, shared = asked.members
    near_shared = alone.layout.model_copy(update={"tp": 2, "dp": shared.layout.dp, "micro_batch": 1})
    assert distance(alone.layout, near_shared) < distance(shared.layout, near_shared)
    assert asked.nearest(near_shared) is shared


def test_ranks_are_stated_only_where_they_leave_a_choice():
    assert group(3.0, 2.0, 4.0).leaves_choice
    every = Group(runs(*(row(id=f"tp-{ranks}", tp=ranks) for ranks in ("1", "2", "4"))))
    assert not every.leaves_choice


def test_runs_whose_kernels_wait_for_each_other_are_in_no_group():
    assert groups_of(micro_batches(1.0, 2.0, 3.0, options="CUDA_LAUNCH_BLOCKING=1 in the scripts")) == []


def test_of_layouts_as_near_the_one_with_the_nearest_time_counts():
    asked = group(3.0, 2.0, 4.0)
    first, second, third = asked.members
    pick = second.layout
    case = asked.case
    (seconds,) = seconds_of(
        Pricing.on(case.cluster, case.software), case.model, case.cluster, [pick], case.seq
    )
    for near, far in ((first, third), (third, first)):
        members = [replace(far, step_s=3 * seconds), replace(near, step_s=1.01 * seconds)]
        assert Group(members).nearest(pick).case is near.case


def test_distance_counts_doublings_and_names():
    layout = group(1.0, 2.0, 3.0).members[0].layout
    assert distance(layout, layout) == 0
    wider = layout.model_copy(update={"micro_batch": 4, "recompute": 3})
    assert distance(layout, wider) == distance(wider, layout) == 3
    assert differing(layout, wider) == ["micro_batch", "recompute"]
    alone = layout.model_copy(update={"tp": 1, "sp": True})
    assert differing(alone, alone.model_copy(update={"sp": False})) == []


def test_what_is_hidden_does_not_reach_the_decision():
    """Other measured times and other measured layouts, but the same question."""
    asked = group(3.0, 2.0, 4.0)
    other = group(4.0, 2.0, 3.0, tp="4", recompute="full")
    assert by_predict(asked) == by_predict(other)
    assert [tp(by_predict(asked)), tp(by_predict_with_ranks(asked)), tp(by_predict_with_ranks(other))] == [
        1,
        2,
        4,
    ]


def test_the_least_predicted_time_decides_among_measured_layouts():
    asked = group(3.0, 2.0, 4.0)

    def with_times(*seconds: float, memory_bytes: float = 1.0) -> Group:
        pairs = zip(asked.members, seconds, strict=True)
        return Group([replace(one, step_s=s, memory_bytes=memory_bytes) for one, s in pairs])

    right, wrong, full = with_times(3, 2, 4), with_times(3, 2, 1), with_times(3, 2, 1, memory_bytes=1e15)
    assert Decision(right, least_of_measured(right)).regret == 0
    assert Decision(wrong, least_of_measured(wrong)).regret == pytest.approx(1.0)
    mixed = Group([*full.members[2:], *right.members[:2]])
    assert Decision(mixed, least_of_measured(mixed)).regret == 0


def test_no_pick_where_the_batch_cannot_be_spread_or_nothing_fits():
    assert by_predict(group(1.0, 2.0, 3.0, gbs="8", gpus="16", tp="8")) is None
    assert by_predict(group(1.0, 2.0, 3.0, layers="2000")) is None


def test_a_plan_is_asked_for_small_spaces_only():
    asked = group(3.0, 2.0, 4.0, gpus="2", gbs="8")
    assert by_plan(asked, 10) is None
    found = by_plan(asked, 10**5)
    assert found is not None
    assert (found.gpus, found.global_batch) == (2, 8)


def test_a_pick_that_ran_out_of_memory_is_counted():
    dead = row(id="dead", mbs="8", step_time_s="", flags="out of memory")
    failed = failed_cases([dead, row(id="alive"), row(id="doubted", flags="no out of memory seen")])
    assert [case.row.id for case in failed] == ["dead"]
    (asked,) = groups_of(micro_batches(3.0, 2.0, 4.0), failed)
    pick = asked.members[0].layout.model_copy(update={"micro_batch": 8})
    assert Decision(asked, pick).ran_out_away == 0
    near = Decision(asked, pick.model_copy(update={"micro_batch": 16}))
    assert (near.ran_out_away, near.away) == (1, 2)
    assert Decision(asked, asked.members[0].layout).ran_out_away == 3
    assert Decision(asked, None).ran_out_away == float("inf")
    (row_of_table,) = [line for line in regret_table({"x": [near]}).splitlines() if "| x | all |" in line]
    assert row_of_table.split("|")[3:] == [
        " 1 ",
        " 1 ",
        " 100.0 ",
        " 100.0 ",
        " 0 ",
        " – ",
        " – ",
        " 0 ",
        " 1 ",
        "",
    ]


def test_the_fastest_recipe_of_a_model_and_device_counts():
    slow, quick = (row(id=i, source=TUNED, step_time_s=s) for i, s in (("slow", "2"), ("quick", "1")))
    other = row(id="other", source=TUNED, gpu="A100-SXM", gpu_mem_gb="80")
    found = recipes_of(runs(slow, quick, other, row(id="nobody's")))
    assert [one.case.row.id for one in found] == ["quick", "other"]


def test_agreement_with_a_recipe_counts_what_it_states():
    (recipe,) = recipes_of(runs(row(source=TUNED)))
    layout = recipe.best.layout
    assert Decision(recipe, layout).agrees("shard")
    assert Decision(recipe, layout.model_copy(update={"shard": 0})).agrees("shard") is False
    assert Decision(recipe, layout).agrees("virtual_stages") is None  # it has no pipeline
    (silent,) = recipes_of(runs(row(source=TUNED, recompute="")))
    assert Decision(silent, layout).agrees("recompute") is None


def test_judges_and_hashed_names_are_left_out():
    judges = [left_out(row(source=f"listed nowhere {i}")) for i in range(20)]
    assert all(judges)
    assert left_out(row(source=LEFT_OUT))
    assert not left_out(row(source=TUNED))
    models = {left_out(row(source="dgxc-benchmarking", model=f"model {i}")) for i in range(20)}
    assert models == {True, False}


def test_rows_that_are_left_out_are_only_counted():
    sources = {TUNED: "open to see", LEFT_OUT: "not to be seen"}
    rows = [
        row(id=f"{source}-{mbs}", source=source, model=model, mbs=mbs, step_time_s=mbs)
        for source, model in sources.items()
        for mbs in ("1", "2", "4")
    ]
    tables, lines = report(rows, plan=0)
    assert "2 groups and 1 recipes; 50% and 0% of them" in tables
    assert "not to be seen" not in tables + str(lines)
    assert LEFT_OUT not in tables + str(lines)
    assert any("open to see" in line for line in lines)
    for who in decisions.DECIDERS:
        assert f"| {who} | left out | 1 | 1 |" in tables
        assert f"| {who} | others | 1 | 1 |" in tables
