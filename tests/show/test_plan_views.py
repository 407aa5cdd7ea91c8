"""Views of plans on narrow and wide terminals."""

import re

import pytest

from syncwall.plan.answers import Plan
from syncwall.plan.fabric.fabric_answer import plan_fabric
from syncwall.plan.fabric.question import wiring_of
from syncwall.plan.network.needed import NetworkPlan, needed
from syncwall.plan.network.targets import TargetLimits
from syncwall.plan.reference import start_of
from syncwall.plan.search import search
from syncwall.plan.wall.sync_wall import WallPlan, wall_of
from syncwall.show.blocks import View
from syncwall.show.fabric import fabric_view
from syncwall.show.layouts import layouts_view
from syncwall.show.network import network_view
from syncwall.show.wall import wall_view
from syncwall.show.write.terminal import rendered
from tests.describe.stated import stated

FLAGS = {
    "model": "llama-3.1-8b",
    "cluster": "dgx-h100",
    "nodes": "4",
    "layout.tp": "2",
    "layout.global_batch": "64",
    "seq": "4096",
}


def printed(view: View, width: int) -> list[str]:
    return [line.plain.rstrip() for line in rendered(view, width)]


@pytest.fixture(scope="module")
def views() -> dict[str, View]:
    start = start_of(stated(None, FLAGS))
    run = start.run
    found = search(run.model, run.cluster, seq=run.seq, global_batch=64, pinned={"cp": 1})
    wiring = wiring_of(run.cluster)
    return {
        "layouts": layouts_view(Plan(run, found, found.best(5), "fastest", 64)),
        "wall": wall_view(WallPlan(start, wall_of(start, 2**14))),
        "network": network_view(NetworkPlan(start, needed(start, [32, 256, 2048], TargetLimits()))),
        "fabric": fabric_view(plan_fabric(wiring, run.gpus, prediction=start.prediction)),
    }


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", ["layouts", "wall", "network", "fabric"])
def test_views_fit_a_terminal(views, name, width):
    """Nothing is cut, and no line starts at the edge but a head: what is wrapped is indented."""
    lines = printed(views[name], width)
    assert lines[0].startswith("Verdict   ")
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    for line in lines:
        head, rest = line[:10], line[10:]
        assert not line or head.startswith(" ") or (head.rstrip() and rest), line


def test_80_columns_keep_what_a_layout_is(views):
    lines = printed(views["layouts"], 80)
    head = next(line for line in lines if line.startswith("  #"))
    for name in ("pp", "dp", "micro batch", "step", "MFU", "memory"):
        assert f" {name} " in f"{head} "


def test_every_number_of_a_wide_network_table_is_in_the_narrow_one(views):
    numbers = {
        width: re.findall(r"[\d,.]+", " ".join(printed(views["network"], width))) for width in (40, 200)
    }
    assert set(numbers[40]) >= set(numbers[200])
