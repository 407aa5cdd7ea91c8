"""The Accuracy page: filters, live errors, and the source of each point."""

import json
import urllib.request
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tests.web.browser.conftest import axe, fits, until

FOUND_MS = 15_000


@pytest.fixture(scope="module")
def answer(served):
    """What the page is made of."""
    with urllib.request.urlopen(f"{served}/api/accuracy", timeout=10) as sent:
        return json.loads(sent.read())


def points(answer, **wanted):
    """Runs without doubt that have these words."""
    place = {name: number for number, name in enumerate(answer["columns"])}
    found = [line for line in answer["runs"] if line[place["doubt"]] < 0]
    for name, word in wanted.items():
        known = answer["parts"] if name == "part" else answer["words"][name]
        found = [line for line in found if known[line[place[name]]] == word]
    return found


def tile(page, name):
    return float(page.locator(f"[data-tile='{name}']").get_attribute("data-value"))


def counts(number):
    return f"document.querySelector('[data-tile=count]').dataset.value === '{number}'"


def looked(opened, path, **how):
    page = opened(path, **how)
    page.wait_for_selector("#scatter .points", timeout=FOUND_MS)
    return page


def test_errors_are_those_of_what_is_shown(opened, answer):
    page = looked(opened, "/accuracy?accuracy.part=structure&accuracy.device=h100-sxm")
    mine = points(answer, part="structure", device="h100-sxm")
    measured, predicted, low, high = np.array([line[1:5] for line in mine]).T
    errors = np.abs(predicted / measured - 1)
    assert tile(page, "count") == len(mine)
    assert tile(page, "mean") == pytest.approx(errors.mean())
    assert tile(page, "median") == pytest.approx(np.median(errors))
    assert tile(page, "within10") == pytest.approx((errors <= 0.1).mean())
    assert tile(page, "within20") == pytest.approx((errors <= 0.2).mean())
    assert tile(page, "covered") == pytest.approx(((low <= measured) & (measured <= high)).mean())
    axe(page)
    page.locator("#filters [name='accuracy.device']").select_option("")
    until(
        page,
        counts(len(points(answer, part="structure"))),
    )
    assert "accuracy.device" not in page.url


def test_a_point_has_a_source(opened, answer):
    page = looked(opened, "/accuracy?accuracy.model=llama")
    page.locator("#scatter").press("Home")
    page.locator("#scatter").press("ArrowRight")
    page.wait_for_selector("#run-about [data-run]")
    chosen = parse_qs(urlsplit(page.url).query)["accuracy.run"][0]
    shown = "document.querySelector('#run-about [data-run]').dataset.run"
    until(page, f"{shown} === {json.dumps(chosen)}")
    line = next(one for one in answer["runs"] if one[0] == chosen)
    source = answer["sources"][answer["words"]["source"][line[5]]]
    said = page.locator("#run-about").inner_text()
    assert source["title"] in said
    assert source["where"].split(",")[0].removeprefix("https://") in said
    assert page.locator("#run-about dd a").first.get_attribute("href") in source["where"]
    box = page.locator("#scatter .points path").nth(5).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(150)
    page.mouse.down()
    page.mouse.up()
    until(page, f"!location.search.includes({json.dumps('accuracy.run=' + chosen)})")


def test_sources_have_their_own_errors(opened, answer):
    page = looked(opened, "/accuracy", narrow=True, dark=True)
    row = page.locator("#sources tr[data-source='mlperf-training']")
    mine = points(answer, source="mlperf-training")
    measured, predicted = np.array([line[1:3] for line in mine]).T
    assert int(row.get_attribute("data-count")) == len(mine)
    assert float(row.get_attribute("data-median")) == pytest.approx(
        np.median(np.abs(predicted / measured - 1))
    )
    fits(page)
    axe(page)
    row.locator("button").click()
    until(page, f"document.querySelector('[data-tile=count]').dataset.value === '{len(mine)}'")
    assert "accuracy.source=mlperf-training" in page.url
    page.locator("#as-ratio").click()
    until(page, "location.search.includes('accuracy.view=ratio')")


def test_one_number_everywhere(opened, answer):
    page = looked(opened, "/accuracy")
    unseen, published, here = answer["unseen"], answer["published"], answer["held_out"]
    first = page.locator("#verdict").inner_text()
    assert f"{100 * unseen['mape']:.1f}% off" in first
    assert f"{unseen['sources']} sources that nobody had seen" in first
    assert f"{published['sources']} sources" in page.locator("#why").inner_text()
    assert f"{here['sources']} of these sources" in page.locator("#why").inner_text()
    assert f"{100 * here['mape']:.1f}% over them" in page.locator("#why").inner_text()
    assert tile(page, "held-out") == pytest.approx(here["mape"], abs=1e-4)


def test_a_published_run_opens_in_predict(opened, answer):
    line = answer["runs"][0]
    page = looked(opened, f"/accuracy?accuracy.run={line[0]}")
    page.get_by_role("link", name="Open in Predict").click()
    until(page, "document.querySelector('[data-tile=step]')?.dataset.value")
    step_s = float(page.locator("[data-tile=step]").get_attribute("data-value"))
    assert step_s == pytest.approx(line[2], rel=1e-3)


def test_runs_like_mine_are_marked_and_can_be_shown_alone(opened):
    page = looked(opened, "/accuracy?model=llama-3.1-70b&cluster=dgx-h100&nodes=8&layout.tp=8")
    page.wait_for_selector("#alike button")
    assert "llama-3.1-70b" in page.locator("#alike-what").inner_text()
    page.locator("[name='accuracy.alike']").check()
    until(page, counts(24))
    page.locator("#alike button").first.click()
    page.wait_for_selector("#run-about [data-run]")


def test_filters_that_leave_nothing_say_so(opened):
    page = looked(opened, "/accuracy")
    page.locator("[name='accuracy.model']").fill("no such model")
    page.wait_for_selector("#none:not([hidden])")
    assert not page.locator("#scatter").is_visible()


def test_what_is_shown_can_be_taken_as_files(opened):
    page = looked(opened, "/accuracy?accuracy.source=mlperf-training")
    shown = int(tile(page, "count"))
    for button, starts in (("CSV of the runs shown", "id,source"), ("SVG", "<svg"), ("JSON", "[")):
        with page.expect_download() as waited:
            page.get_by_role("button", name=button).click()
        text = waited.value.path().read_text()
        assert text.startswith(starts)
        if button.startswith("CSV"):
            assert len(text.splitlines()) == shown + 1
