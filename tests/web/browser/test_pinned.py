"""A run pinned as A on the Predict page: deltas, their doubt, and a link that opens both."""

import shlex

import pytest

import syncwall as sw
from syncwall.cli import main
from tests.web.browser.conftest import axe, fits, until
from tests.web.browser.test_predict import QUERY, own, settled, tile


def delta(page, name):
    return float(page.locator(f'[data-tile="{name}"] .delta').get_attribute("data-delta"))


def pinned(page):
    page.get_by_role("button", name="Pin as A").click()
    page.locator(".pinned-said").wait_for()
    settled(page)


def test_a_run_pinned_beside_itself_does_not_differ(opened):
    page = opened(QUERY)
    assert page.locator(".delta").count() == 0
    pinned(page)
    assert {delta(page, name) for name in ("step", "tokens", "mfu", "waiting", "memory")} == {0.0}
    assert "are the same" in page.locator(".pinned-said").inner_text()
    rows = page.locator("#ledger td .delta")
    assert rows.count() == page.locator("#ledger tbody tr").count()
    assert {row.get_attribute("data-delta") for row in rows.all()} == {"0"}


def test_deltas_are_those_of_compare_on_every_tile_and_row(opened):
    page = opened(QUERY)
    pinned(page)
    before = tile(page, "step")
    page.get_by_role("button", name="Twice the nodes").click()
    until(page, "document.querySelector('[data-tile=step] .delta')?.dataset.delta < 0")
    settled(page)
    one = sw.compare(own(), own(nodes=128)).beside[0]
    assert delta(page, "step") == pytest.approx(tile(page, "step") - before)
    for name, key in (
        ("step", "step_s"),
        ("tokens", "tokens_per_s_per_gpu"),
        ("mfu", "mfu"),
        ("memory", "memory_bytes"),
    ):
        assert delta(page, name) == one.ratios[key].difference
        told = one.ratios[key].certainty
        assert told in page.locator(f'[data-tile="{name}"] .delta').inner_text()
    for row in page.locator("#ledger tr[data-cause]").all():
        shown = float(row.locator(".delta").get_attribute("data-delta"))
        assert shown == pytest.approx(one.ledger_s[sw.Cause(row.get_attribute("data-cause"))])


def test_a_link_opens_the_comparison_and_unpinning_ends_it(opened):
    page = opened(QUERY)
    pinned(page)
    page.get_by_role("button", name="Twice the nodes").click()
    until(page, "document.querySelector('[data-tile=step] .delta')?.dataset.delta < 0")
    again = opened(page.url[page.url.index("/?") :])
    again.locator(".pinned-said").wait_for()
    assert delta(again, "step") == delta(page, "step")
    assert "pinned.nodes=64" in again.url
    again.get_by_role("button", name="Back to A").click()
    until(again, "document.querySelector('[data-tile=step] .delta')?.dataset.delta === '0'")
    again.get_by_role("button", name="Unpin A").click()
    again.get_by_role("button", name="Pin as A").wait_for()
    settled(again)
    assert "pinned" not in again.url
    assert again.locator(".delta").count() == 0
    again.go_back()
    again.locator(".pinned-said").wait_for()


def test_its_command_says_the_same(opened, capsys):
    page = opened(
        QUERY + "&pinned.model=llama-3.1-70b&pinned.cluster=dgx-b200&pinned.gpus=512"
        "&pinned.layout.tp=4&pinned.layout.global_batch=1024"
    )
    page.locator(".pinned-said").wait_for()
    page.get_by_text("How sure that is").click()
    command = page.locator("#pinned code").inner_text()
    assert main(shlex.split(command)[1:]) == 0
    shown = capsys.readouterr().out
    said = page.locator(".pinned-said").inner_text()
    assert said.replace("this run", "B") in shown.replace("\n          ", " ")


def test_a_pinned_run_that_is_not_possible_says_so(opened):
    page = opened(QUERY + "&pinned.model=llama-3.1-70b&pinned.cluster=dgx-h1000")
    page.get_by_text("A cannot be predicted").wait_for()
    page.get_by_role("button", name="Unpin A").click()
    page.get_by_role("button", name="Pin as A").wait_for()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("narrow", [False, True])
def test_it_fits_and_can_be_read(opened, narrow, dark):
    page = opened(
        QUERY + "&pinned.model=llama-3.1-70b&pinned.cluster=dgx-b200&pinned.nodes=64&pinned.layout.tp=4",
        narrow=narrow,
        dark=dark,
    )
    page.locator(".pinned-said").wait_for()
    settled(page)
    fits(page)
    axe(page)
