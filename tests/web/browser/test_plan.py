"""The Plan page: search, cancel, compare, take."""

from urllib.parse import parse_qs, urlsplit

import pytest

from syncwall.web.answers.plan import Search, searched
from tests.web.browser.conftest import axe, fits, until

RUN = {
    "model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": 1,
    "layout": {"tp": 2, "shard": "fsdp", "global_batch": 64},
}  # fmt: skip
HERE = "/plan?model=llama-3.1-8b&cluster=dgx-h100&nodes=1&layout.tp=2&layout.shard=fsdp"
HERE += "&layout.global_batch=64"
LARGE = "/plan?model=llama-3.1-405b&cluster=dgx-h100&nodes=2048&layout.global_batch=16384"
FOUND_MS = 60_000


@pytest.fixture(scope="module")
def answer():
    return searched(Search(run=RUN, keep=["tp"]))


def steps(page):
    return [
        float(row.get_attribute("data-value")) for row in page.locator("#best tr[data-rank]").all()
    ]


def test_nothing_is_searched_before_somebody_asks(opened):
    page = opened(HERE)
    assert page.locator("#go").inner_text() == "Search"
    assert page.locator("#found").is_hidden()


def test_a_search_finds_what_python_finds(opened, answer):
    page = opened(HERE + "&plan.keep=tp")
    page.locator("#go").press("Enter")
    page.wait_for_selector("#best table", timeout=FOUND_MS)
    page.wait_for_selector("#scatter .points")
    assert page.locator("#verdict").inner_text() == answer["verdict"]
    shown = [row["step_s"] for row in answer["best"]] + [answer["yours"]["step_s"]]
    assert steps(page) == shown
    assert "plan.go=1" in page.url
    axe(page)
    page.locator("#best tr[data-rank='1'] input").check()
    page.locator("#best tr[data-rank='yours'] input").press("Space")
    page.wait_for_selector("#compare table")
    assert parse_qs(urlsplit(page.url).query)["plan.compare"] == ["1,yours"]
    bars = page.locator("#compare .compare-run")
    first, second = (float(bars.nth(n).get_attribute("data-value")) for n in range(2))
    assert [first, second] == pytest.approx([shown[0], shown[-1]])
    apart = [
        float(one.get_attribute("data-apart"))
        for one in page.locator("#compare .sum [data-apart]").all()
    ]
    assert apart == [pytest.approx(second - first)]
    axe(page)


def test_a_link_reproduces_the_page_and_leads_to_predict(opened, answer):
    page = opened(HERE + "&plan.keep=tp&plan.go=1&plan.compare=1,2", narrow=True, dark=True)
    page.wait_for_selector("#compare table", timeout=FOUND_MS)
    page.wait_for_selector("#scatter .points")
    fits(page)
    axe(page)
    page.locator("#best tr[data-rank='2'] a").click()
    page.wait_for_selector("[data-tile='step']")
    assert urlsplit(page.url).path == "/"
    step = float(page.locator("[data-tile='step']").get_attribute("data-value"))
    assert step == pytest.approx(answer["best"][1]["step_s"], rel=1e-9)


def test_cancelling_ends_it(opened):
    page = opened(LARGE)
    page.locator("#go").click()
    bar = page.locator("#bar")
    until(page, "Number(document.getElementById('bar').getAttribute('aria-valuenow')) >= 0")
    assert bar.is_visible()
    assert page.locator("#go").inner_text() == "Cancel"
    page.locator("#go").click()
    assert bar.is_hidden()
    assert page.locator("#go").inner_text() == "Search"
    assert "plan.go" not in page.url


def test_what_changes_afterwards_makes_it_old(opened):
    page = opened(HERE + "&plan.keep=tp,shard&plan.go=1")
    page.wait_for_selector("#best table", timeout=FOUND_MS)
    page.locator("[name='layout.global_batch']").fill("128")
    page.wait_for_selector("#found.stale")
    assert "changed" in page.locator("#bar-text").inner_text()


def test_what_cannot_be_is_said(opened):
    page = opened(HERE.replace("layout.global_batch=64", "layout.global_batch=") + "&plan.go=1")
    page.wait_for_selector("#refused:not(:empty)")
    assert "global_batch" in page.locator("#refused").inner_text()
