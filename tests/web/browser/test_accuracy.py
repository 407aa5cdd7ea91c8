"""The Accuracy page: filters, live errors, and the source of each point."""

import json
import urllib.request
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from tests.web.browser.conftest import axe, fits, until

pytestmark = pytest.mark.slow
FOUND_MS = 180_000


@pytest.fixture(scope="module")
def answer(served):
    """What the page is made of."""
    with urllib.request.urlopen(f"{served}/api/accuracy", timeout=180) as sent:
        return json.loads(sent.read().splitlines()[-1])["answer"]


def test_the_route_gives_the_same_at_once_the_second_time(answer, served):
    with urllib.request.urlopen(f"{served}/api/accuracy", timeout=5) as sent:
        assert sent.headers["content-type"] == "application/x-ndjson"
        (line,) = sent.read().splitlines()
    assert json.loads(line) == {"answer": answer}


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
    assert source["where"] in said
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
