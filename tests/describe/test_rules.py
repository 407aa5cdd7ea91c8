import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.catalogue import CatalogueKind, names
from syncwall.cli import main
from syncwall.describe import Layout, Software, lookup
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules, not_offered, offered, possible
from tests.describe.samples import MOE, model

DENSE, SPARSE = model(), model(moe=MOE)


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"tp": 3}, "tp", "tp 3 does not divide 32 attention heads"),
        ({"tp": 32, "dp": 3}, "dp", "tp 32 x cp 1 x pp 1 x dp 3 = 96, not the 64 GPUs in use"),
        ({"sp": True}, "sp", "it needs tp above 1"),
        ({"cp": 3}, "cp", "cp 3 does not divide the sequence of 4096 tokens"),
        ({"cp": 64, "cp_kind": ContextKind.ULYSSES}, "cp_kind", "does not divide 32"),
        ({"pp": 64}, "pp", "is more than 32 layers"),
        ({"virtual_stages": 2}, "virtual_stages", "needs a pp above 1"),
        ({"virtual_stages": 2, "schedule": Schedule.GPIPE}, "virtual_stages", "go together"),
        ({"virtual_stages": 1, "schedule": "interleaved"}, "virtual_stages", "go together"),
        (
            {"pp": 4, "virtual_stages": 2, "schedule": Schedule.INTERLEAVED, "global_batch": 16},
            "virtual_stages",
            "divides the 1 micro batches",
        ),
        ({"ep": 2}, "ep", "ep and etp are for models with experts"),
        ({"shard_degree": 3, "shard": Shard.FSDP}, "shard_degree", "does not divide dp 64"),
        ({"shard_degree": 8, "shard": Shard.DDP}, "shard_degree", "needs shard zero1, zero2 or"),
        ({"outer_every": 50, "shard": Shard.FSDP}, "outer_every", "no replicas to synchronise"),
        ({"global_batch": 65}, "global_batch", "65 is not a multiple of micro_batch 1 x dp 64"),
    ],
)
def test_a_broken_rule_blames_a_field_and_says_why(changes, field, reason):
    layout = Layout(**changes).resolved(64)
    found = broken_rules(DENSE, layout, 4096, 64)
    assert any(where == field and reason in why for where, why in found)
    assert not possible(DENSE, layout, 4096, 64)


def test_experts_have_rules_of_their_own():
    found = broken_rules(SPARSE, Layout(ep=3, etp=5).resolved(64), 4096, 64)
    assert {why for _, why in found} == {
        "ep 3 does not divide 8 experts",
        "ep 3 x etp 5 does not divide tp 1 x cp 1 x dp 64",
        "etp 5 does not divide the expert width 2048",
    }


@pytest.mark.parametrize(("pp", "virtual", "fits"), [(17, 2, True), (34, 1, True), (35, 1, False)])
def test_embedding_and_head_may_stand_alone(pp, virtual, fits):
    """32 layers and two ends are 34 stages at most."""
    schedule = Schedule.INTERLEAVED if virtual > 1 else Schedule.ONE_F_ONE_B
    layout = Layout(pp=pp, virtual_stages=virtual, schedule=schedule, global_batch=pp).resolved(pp)
    found = [field for field, _ in broken_rules(DENSE, layout, 4096, pp)]
    assert found == ([] if fits else ["pp"])


LAYOUTS = st.fixed_dictionaries(
    {
        "tp": st.sampled_from([1, 2, 3, 8, 64]),
        "pp": st.sampled_from([1, 2, 4, 7]),
        "cp": st.sampled_from([1, 2, 3]),
        "ep": st.sampled_from([1, 2, 8]),
        "virtual_stages": st.sampled_from([1, 2]),
        "schedule": st.sampled_from(list(Schedule)),
        "shard": st.sampled_from(list(Shard)),
        "sp": st.booleans(),
        "cp_kind": st.sampled_from(list(ContextKind)),
        "micro_batch": st.sampled_from([1, 2, 3]),
        "global_batch": st.sampled_from([64, 96, 1024]),
    }
)


@given(st.lists(LAYOUTS, min_size=1, max_size=20), st.sampled_from([DENSE, SPARSE]))
def test_arrays_and_single_layouts_agree(rows, chosen):
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    mask = possible(chosen, Layout.arrays(**columns).resolved(64), 4096, 64)
    singly = [not broken_rules(chosen, Layout(**row).resolved(64), 4096, 64) for row in rows]
    assert mask.tolist() == singly


RUNNABLE = st.fixed_dictionaries(
    {
        "dp": st.sampled_from([1, 8]),
        "tp": st.sampled_from([1, 8]),
        "pp": st.sampled_from([1, 4]),
        "cp": st.sampled_from([1, 2]),
        "ep": st.sampled_from([1, 8]),
        "shard": st.sampled_from(list(Shard)),
        "shard_degree": st.sampled_from([1, 2, 8]),
        "schedule": st.sampled_from(list(Schedule)),
        "recompute": st.sampled_from(list(Recompute)),
        "cp_kind": st.sampled_from(list(ContextKind)),
        "overlap_tp": st.booleans(),
        "overlap_parameters": st.booleans(),
        "sp": st.booleans(),
        "overlap_gradients": st.booleans(),
        "dispatcher": st.sampled_from(list(Dispatcher)),
        "overlap_ep": st.booleans(),
    }
)


