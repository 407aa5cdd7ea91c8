"""The Fabric page in a browser."""

from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from syncwall.web.answers.fabric import fabric, variants
from syncwall.web.answers.fabric_flows import flows
from syncwall.web.questions import AskedFabric, AskedFlows, AskedRun, AskedWiring

from .conftest import axe, fits

RUN: dict[str, Any] = {
    "model": "llama-3.1-70b",
    "cluster": "dgx-h100",
    "nodes": 16,
    "layout": {"tp": 8, "pp": 2, "shard": "fsdp", "global_batch": 128},
}
HERE = (
    "/fabric?model=llama-3.1-70b&cluster=dgx-h100&nodes=16&layout.tp=8&layout.pp=2"
    "&layout.shard=fsdp&layout.global_batch=128&fabric.kind=fat-tree-2"
)


def asked(**options):
    return fabric(AskedFabric(run=AskedRun(**RUN), kind="fat-tree-2", **options))


def value(page, tile):
    return page.get_attribute(f'[data-tile="{tile}"]', "data-value")


def state(page):
    return {key: one for key, (one, *_) in parse_qs(urlsplit(page.url).query).items()}


def waits(page, selector, state="attached"):
    page.wait_for_selector(selector, state=state)
    page.wait_for_selector("#answer:not(.stale)")


def test_the_page_shows_what_python_says(opened):
    page = opened(HERE)
    answer = asked()
    assert float(value(page, "step")) == answer["now"]["step_s"]
    assert float(value(page, "cables")) == answer["counts"]["total_cables"]
    assert page.inner_text("#verdict") == answer["verdict"]["said"]
    graph = answer["graph"]
    parts = {
        "node": len(graph["nodes"]),
        "leaf": len(graph["leaves"]),
        "nic": 128,
        "spine": len(graph["spines"]),
        "link": len(graph["links"]),
    }
    for kind, count in parts.items():
        assert page.locator(f"#drawing .part.{kind}").count() == count
    for one in answer["axes"]:
        row = page.locator(f'#axes tr[data-axis="{one["axis"]}"]')
        for link, share in one["utilisation"].items():
            said = row.locator(f'[data-link="{link}"]').get_attribute("data-value")
            assert float(said) == share
    page.wait_for_selector("#each:not(.stale) tbody tr")
    alone = variants(AskedWiring(run=AskedRun(**RUN), kind="fat-tree-2"))
    rows = page.locator("#each tbody tr")
    assert rows.count() == len(alone["if_one_fails"])
    for number, one in enumerate(alone["if_one_fails"]):
        assert rows.nth(number).get_attribute("data-value") == str(one["step_s"] or "")
    assert alone["narrower"] in page.inner_text("#controls")


def test_a_click_breaks_a_part_and_a_second_one_mends_it(opened):
    page = opened(HERE + "&fabric.oversubscription=1.5")
    page.click('[data-part="spine:1"] rect')
    waits(page, '[data-part="spine:1"].failed')
    answer = asked(oversubscription=1.5, failed=["spine:1"])
    assert float(value(page, "step")) == answer["now"]["step_s"]
    assert page.inner_text("#why") == answer["verdict"]["why"]
    assert state(page)["fabric.failed"] == "spine:1"
    assert page.get_attribute('[data-part="spine:1"]', "aria-pressed") == "true"
    page.click('[data-part="node:3"] .case', position={"x": 5, "y": 5})
    waits(page, '[data-tile="step"]:has-text("stops")')
    assert page.inner_text("#verdict") == "The job stops"
    page.click('[data-broken="node:3"]')
    waits(page, '[data-broken="node:3"]', "detached")
    page.click("#mend")
    waits(page, ".part.failed", "detached")
    assert "fabric.failed" not in state(page)
    page.go_back()
    waits(page, '[data-part="spine:1"].failed')


def test_the_drawing_has_one_tab_stop_and_arrow_keys(opened):
    page = opened(HERE)
    assert page.locator('#drawing [tabindex="0"]').count() == 1
    page.focus('#drawing [tabindex="0"]')
    focused = "document.activeElement.dataset.part"
    assert page.evaluate(focused) == "leaf:1"
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) == "leaf:2"
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused).startswith("link:")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused).startswith("spine:")
    page.keyboard.press("End")
    assert page.evaluate(focused) == "spine:2"
    page.keyboard.press("Enter")
    waits(page, '[data-part="spine:2"].failed')
    assert page.evaluate(focused) == "spine:2"
    page.keyboard.press("Space")
    waits(page, ".part.failed", "detached")
    assert page.locator('#drawing [tabindex="0"]').count() == 1


def test_the_slider_changes_the_step_and_the_address(opened):
    page = opened(HERE)
    page.focus("#ratio")
    page.keyboard.press("End")
    waits(page, '#verdict:has-text("→")')
    assert state(page)["fabric.oversubscription"] == "16"
    assert float(value(page, "step")) == asked(oversubscription=16)["now"]["step_s"]
    again = opened(f"/fabric?{urlsplit(page.url).query}")
    assert value(again, "step") == value(page, "step")
    assert again.inner_text(".slider output") == "16 : 1"


