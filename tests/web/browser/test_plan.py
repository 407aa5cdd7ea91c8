"""The Plan page: search, cancel, compare, take."""

from urllib.parse import parse_qs, urlsplit

import pytest

from syncwall.web.answers.plan import searched
from syncwall.web.questions import Search
from tests.web.browser.conftest import axe, fits, until

RUN = {
    "model": "llama-3.1-8b",
    "cluster": "dgx-h100",
    "nodes": 1,
    "layout": {"tp": 2, "shard": "fsdp", "global_batch": 64},
}
HERE = "/plan?model=llama-3.1-8b&cluster=dgx-h100&nodes=1&layout.tp=2&layout.shard=fsdp"
HERE += "&layout.global_batch=64"
LARGE = "/plan?model=llama-3.1-405b&cluster=dgx-h100&nodes=2048&layout.global_batch=16384"
FOUND_MS = 60_000


@pytest.fixture(scope="module")
def answer():
    return searched(Search(run=RUN, keep=["tp"]))


@pytest.fixture(scope="module")
def alone():
    """The same without the run as it stands, which the page asks for apart."""
    return searched(Search(run=RUN, keep=["tp"], beside_yours=False))


def steps(page):
    return [float(row.get_attribute("data-value")) for row in page.locator("#best tr[data-rank]").all()]


def test_nothing_is_searched_before_somebody_asks(opened):
    page = opened(HERE)
    assert page.locator("#go").inner_text() == "Search"
    assert page.locator("#found").is_hidden()


def test_a_search_finds_what_python_finds(opened, answer, alone):
    page = opened(HERE + "&plan.keep=tp")
    page.locator("#go").press("Enter")
    page.wait_for_selector("#best table", timeout=FOUND_MS)
    page.wait_for_selector("#scatter .points")
    assert page.locator("#verdict").inner_text() == alone["verdict"]
    page.wait_for_selector("#best tr[data-rank='yours']")
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
        float(one.get_attribute("data-apart")) for one in page.locator("#compare .sum [data-apart]").all()
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


def searched_page(opened, more=""):
    page = opened(HERE + "&plan.keep=tp&plan.go=1" + more)
    page.wait_for_selector("#best tr[data-rank='yours']", timeout=FOUND_MS)
    return page


def test_back_keeps_a_search_and_a_shared_link_opens_it(opened):
    page = searched_page(opened)
    page.locator("#best tr[data-rank='1'] a").click()
    page.wait_for_selector("[data-tile='step']")
    page.go_back()
    page.wait_for_selector("#best tr[data-rank='1']", timeout=5_000)
    other = opened(page.url[page.url.index("/plan") :])
    other.wait_for_selector("#best tr[data-rank='1']", timeout=5_000)


def test_the_best_so_far_is_told(opened):
    page = opened(LARGE.replace("nodes=2048", "nodes=128"))
    page.locator("#go").click()
    until(page, "document.getElementById('so-far').textContent.includes('Best so far')", 60.0)
    assert " s a step on 1,024 GPUs" in page.locator("#so-far").inner_text()
    page.locator("#go").click()


def test_rows_have_intervals_and_ties_are_grouped(opened, alone):
    page = searched_page(opened)
    ties = [row["tie"] for row in alone["best"]]
    first = page.locator("#best .tie").first
    assert first.inner_text().startswith(f"These {ties.count(1)} cannot be told apart")
    low, high = (f"{seconds:.3g}" for seconds in alone["best"][0]["step_interval_s"])
    assert f"{low}–{high}" in page.locator("#best tr[data-rank='1']").inner_text()


def test_columns_sort_and_filters_filter(opened):
    page = searched_page(opened)
    page.get_by_role("button", name="GB", exact=True).press("Enter")
    page.wait_for_selector("th[aria-sort=ascending]")
    rows = page.locator("#best tr[data-rank]").all()
    memory = [float(row.get_attribute("data-memory")) for row in rows]
    assert memory == sorted(memory)
    assert "plan.sort=GB:up" in page.url
    page.locator("[name='plan.only.pp']").select_option("1")
    page.wait_for_selector("#filters >> text=shown")
    assert 1 < page.locator("#best tr[data-rank]").count() < len(rows)


@pytest.mark.parametrize(
    ("button", "begins"),
    [
        ("CSV", "rank,gpus,tp,"),
        ("Run file (YAML)", "model:"),
        ("Report (HTML)", "<!doctype html>"),
        ("Megatron-LM", "# Megatron-LM"),
        ("torchtitan", "# torchtitan"),
        ("DeepSpeed", "{"),
        ("Hugging Face accelerate", "# Hugging Face accelerate"),
    ],
)
def test_the_answer_is_handed_over(opened, button, begins, tmp_path):
    page = searched_page(opened)
    with page.expect_download() as caught:
        page.locator("#hand-over").get_by_role("button", name=button, exact=True).click()
    caught.value.save_as(tmp_path / "file")
    assert (tmp_path / "file").read_text().startswith(begins)