@given(
    st.lists(RUNNABLE, min_size=1, max_size=20),
    st.sampled_from(names(CatalogueKind.FRAMEWORK)),
    st.sampled_from([None, "2022-01", "2024-06", "2025-10"]),
    st.sampled_from([(), ("shard",), ("recompute", "sp", "overlap_ep")]),
    st.booleans(),
)
def test_what_a_framework_offers_is_the_same_for_arrays(rows, name, date, insisted, experts):
    family = lookup.framework(name)
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    software, model = Software(date=date), lookup.model("deepseek-v3") if experts else None
    mask = offered(family, software, Layout.arrays(**columns), insisted, model)
    singly = [not_offered(family, software, Layout(**row).plain(), model) for row in rows]
    allowed = [fields.keys() <= set(insisted) for fields in singly]
    assert np.broadcast_to(mask, len(rows)).tolist() == allowed


@pytest.mark.parametrize(
    ("name", "changes", "fields"),
    [
        ("torchtitan", {"tp": 8, "sp": True, "shard": "fsdp", "recompute": "operations"}, set()),
        ("torchtitan", {"tp": 8, "shard": "fsdp"}, {"sp"}),
        ("torchtitan", {"dp": 8, "shard": "zero1", "recompute": "selective"}, {"shard", "recompute"}),
        ("torchtitan", {"dp": 1, "shard": "zero1"}, set()),  # nobody to share with
        ("megatron-core", {"pp": 4, "schedule": "dualpipe"}, {"schedule"}),
        ("megatron-core", {"pp": 1, "schedule": "dualpipe"}, set()),
        ("megatron-core", {"ep": 8, "overlap_ep": True, "recompute": "full"}, {"overlap_ep"}),
        ("megatron-core", {"ep": 8, "pp": 2, "overlap_ep": True}, {"overlap_ep"}),
        ("megatron-core", {"ep": 8, "pp": 2, "overlap_ep": True, "virtual_stages": 2}, set()),
        ("megatron-core", {"pp": 2, "offload_layers": 2}, {"offload_layers"}),
        ("megatron-core", {"moment_dtype": "bf16"}, {"moment_dtype"}),
        ("torchtitan", {"ep": 4, "shard": "fsdp", "shard_degree": 2}, {"ep"}),
        ("pytorch", {"cp": 2, "shard": "fsdp", "shard_degree": 2}, {"shard_degree"}),
        ("megatron-lm", {"ep": 8, "dispatcher": "deepep"}, {"dispatcher"}),
    ],
)
def test_what_a_framework_cannot_run_is_named(name, changes, fields):
    layout = Layout(**{"dp": 8, **changes})
    layout = layout.resolved(layout.gpus)
    found = not_offered(lookup.framework(name), None, layout)
    assert found.keys() == fields
    assert all("{" not in reason for reason in found.values())


def test_what_a_framework_can_run_depends_on_its_date():
    layout = Layout(ep=8, dispatcher=Dispatcher.DEEPEP).resolved(8)
    family = lookup.framework("megatron-core")
    assert not_offered(family, Software(date="2024-06"), layout).keys() == {"dispatcher"}
    assert not not_offered(family, Software(date="2025-06"), layout)


@pytest.mark.parametrize(
    "changes",
    [
        {"shard": Shard.DDP, "outer_every": 50},
        {"shard": Shard.FSDP, "shard_degree": 8, "outer_every": 50},
        {"shard": Shard.FSDP, "outer_every": 1},
    ],
)
def test_replicas_may_meet_seldom_where_there_are_several(changes):
    assert possible(DENSE, Layout(**changes).resolved(64), 4096, 64)


@pytest.mark.parametrize(
    ("name", "tp", "cp", "broken"),
    [
        ("mamba2-2.7b", 8, 1, False),
        ("mamba2-2.7b", 32, 1, True),
        ("nemotron-h-8b", 8, 4, False),
        ("minimax-text-01", 8, 16, True),
    ],
)
def test_ranks_divide_the_heads_of_mixers(name, tp, cp, broken):
    layout = Layout(tp=tp, cp=cp).resolved(tp * cp)
    said = broken_rules(lookup.model(name), layout, 8192, tp * cp)
    assert any("heads of mixers" in str(one) for one in said) == broken


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--framework", "torchtitan", "--tp", "2", "--sp", "false"],
            "torchtitan has no tensor parallelism without sp",
        ),
        (["--framework", "megatron-core", "--pp", "2", "--schedule", "dualpipe"], "has no schedule dualpipe"),
        (["--framework", "torchtitan", "--tp", "2", "--sp", "true"], ""),
    ],
)
def test_predict_says_what_the_framework_would_refuse(flags, said, capsys):
    asked = ["predict", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "1", *flags]
    assert main(asked) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert said in screen
    assert ("but is priced as stated" in screen) == bool(said)
