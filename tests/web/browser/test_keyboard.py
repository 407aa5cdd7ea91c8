"""The main path without a mouse: from an example to a change, a proposal and a plan."""

from typing import Any

from tests.web.browser.test_door import query
from tests.web.browser.test_predict import settled, tile

MOST_KEYS = 120
"""Presses of Tab that lead once around a page."""


def go(page: Any, selector: str, key: str = "Tab") -> None:
    """Press Tab until the first such element has the focus, which must be seen."""
    page.locator(selector).first.wait_for()
    for _ in range(MOST_KEYS):
        page.keyboard.press(key)
        if page.locator(selector).first.evaluate("one => one === document.activeElement"):
            break
    else:
        raise AssertionError(f"{selector} is not reached with {key}")
    line = "(one) => { const s = getComputedStyle(one); return [s.outlineStyle, s.outlineWidth]; }"
    style, width = page.locator(selector).first.evaluate(line)
    assert style != "none"
    assert width != "0px"


def test_from_an_example_to_a_plan(opened: Any) -> None:
    page = opened("/")
    go(page, "#door button:has-text('one node of 8 GPUs')")
    page.keyboard.press("Enter")
    settled(page)
    assert query(page)["model"] == "llama-3.1-8b"
    first_s = tile(page, "step")

    go(page, "input[name=cluster]")  # a change
    page.keyboard.type("b200 dgx")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**cluster=dgx-b200**")
    settled(page)
    changed_s = tile(page, "step")
    assert changed_s < first_s

    page.locator("#next:not(.stale) .proposals button").first.wait_for()
    go(page, "#next .proposals button")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    settled(page)
    assert tile(page, "step") < changed_s

    go(page, "nav a[data-page=plan]", "Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#go")
    assert query(page)["cluster"] == "dgx-b200"
    go(page, "#go")
    page.keyboard.press("Enter")
    page.wait_for_selector("#best table", timeout=60_000)
    go(page, "#best tbody input, #best tbody button")
