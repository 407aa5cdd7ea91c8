"""The picture of flows: widths are loads, red is the busiest link, and it is always drawn."""

import re
import xml.etree.ElementTree as ET

import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.cost.contended_network import SharedLinks
from syncwall.network.graph import links_of_tiers
from syncwall.network.routing import ROUTINGS
from syncwall.plan.fabric.sized_links import fabric_named
from syncwall.plan.placement.placement_search import SharedFabric, crossed, groups_of, traffic_of
from syncwall.show.draw.flows import flow_parts, flows_drawing, some

SVG = "{http://www.w3.org/2000/svg}"
CLUSTER = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=256).cluster


def carried(links, routing="ecmp"):
    order = crossed(groups_of(links), range(256))
    shared = SharedLinks(links, routing, 1, order, draw=0)
    shared.slower("ring", 256, 8, CLUSTER)
    return shared.carried(shared.flows()[0], CLUSTER)


def strokes(found, jobs=()):
    root = ET.fromstring(flows_drawing(found, "flows", jobs).file())
    shapes = [*root.iter(f"{SVG}line"), *root.iter(f"{SVG}polyline")]
    return [one for one in shapes if "load" in one.get("class", "")]


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree-2", "fat-tree-3", "dragonfly"])
def test_widths_are_loads_and_red_is_the_busiest(kind, routing):
    links = fabric_named(kind, CLUSTER, (2.0, 1.0)) if kind != "fat-tree-3" else links_of_tiers(CLUSTER)
    found = carried(links, routing)
    lines = strokes(found)
    assert 0 < len(lines) < 700
    widest = max(float(one.get("stroke-width")) for one in lines)
    for one in lines:
        (said,) = re.findall(r"([\d.]+) times", one.findtext(f"{SVG}title"))
        expected = 7.0 * float(said) / max(found.most, 5.0)
        assert float(one.get("stroke-width")) == pytest.approx(max(expected, 0.5), abs=0.06)
    red = [one for one in lines if "red" in one.get("class")]
    if found.busiest is None:
        assert not red
        return
    assert red
    assert {float(one.get("stroke-width")) for one in red} == {widest}
    name = found.routed.name(found.busiest)
    assert all(one.findtext(f"{SVG}title").startswith(f"{name}: ") for one in red)


def test_parts_stay_few_and_hold_the_busiest_link():
    found = carried(fabric_named("rail-optimised", CLUSTER))
    parts = flow_parts(found)
    assert len(parts.nodes) <= 24
    assert set(found.ends_of_busiest()) <= {one for row in parts.rows for one in row}
    hangs = found.links.switch_of_nic.reshape(256, -1)
    assert all(int(leaf) in parts.rows[0] for node in parts.nodes for leaf in hangs[node])
    assert some(range(3), 4) == [0, 1, 2]
    assert some(range(100), 4, [50]) == [0, 1, 2, 50, 99]


def test_two_jobs_have_two_colours():
    links = fabric_named("fat-tree-2", CLUSTER)
    layout = sw.Layout(tp=8, shard="fsdp", global_batch=256, micro_batch=1)
    run = sw.predict(sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=128, layout=layout)).run
    fabric = SharedFabric(links, [traffic_of(run)] * 2)
    placed = [tuple(range(0, 256, 2)), tuple(range(1, 256, 2))]
    found = fabric.carried(placed)
    assert found.loads.shape[0] == 2
    assert found.loads[0].sum() == pytest.approx(found.loads[1].sum(), rel=0.1)
    assert found.busiest is not None
    assert found.routed.name(found.busiest) == fabric.slower(placed).busiest
    assert found.loads.sum(0).argmax() == found.busiest
    colours = {one.get("class").split()[-1] for one in strokes(found, ("a", "b"))}
    assert colours == {"s0", "s7", "red"}
    assert found.job_of_node.tolist() == [0, 1] * 128


def test_a_report_has_the_picture(tmp_path, capsys):
    path = tmp_path / "report.html"
    line = "predict --model llama-3.1-8b --cluster dgx-h100 --nodes 64 --tp 8 --shard fsdp"
    flags = [*line.split(), "--global-batch", "512", "--fabric", "fat-tree-2,2"]
    assert main([*flags, "--html", str(path), "--json"]) == 0
    text = path.read_text()
    assert 'class="load red"' in text
    (name,) = re.findall(r'"busiest_link": "([^"]+)"', capsys.readouterr().out)
    assert f"<title>{name.replace('>', '&gt;')}: " in text
    assert main([*flags[:-2], "--html", str(path)]) == 0
    assert "load red" not in path.read_text()
