"""The Job page in a real browser."""

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from playwright.sync_api import expect

from syncwall.web.answers.job import played
from syncwall.web.questions import AskedOutcome, AskedRun
from tests.web.browser.conftest import axe, fits
from tests.web.conftest import RUN

QUERY = (
    "model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp"
    "&layout.global_batch=1024&job.tokens=2T"
)


def _drawn(page):
    page.wait_for_selector("#finish .main-svg")
    page.wait_for_selector("#interval .main-svg")
    page.wait_for_selector("#answer:not(.stale)")


def _tile(page, name):
    return float(page.get_attribute(f"[data-tile='{name}']", "data-value"))


def _expected(job):
    return played(AskedOutcome(run=AskedRun(**RUN), job=job))


def test_its_numbers_are_those_of_python(opened):
    page = opened(f"/job?{QUERY}&job.start=2026-12-01")
    _drawn(page)
    found = _expected({"tokens": "2T", "start": "2026-12-01"})
    assert page.inner_text("#verdict") == found["verdict"]
    assert _tile(page, "finish") == found["finish_s"][1]
    assert _tile(page, "effective") == found["effective_training_time"]
    assert _tile(page, "cost") == found["cost_usd"][1]
    assert _tile(page, "interruptions") == found["interruptions"][1]
    assert found["finish_dates"][1][:10] in page.inner_text("[data-tile='finish'] .value")
    shown = page.eval_on_selector_all(
        "#ledger > .ledger tr[data-cause]",
        "rows => rows.map(r => [r.dataset.cause, +r.dataset.value])",
    )
    assert all(found["ledger_s"][cause] == value for cause, value in shown)
    assert "1,000 jobs" in page.inner_text("#finish-about")
    assert found["finish_dates"][1][:10] in page.text_content("#finish")
    assert page.locator("#inputs tbody tr").count() == len(found["inputs"])


def test_the_form_is_the_address(opened):
    page = opened(f"/job?{QUERY}")
    _drawn(page)
    page.fill("[name='job.checkpoints.interval']", "3 h")
    page.keyboard.press("Tab")
    page.select_option("[name='job.failures.like']", "llama3-h100")
    page.fill("[name='job.price']", "2.5")
    page.keyboard.press("Tab")
    expect(page.locator("[data-tile='cost']")).to_contain_text("2.50")
    page.wait_for_selector("#answer:not(.stale)")
    assert "job.checkpoints.interval=3+h" in page.url
    assert "job.price=$2.5/GPU-hour" in page.url
    job = {
        "tokens": "2T",
        "price": "$2.5/GPU-hour",
        "checkpoints": {"interval": "3 h"},
        "failures": {"like": "llama3-h100"},
    }
    assert _tile(page, "cost") == _expected(job)["cost_usd"][1]
    again = opened(page.url[page.url.index("/job") :])
    _drawn(again)
    assert again.inner_text("#tiles") == page.inner_text("#tiles")
    assert again.input_value("[name='job.failures.like']") == "llama3-h100"
    assert "chosen: 3 h" in again.text_content("#interval")


def test_a_change_can_be_taken(opened):
    page = opened(f"/job?{QUERY}")
    page.wait_for_selector("#next button")
    button = page.locator("#next button", has_text="checkpoints.blocking false")
    before = _tile(page, "finish")
    gained = float(button.get_attribute("data-gained"))
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-tile='finish']")).not_to_have_attribute("data-value", f"{before!r}")
    assert before - _tile(page, "finish") == pytest.approx(gained)
    assert "job.checkpoints.blocking=false" in page.url
    assert page.input_value("[name='job.checkpoints.blocking']") == "false"
    fits(page)
    axe(page)


def test_what_cannot_be_is_said_at_its_field(opened):
    page = opened(f"/job?{QUERY}&job.failures.like=/etc/passwd")
    page.wait_for_selector("#verdict.bad")
    assert "is a path" in page.inner_text("[data-fault='job.failures.like']")
    assert page.get_attribute("[name='job.failures.like']", "aria-invalid") == "true"
    page = opened("/job?nodes=4&model=llama-3.1-8b&cluster=dgx-h100&job.tokens=<b>x</b>")
    page.wait_for_selector("#verdict.bad")
    assert "<b>x</b>" in page.inner_text("#job-form .fault")


def test_jobs_without_an_end_and_without_failures(opened):
    page = opened(f"/job?{QUERY}&job.failures.per_1000_node_days=1000000&job.failures.repair=1+s")
    page.wait_for_selector("#verdict.bad")
    assert "does not finish" in page.inner_text("#verdict")
    page.fill("[name='job.failures.per_1000_node_days']", "0")
    page.keyboard.press("Tab")
    page.wait_for_selector("#finish .main-svg")
    assert not page.is_visible("#interval")


def test_everybody_can_use_it(opened):
    page = opened(f"/job?{QUERY}", narrow=True, dark=True)
    _drawn(page)
    page.wait_for_selector("#next button")
    fits(page)
    axe(page)


def test_the_chance_of_a_date_and_of_a_sum(opened):
    page = opened(f"/job?{QUERY}&job.start=2026-12-01")
    _drawn(page)
    page.locator("[name='chance.by']").fill("80 days")
    page.locator("[name='chance.within']").fill("$2,000,000")
    page.locator("[name='chance.within']").press("Enter")
    page.wait_for_selector("[data-chance=by]")
    shown = float(page.get_attribute("[data-chance=by]", "data-value"))
    hoped = {"by": "80 days", "within": "$2,000,000"}
    job = {"tokens": "2T", "start": "2026-12-01"}
    found = played(AskedOutcome(run=AskedRun(**RUN), job=job, **hoped))["chances"]
    page.wait_for_selector("[data-chance=within]")
    assert shown == found["by"]
    assert float(page.get_attribute("[data-chance=within]", "data-value")) == found["within"]
    assert "chance.by=80+days" in page.url


def test_what_costs_money_is_not_green(opened):
    page = opened(f"/job?{QUERY}")
    _drawn(page)
    page.wait_for_selector("#next button")
    for words in page.locator("#next small span").all():
        costs = words.inner_text().startswith("costs")
        assert words.get_attribute("class") == ("worse" if costs else "better")
    assert page.locator("#next small span").count() >= 1
    for button, starts in (("CSV", "from_s"), ("JSON", "{"), ("SVG", "<svg")):
        with page.expect_download() as waited:
            page.locator("#exports").get_by_role("button", name=button).click()
        assert waited.value.path().read_text().startswith(starts)


def test_phases_take_the_place_of_a_length(opened):
    phases = "[{tokens: 1T, seq: 4096}, {name: long, tokens: 10B, seq: 32768, global_batch: 256}]"
    page = opened(f"/job?{QUERY}&job.phases={phases}")
    _drawn(page)
    found = _expected({"phases": phases})
    assert _tile(page, "finish") == found["finish_s"][1]
    shown = page.eval_on_selector_all(
        "#phases tr[data-phase]", "rows => rows.map(r => [r.dataset.phase, +r.dataset.value])"
    )
    assert shown == [[one["phase"], one["step_s"]] for one in found["phases"]]
    command = page.inner_text("#command")
    assert "--job.phases" in command
    assert "--tokens" not in command
    axe(page)


def test_without_phases_there_is_no_table_of_them(opened):
    page = opened(f"/job?{QUERY}")
    _drawn(page)
    expect(page.locator("#phases-panel")).to_be_hidden()