def test_the_legend_shows_one_axis(opened):
    page = opened(HERE)
    page.click('[data-axis="pp"]')
    assert page.get_attribute("#drawing", "data-axis") == "pp"
    assert state(page)["fabric.axis"] == "pp"
    assert page.get_attribute('#legend [data-axis="pp"]', "aria-pressed") == "true"
    page.click('#legend [data-axis="pp"]')
    assert page.get_attribute("#drawing", "data-axis") == ""


def test_what_cannot_be_is_said(opened):
    page = opened(HERE + "&fabric.failed=leaf:99")
    assert "leaf:99" in page.inner_text("#why")
    page.click("#mend")
    waits(page, "#drawing svg")


@pytest.mark.parametrize("narrow", [False, True])
def test_it_fits_and_can_be_read_by_everybody(opened, narrow):
    small = HERE.replace("nodes=16", "nodes=2").replace("fat-tree-2", "rail-optimised")
    page = opened(f"{small}&fabric.failed=leaf:1,nic:2-2", narrow=narrow, dark=narrow)
    fits(page)
    axe(page)
    page.click("#theme")
    fits(page)


FLOWS = HERE.replace("nodes=16", "nodes=32").replace("layout.pp=2", "layout.pp=1")


def flows_asked(**options):
    run = RUN | {"nodes": 32, "layout": RUN["layout"] | {"pp": 1}}
    return flows(AskedFlows(run=AskedRun(**run), kind="fat-tree-2", **options))


def widths(page):
    """Of every stroke of the picture, in its order."""
    strokes = page.locator("#flows-drawing .load")
    return strokes.evaluate_all("all => all.map((one) => one.getAttribute('stroke-width'))")


def flows_settled(page):
    page.wait_for_selector("#flows:not(.stale) > div")


def test_switches_change_the_picture_and_the_numbers(opened):
    page = opened(FLOWS)
    flows_settled(page)
    chosen, pictures = {}, []
    for key, one in {None: None, "order": "crossed", "qps": "4", "routing": "adaptive"}.items():
        if key is not None:
            page.select_option(f'[name="fabric.{key}"]', one)
            chosen[key] = one
            flows_settled(page)
            assert state(page)[f"fabric.{key}"] == one
        answer = flows_asked(**chosen)
        assert float(value(page, "flows-step")) == answer["p50_s"]
        assert float(value(page, "flows-slower")) == answer["slower"]
        assert page.locator("#flows p.small").all_inner_texts() == answer["said"]
        red = page.locator("#flows-drawing .red title").all_text_contents()
        if answer["busiest"]:
            assert red
            assert all(said.startswith(f"{answer['busiest']}: ") for said in red)
        else:
            assert not red
        pictures.append(widths(page))
    assert all(one != other for one, other in pairwise(pictures))
    assert "none of this is needed" in page.inner_text("#flows")
    assert page.locator('[name="fabric.routing"] option[value="valiant"]').is_disabled()


def test_two_jobs_have_two_colours_and_say_what_each_loses(opened):
    page = opened(FLOWS)
    flows_settled(page)
    assert page.locator("#flows-drawing .s7").count() == 0
    page.select_option('[name="fabric.jobs"]', "interleaved")
    flows_settled(page)
    answer = flows_asked(jobs="interleaved")
    for job in answer["jobs"]:
        row = page.locator(f'#flows tr[data-job="{job["name"]}"]')
        assert float(row.get_attribute("data-value")) == job["step_p50_s"]
        assert float(row.locator("[data-lost]").get_attribute("data-lost")) == job["lost"]
    for colour in ("s0", "s7"):
        assert page.locator(f"#flows-drawing .{colour}").count() > 0
    with page.expect_download() as got:
        page.click("#flows button:has-text('jobs.yaml')")
    assert got.value.path().read_text() == answer["files"]["jobs.yaml"]


def test_other_flows_are_drawn_on_request_and_broken_parts_do_not_matter(opened):
    page = opened(FLOWS + "&fabric.order=crossed")
    flows_settled(page)
    before = widths(page)
    other = flows_asked(order="crossed")["flows"][1]
    page.select_option('[name="fabric.flows"]', other["id"])
    flows_settled(page)
    assert widths(page) != before
    assert other["name"] in page.inner_text("#flows-drawing")
    step = value(page, "flows-step")
    page.click('[data-part="spine:1"] rect')
    waits(page, '[data-part="spine:1"].failed')
    assert value(page, "flows-step") == step
    again = opened(f"/fabric?{urlsplit(page.url).query}")
    flows_settled(again)
    assert widths(again) == widths(page)


@pytest.mark.parametrize("narrow", [False, True])
def test_flows_fit_and_can_be_read_by_everybody(opened, narrow):
    page = opened(f"{FLOWS}&fabric.jobs=interleaved", narrow=narrow, dark=narrow)
    flows_settled(page)
    fits(page)
    axe(page)
