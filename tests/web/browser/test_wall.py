"""The Sync wall page in a real browser."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import expect

from syncwall.web.answers.wall import compared
from syncwall.web.questions import AskedWall
from tests.web.browser.conftest import axe, fits
from tests.web.conftest import RUN

QUERY = "model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp&layout.global_batch=1024"
SHORT = f"{QUERY}&wall.most=1024"  # without a wall, nothing better is searched
OTHERS = "cluster:dgx-b200;layout.tp:4,layout.pp:2"


def _drawn(page):
    page.wait_for_selector("#curve .main-svg")
    page.wait_for_selector("#area .main-svg")
    page.wait_for_selector("#answer:not(.stale)")


def _walls(page, row):
    cells = page.query_selector_all(f"#summary tr[data-run='{row}'] td[data-level]")
    return [int(cell.get_attribute("data-value")) for cell in cells]


def _expected(run, scaling, most=1024):
    found = compared(AskedWall(run=run, most=most, scaling=scaling))["runs"][0]
    return found, [wall["holds_to_gpus"] for wall in found["walls"]]


def test_its_numbers_are_those_of_python(opened):
    page = opened(f"/wall?{QUERY}")
    _drawn(page)
    found, walls = _expected(RUN, "strong", None)
    assert page.inner_text("#verdict") == found["verdict"]
    assert _walls(page, 0) == walls
    assert f"wall: {walls[1]:,} GPUs" in page.text_content("#curve")
    box = page.locator("#curve .scatterlayer .point").nth(3).bounding_box()
    page.mouse.move(box["x"] + 12, box["y"] + 12)
    page.mouse.move(box["x"] + 2, box["y"] + 2, steps=4)
    expect(page.locator("#curve .hoverlayer")).to_contain_text(f"{found['gpus'][3]:,} GPUs (this run)")
    assert "Share chart..." not in page.inner_html("#curve")
    page.click("#numbers summary")
    shown = page.eval_on_selector_all(
        "#table tr[data-gpus] td:nth-child(2)", "cells => cells.map(c => Number(c.dataset.value))"
    )
    assert shown == found["efficiency"]
    page.wait_for_selector("#moves tr.sum")
    assert page.locator("#moves tbody tr").count() > 4


def test_switches_are_kept_in_the_address(opened):
    page = opened(f"/wall?{SHORT}")
    _drawn(page)
    page.focus("[data-choice='weak']")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("weak scaling")
    page.click("[data-choice='tokens_per_s']")
    page.select_option("[aria-label='Most GPUs']", "2048")
    page.wait_for_selector("#answer:not(.stale)")
    assert _walls(page, 0) == _expected(RUN, "weak", 2048)[1]
    kept = parse_qs(urlsplit(page.url).query)
    assert kept["wall.scaling"] == ["weak"]
    assert kept["wall.measure"] == ["tokens_per_s"]
    assert kept["wall.most"] == ["2048"]
    again = opened(urlsplit(page.url)._replace(scheme="", netloc="").geturl())
    _drawn(again)
    assert again.inner_text("#summary") == page.inner_text("#summary")
    assert again.get_attribute("[data-choice='tokens_per_s']", "aria-pressed") == "true"
    page.go_back()
    expect(page).to_have_url(re.compile("wall.most=1024"))


def test_another_cluster_and_another_layout_stand_beside_it(opened):
    page = opened(f"/wall?{SHORT}")
    _drawn(page)
    page.fill("#with-cluster", "dgx-b200")
    page.keyboard.press("Enter")
    page.wait_for_selector("#summary tr[data-run='1']")
    page.fill("#with-edits", "layout.tp=4 layout.pp=2")
    page.click("#compare button")
    page.wait_for_selector("#summary tr[data-run='2']")
    assert f"wall.with={OTHERS}" in page.url
    assert _walls(page, 1) == _expected({**RUN, "cluster": "dgx-b200"}, "strong")[1]
    changed = {**RUN, "layout": {**RUN["layout"], "tp": 4, "pp": 2}}
    assert _walls(page, 2) == _expected(changed, "strong")[1]
    page.select_option("#area-of select", "1")
    assert "wall.of=1" in page.url
    page.click("[aria-label='Remove dgx-b200']")
    page.wait_for_selector("#summary tr[data-run='2']", state="detached")
    assert f"wall.with={OTHERS.split(';')[1]}" in page.url
    axe(page)


def test_what_cannot_be_is_said(opened):
    page = opened("/wall?model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=ddp")
    page.wait_for_selector("#verdict.bad")
    assert "does not fit" in page.inner_text("#why")
    odd = opened(f"/wall?{SHORT}&wall.with=cluster:<b>x</b>;seq:0;layout.tp:<i>")
    _drawn(odd)
    assert odd.locator("#summary tbody tr").count() == 2
    assert "seq" in odd.inner_text("#summary .fault")


def test_everybody_can_use_it(opened):
    page = opened(f"/wall?{SHORT}&wall.with={OTHERS}", narrow=True, dark=True)
    _drawn(page)
    fits(page)
    axe(page)


def test_the_wall_has_a_band_and_the_reader_a_place(opened):
    page = opened(f"/wall?{QUERY}")
    _drawn(page)
    found, _ = _expected(RUN, "strong", None)
    ends = found["wall_ranges"][1]
    assert ends["least_gpus"] <= found["walls"][1]["holds_to_gpus"] <= ends["most_gpus"]
    said = page.text_content("#curve")
    both = f"80% interval {ends['least_gpus']:,} to {ends['most_gpus']:,}"
    is_same = ends["least_gpus"] == ends["most_gpus"]
    assert ("at both ends of the band" if is_same else both) in said
    assert "you are here: 512" in said
    assert f"{ends['least_gpus']:,} – {ends['most_gpus']:,}" in page.inner_text("#summary")


def test_a_change_of_the_run_is_applied_by_a_click(opened):
    page = opened(f"/wall?{QUERY}")
    _drawn(page)
    page.get_by_role("button", name="twice the batch").click()
    page.wait_for_url("**layout.global_batch=2048**")


@pytest.mark.parametrize(("button", "starts"), [("CSV", "run,gpus"), ("JSON", "{"), ("SVG", "<svg")])
def test_the_curves_can_be_taken_along(opened, button, starts):
    page = opened(f"/wall?{SHORT}")
    _drawn(page)
    with page.expect_download() as waited:
        page.locator("#exports").get_by_role("button", name=button).click()
    assert waited.value.path().read_text().startswith(starts)
