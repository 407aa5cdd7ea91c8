"""The Catalogue page: find an entry, and see where each number comes from."""

import pytest

from syncwall.describe import lookup
from syncwall.describe.choice import Dtype
from tests.conftest import sampled
from tests.web.browser.conftest import axe, fits, until


def test_an_entry_shows_trust_and_source(opened):
    page = opened("/catalogue?catalogue.kind=device&catalogue.name=h100-sxm")
    row = page.locator("tr[data-label='peak bf16']")
    row.wait_for()
    said = row.inner_text()
    peak = lookup.device("h100-sxm").peak_flop_per_s[Dtype.BF16]
    assert f"{peak / 1e12:g} TFLOP/s" in said
    assert "datasheet" in said
    assert "nvidia-h100-datasheet" in said
    axe(page)
    page.locator("tr[data-label='scale up link'] a").click()
    until(page, "document.getElementById('title').textContent.includes('NVLink')")
    assert "catalogue.name=nvlink-4" in page.url
    page.go_back()
    row.wait_for()


def test_finding_by_words_and_keyboard(opened):
    page = opened("/catalogue", dark=True)
    page.locator("#find").fill("dgx h100")
    link = page.locator("tr[data-name='dgx-h100'] a")
    link.wait_for()
    assert "catalogue.find=dgx+h100" in page.url
    link.press("Enter")
    until(page, "document.getElementById('title').textContent === 'NVIDIA DGX H100'")
    page.get_by_text("Predict a step with it").click()
    page.wait_for_selector("[data-tile='step']")
    assert "cluster=dgx-h100" in page.url


@pytest.mark.parametrize(
    "kind",
    sampled(["device", "link", "cluster", "model", "switch", "framework", "failure", "price"], 3),
)
def test_every_kind_fits_a_phone(opened, kind):
    page = opened(f"/catalogue?catalogue.kind={kind}", narrow=True)
    page.wait_for_selector(f"table[data-kind='{kind}']")
    fits(page)
    if kind in ("model", "price"):
        axe(page)


def test_an_unknown_name_is_said_with_a_hint(opened):
    page = opened("/catalogue?catalogue.kind=device&catalogue.name=h100-smx", narrow=True, dark=True)
    until(page, "document.getElementById('about').textContent.includes('h100-sxm')")
    fits(page)


def test_a_column_sorts_and_turns_round(opened):
    page = opened("/catalogue?catalogue.kind=device")
    page.wait_for_selector("table[data-kind=device]")
    first = "document.querySelector('table[data-kind] tbody tr').dataset.name"
    column = page.locator("th button[data-sort]").nth(3)
    before = page.evaluate(first)
    column.click()
    page.wait_for_selector("th button:has-text('▲')")
    low = page.evaluate(first)
    page.locator("th button[data-sort]").nth(3).click()
    page.wait_for_selector("th button:has-text('▼')")
    assert page.evaluate(first) not in (low, before)
    assert "catalogue.sort=-4" in page.url


def test_sources_of_an_entry_are_links(opened):
    page = opened("/catalogue?catalogue.kind=device&catalogue.name=h100-sxm")
    page.wait_for_selector(".sources dd")
    assert page.locator(".sources dd a[href^=https]").count() >= 1
