"""What could fill an open field, and which of it is likeliest."""

from syncwall.answer.settled import candidates, choices
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout
from syncwall.describe.layout import Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules
from tests.describe.samples import model

ALL = ("micro_batch", "virtual_stages", "recompute")
OPEN_MINDED = framework_or_default("megatron-core").model_copy(
    update={"recompute": None, "virtual_stages": None, "microbatches_as_stages": False}
)


def layout(gpus: int = 16, **fields) -> Layout:
    return Layout.model_validate(fields).placed(gpus)


def test_only_open_fields_have_choices():
    one = layout(pp=4, global_batch=64)
    assert choices(model(), one, (), OPEN_MINDED) == {}
    assert set(choices(model(), one, ALL, OPEN_MINDED)) == set(ALL)
    assert set(choices(model(), layout(global_batch=64), ALL, OPEN_MINDED)) == {
        "micro_batch",
        "recompute",
    }


def test_virtual_stages_cut_the_layers_of_a_rank_evenly():
    found = choices(model(layers=48), layout(pp=4, global_batch=64), ALL, OPEN_MINDED)
    assert found["virtual_stages"] == [1, 2, 3, 4, 6, 12]


def test_what_a_framework_usually_does_is_the_only_choice():
    usual = OPEN_MINDED.model_copy(
        update={"recompute": Recompute.FULL, "virtual_stages": 2, "microbatches_as_stages": True}
    )
    one = layout(pp=4, global_batch=64, schedule=Schedule.INTERLEAVED, virtual_stages=2, micro_batch=1)
    found = choices(model(), one, ALL, usual)
    assert found == {"micro_batch": [4], "virtual_stages": [2], "recompute": [Recompute.FULL]}


def test_every_candidate_keeps_the_rules_and_the_others_have_reasons():
    one = layout(pp=4, global_batch=64)
    values = choices(model(), one, ALL, OPEN_MINDED)
    found, _ = candidates(model(), one, 4096, 16, values)
    assert len(found) > 10
    assert all(not broken_rules(model(), each.plain(), 4096, 16) for each in found)
    for each in found:
        assert (each.virtual_stages > 1) == (each.schedule == Schedule.INTERLEAVED)
    none, reasons = candidates(model(), one, 4096, 16, {"micro_batch": [5]})
    assert none == []
    assert reasons == ["global_batch 64 is not a multiple of micro_batch 5 x dp 4"]


def test_schedules_of_one_virtual_stage_stay():
    one = layout(pp=4, global_batch=64, schedule=Schedule.ZERO_BUBBLE)
    assert choices(model(), one, ALL, OPEN_MINDED)["virtual_stages"] == [1]
    found, _ = candidates(model(), one, 4096, 16, {"virtual_stages": [1]})
    assert [(each.virtual_stages, each.schedule) for each in found] == [(1, Schedule.ZERO_BUBBLE)]


def test_nothing_open_leaves_the_layout_itself():
    one = layout(global_batch=64)
    assert candidates(model(), one, 4096, 16, {}) == ([one], [])


def test_what_a_framework_usually_does_gives_way_where_every_value_is_asked_for():
    usual = OPEN_MINDED.model_copy(update={"recompute": Recompute.FULL})
    found = choices(model(), layout(global_batch=64), ALL, usual, usual=False)
    assert found["recompute"] == [Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL]


def test_sharding_has_the_choices_of_the_framework():
    one = layout(pp=2, global_batch=64)
    assert choices(model(), one, ["shard"], OPEN_MINDED)["shard"] == [
        Shard.DDP,
        Shard.ZERO1,
        Shard.FSDP,
    ]
    assert choices(model(), layout(1), ["shard"], OPEN_MINDED)["shard"] == [Shard.DDP]
    titan = framework_or_default("torchtitan")
    assert choices(model(), one, ["shard"], titan)["shard"] == [Shard.DDP, Shard.FSDP]


def test_interleaving_means_several_virtual_stages():
    several = Layout(pp=4, global_batch=64, schedule=Schedule.INTERLEAVED)
    found = choices(model(layers=48), several, ALL, OPEN_MINDED)["virtual_stages"]
    assert found == [2, 3, 4, 6, 12]
