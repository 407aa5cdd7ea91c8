"""The Fabric page's answers: equal to those of Python, lawful, and never a failure of ours."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from syncwall.answer import predict
from syncwall.cost.contended_network import DRAWS
from syncwall.plan.choices import KINDS
from syncwall.plan.fabric.fabric_answer import plan_fabric
from syncwall.plan.fabric.options import kept, options, sized
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.fabric.sized_links import links_of_sized
from syncwall.problems import InputError
from syncwall.web.answers.fabric import draws_of, fabric, variants
from syncwall.web.questions import AskedFabric, AskedRun, AskedWiring

RUN = {
    "model": "llama-3.1-70b",
    "cluster": "dgx-h100",
    "nodes": 64,
    "layout": {"tp": 8, "shard": "fsdp", "global_batch": 1024},
}
SMALL = RUN | {"nodes": 16, "layout": {"tp": 8, "pp": 2, "shard": "zero1", "global_batch": 128}}
EXPERTS = {
    "model": "deepseek-v3",
    "cluster": "deepseek-h800",
    "nodes": 256,
    "layout": {"tp": 1, "pp": 16, "ep": 64, "shard": "zero1", "global_batch": 15360},
}
SPREAD = RUN | {
    "model": "deepseek-v3",
    "layout": {"ep": 256, "shard": "zero1", "global_batch": 512, "micro_batch": 1},
}
"""Experts over half of the nodes, whose tokens pass the spines; rings in node order hardly do."""


def asked(run=RUN, **options):
    return fabric(AskedFabric(run=AskedRun(**run), **options))


def varied(run=RUN, **options):
    return variants(AskedWiring(run=AskedRun(**run), **options))


@pytest.mark.parametrize("run", [RUN, SMALL, EXPERTS])
def test_the_healthy_step_is_that_of_predict_where_packets_take_every_free_way(run):
    answer = asked(run, routing="adaptive")
    prediction = predict(AskedRun(**run).run())
    assert answer["predicted_s"] == prediction.step_s
    assert answer["healthy"]["step_s"] == pytest.approx(prediction.step_s, rel=1e-9)
    assert answer["now"] == answer["healthy"]
    assert sum(answer["now"]["ledger_s"].values()) == pytest.approx(prediction.step_s)


@st.composite
def broken_fabrics(draw):
    """A run, a fabric under it, how flows find their way, and what is dead."""
    nodes = draw(st.sampled_from([2, 8, 40, 64]))
    layout = draw(st.sampled_from([{"tp": 8, "shard": "fsdp"}, {"tp": 8, "pp": 2, "shard": "zero1"}]))
    run = RUN | {"nodes": nodes, "layout": layout | {"global_batch": 16 * nodes}}
    wiring, gpus = wiring_of(AskedRun(**run).run().cluster), nodes * 8
    able = [kind for kind, one in options(wiring, gpus).items() if one.possible]
    kind, ratio = draw(st.sampled_from(able)), draw(st.sampled_from([1.0, 2.0, 5.0]))
    one = kept(kind, wiring, gpus, (ratio, 1.0))
    links = links_of_sized(one)
    nics = st.builds("nic:{}-{}".format, st.integers(1, nodes), st.integers(1, 8))
    every = nics | st.sampled_from([*links.switches, "node:1"])
    failed = draw(st.lists(every, min_size=1, max_size=3, unique=True))
    how = {
        "routing": draw(st.sampled_from(["ecmp", "static", "adaptive"])),
        "qps": draw(st.sampled_from([1, 4])),
    }
    return run, one, ratio, failed, how


@settings(max_examples=25, deadline=None)
@given(broken_fabrics())
def test_a_page_with_dead_parts_says_what_the_verb_says_without_them(case):
    """Where the page has the time for all draws; where it has not, it says how many it made."""
    run, one, ratio, failed, how = case
    prediction = predict(AskedRun(**run).run())
    question = AskedFabric(run=AskedRun(**run), kind=one.kind, oversubscription=ratio, **how)
    assume(draws_of(prediction.run, links_of_sized(one), question) == DRAWS)
    page = asked(run, kind=one.kind, oversubscription=ratio, failed=failed, **how)
    same = {"kind": one.kind, "prediction": prediction, **how}
    healthy = plan_fabric(one.wiring, int(one.gpus), **same)
    assert page["healthy"]["step_s"] == healthy.effects[one.kind].step_s
    dead = dict.fromkeys(failed, 0.0)
    if not page["goes_on"]:
        with pytest.raises(InputError, match="the job stops"):
            plan_fabric(one.wiring, int(one.gpus), degraded=dead, **same)
        return
    verb = plan_fabric(one.wiring, int(one.gpus), degraded=dead, **same).degraded
    assert verb
    assert page["now"]["step_s"] == verb.after.p50_s
    assert page["healthy"]["step_s"] == verb.before.p50_s


def test_the_ratio_of_the_cluster_gives_the_same_step():
    assert asked(oversubscription=1)["now"]["step_s"] == asked()["now"]["step_s"]


def test_the_cluster_of_meta_is_narrow_above_its_pods():
    run = RUN | {"cluster": "meta-24k-h100", "nodes": 1024}
    answer = asked(run)
    assert answer["kind"] == "fat-tree-3"
    assert answer["oversubscription"]["of_spines"] == 7
    adaptive = asked(run, routing="adaptive")["healthy"]["step_s"]
    assert adaptive == pytest.approx(predict(AskedRun(**run).run()).step_s, rel=1e-9)


@pytest.mark.parametrize("ratio", [None, 2, 5])
@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2", "dragonfly", "rail-only"])
def test_what_is_drawn_in_full_is_what_was_counted(kind, ratio):
    answer = asked(SMALL, kind=kind, oversubscription=ratio)
    graph, counts = answer["graph"], answer["counts"]
    leaves = counts["switches"].get("leaf", counts["switches"].get("router"))
    assert graph["full"]
    assert len(graph["nodes"]) == 16
    assert len(graph["leaves"]) == leaves
    assert len(graph["spines"]) == counts["switches"].get("spine", 0)
    assert sum(len(node["nics"]) for node in graph["nodes"]) == 128
    assert sum(link["cables"] for link in graph["links"]) == counts["cables"].get("leaf-spine", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [1, 16, 64, 300, 20_000])
def test_counts_are_those_of_plan_fabric_and_drawings_stay_small(kind, nodes):
    run = RUN | {"nodes": nodes, "layout": {"tp": 8, "global_batch": 8 * nodes}}
    one = sized(kind, wiring_of(AskedRun(**run).run().cluster), [nodes * 8]).at(0)
    if not one.possible:
        with pytest.raises(InputError, match=kind):
            asked(run, kind=kind)
        return
    answer = asked(run, kind=kind)
    assert answer["counts"]["switches"] == one.switches
    assert answer["counts"]["cables"] == one.cables
    graph = answer["graph"]
    assert len(graph["nodes"]) <= 16
    assert len(graph["links"]) <= 256
    drawn = {leaf["number"] for leaf in graph["leaves"]}
    assert all(nic["leaf"] in drawn for node in graph["nodes"] for nic in node["nics"])


def test_broken_parts_are_always_drawn():
    failed = ["node:40", "nic:50-3", "leaf:14", "spine:8", "link:12-7"]
    graph = asked(failed=failed)["graph"]
    drawn = [one for kind in ("nodes", "leaves", "spines", "links") for one in graph[kind]]
    drawn += [nic for node in graph["nodes"] for nic in node["nics"]]
    assert sorted(one["id"] for one in drawn if one["failed"]) == sorted(failed)


def test_a_wider_ratio_costs_more_and_says_so():
    found = varied(SPREAD, kind="fat-tree-2", routing="adaptive")
    steps = [one["step_s"] for one in found["sweep"]]
    assert steps == sorted(steps)
    assert found["narrower"].startswith("Oversubscription ")
    answer = asked(SPREAD, kind="fat-tree-2", oversubscription=6)
    assert varied(SPREAD, kind="fat-tree-2")["sweep"][5]["step_s"] == answer["now"]["step_s"]
    assert answer["verdict"]["tone"] == "warn"
    assert "→" in answer["verdict"]["said"]
    assert answer["healthy"]["step_s"] > answer["predicted_s"]
    assert answer["oversubscription"]["up"] == 6
    busy = {link["link"]: link["total"] for link in answer["links"]}
    assert busy["nic"] < busy["leaf-spine"] <= 1


def test_a_ring_in_node_order_does_not_need_the_spines():
    """Flow by flow, 1,024 GPUs on rails lose nothing at 2:1 and 4:1."""
    answer = asked(oversubscription=4)
    assert answer["healthy"]["step_s"] == pytest.approx(answer["predicted_s"], rel=1e-9)
    busy = {link["link"]: link["total"] for link in answer["links"]}
    assert busy["leaf-spine"] < busy["nic"]


@pytest.mark.parametrize("part", ["nic:3-2", "link:2-1", "spine:1"])
def test_one_failure_costs_what_it_takes_from_the_slowest(part):
    spread = {
        "kind": "fat-tree-2",
        "oversubscription": 4 if part != "nic:3-2" else 1,
        "routing": "adaptive",
    }
    healthy, broken = asked(SPREAD, **spread), asked(SPREAD, failed=[part], **spread)
    assert broken["goes_on"]
    assert broken["healthy"] == healthy["healthy"]
    assert broken["now"]["step_s"] > healthy["now"]["step_s"]
    now = broken["now"]
    assert sum(now["ledger_s"].values()) == pytest.approx(now["step_s"])
    assert broken["failed"][0]["part"] == part
    assert "slowest" in broken["verdict"]["why"]


def test_one_part_of_each_kind_is_broken_alone():
    found = {one["part"]: one for one in varied(routing="adaptive")["if_one_fails"]}
    assert [*found] == ["nic:1-1", "link:1-1", "leaf:1", "spine:1", "node:1"]
    assert found["node:1"]["step_s"] is None
    for part, one in found.items():
        answer = asked(routing="adaptive", failed=[part])
        assert one["step_s"] == (answer["now"]["step_s"] if answer["now"] else None)


def test_more_failures_are_never_faster():
    parts = ["link:1-1", "spine:2", "nic:3-2", "leaf:2", "leaf:3"]
    steps = [
        asked(oversubscription=3, routing="adaptive", failed=parts[:count])["now"]["step_s"]
        for count in range(len(parts) + 1)
    ]
    assert steps == sorted(steps)


def test_parts_of_huge_fabrics_are_broken_in_a_terminal_only():
    run = RUN | {"nodes": 3000, "layout": {"tp": 8, "global_batch": 24000}}
    assert varied(run)["if_one_fails"] == []
    with pytest.raises(InputError, match="plan fabric --degraded"):
        asked(run, failed=["leaf:1"])


@pytest.mark.parametrize(
    ("kind", "part"),
    [("rail-optimised", "node:5"), ("fat-tree-2", "leaf:1"), ("dragonfly", "leaf:1")],
)
def test_a_job_without_a_node_stops(kind, part):
    answer = asked(kind=kind, failed=[part])
    assert answer["now"] is None
    assert not answer["goes_on"]
    assert answer["verdict"]["said"] == "The job stops"


def test_without_spines_a_job_goes_on_only_below_one_leaf():
    spines = [f"spine:{number + 1}" for number in range(8)]
    assert not asked(failed=spines)["goes_on"]
    answer = asked(SMALL, failed=spines[:4])
    assert answer["goes_on"]
    assert answer["now"] == answer["healthy"]
    assert "no flow of this run takes longer" in answer["verdict"]["why"]


def test_the_reason_names_the_slowest_node():
    why = asked(oversubscription=3, failed=["leaf:3", "nic:5-2"])["verdict"]["why"]
    assert why.startswith("Node 5 has 6 of 8 NICs")
    why = asked(oversubscription=3, failed=["spine:3"])["verdict"]["why"]
    assert why.startswith("16 leaves have 10 of 11 cables up")


def test_axes_run_where_they_should():
    axes = {one["axis"]: one for one in asked(EXPERTS, kind="fat-tree-2")["axes"]}
    assert set(axes) == {"ep", "dp", "pp"}
    assert axes["ep"]["distance"] == "spine"
    assert axes["ep"]["exposed_s"] > 0
    assert asked(SMALL)["axes"][0]["where"] == "inside the scale-up domain"


def test_a_run_on_one_gpu_sends_nothing():
    run = {"model": "llama-3.2-1b", "cluster": "dgx-h100", "nodes": 1, "gpus_per_node": 1}
    answer = asked(run | {"seq": 4096, "layout": {"global_batch": 8}})
    assert answer["axes"] == []
    assert "nothing is sent" in answer["verdict"]["said"]


def test_a_large_switch_needs_fewer():
    usual, large = asked(), asked(switch="spectrum-4-sn5600")
    assert large["counts"]["total_switches"] < usual["counts"]["total_switches"]


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"switch": "no-such-switch"}, "fabric.switch"),
        ({"switch": "/etc/passwd"}, "fabric.switch"),
        ({"switch": "slingshot-rosetta"}, "fabric.switch"),
        ({"kind": "fat-tree-3"}, "fabric.kind"),
        ({"failed": ["leaf:999"]}, "failed"),
        ({"failed": ["<b>"]}, "failed"),
        ({"run": RUN | {"cluster": "l40s-8", "nodes": 1}}, "cluster"),
        ({"run": RUN | {"nodes": 10_000_000, "layout": {"tp": 8}}}, "fabric.switch"),
        ({"kind": "star"}, "kind"),
        ({"oversubscription": 0.5}, "oversubscription"),
        ({"oversubscription": 1e9}, "oversubscription"),
        ({"failed": ["leaf:1"] * 13}, "failed"),
        ({"failed": ["x" * 100]}, "failed"),
        ({"other": 1}, "other"),
    ],
)
def test_what_cannot_be_is_refused_with_the_key(client, options, where):
    answer = client.post("/api/fabric", json={"run": RUN} | options)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["where"].startswith(where)


def test_the_route_gives_what_the_function_gives(client):
    answer = client.post("/api/fabric", json={"run": SMALL, "failed": ["leaf:1"]})
    assert answer.status_code == 200
    assert answer.json() == asked(SMALL, failed=["leaf:1"])


def test_switches_are_those_of_the_catalogue(client):
    found = client.get("/api/fabric/switches").json()["switches"]
    assert "quantum-2-qm9700" in [one["name"] for one in found]
