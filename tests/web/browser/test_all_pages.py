"""What holds for every page; what each of them shows is tested in a file of its own."""

import pytest

from syncwall.web.application import PAGES, address
from tests.web.browser.conftest import NARROW, axe, fits

QUERY = "?model=llama-3.1-8b&cluster=dgx-h100&nodes=2&layout.shard=fsdp&layout.global_batch=64"


@pytest.mark.parametrize("name", [name for name in PAGES if name != "accuracy"])
def test_dark_and_wide_light_and_narrow_it_fits_and_can_be_read(opened, name):
    """The other two of four: each page's own tests look at it light and wide, dark and narrow."""
    page = opened(f"{address(name)}{QUERY}", dark=True)
    assert page.locator("h1").count() == 1
    assert page.locator("nav [aria-current=page]").inner_text() == PAGES[name]
    assert page.title() == f"{PAGES[name]} · syncwall"
    fits(page)
    axe(page, "color-contrast")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(NARROW)
    page.wait_for_timeout(300)
    fits(page)
    axe(page, "color-contrast", "target-size", "scrollable-region-focusable")


def test_the_run_goes_along_from_page_to_page(opened):
    page = opened(f"/{QUERY}")
    for name in ("wall", "fabric", "plan"):
        page.locator(f"nav a[data-page={name}]").click()
        page.wait_for_load_state("networkidle")
        assert "model=llama-3.1-8b" in page.url
        assert page.locator("[name=nodes]").input_value() == "2"


def test_colours_can_be_chosen_and_are_kept(opened):
    page = opened("/api")
    for said in ("Colours: light", "Colours: dark"):
        page.locator("#theme").click()
        assert page.locator("#theme").get_attribute("aria-label") == said
    page.reload()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(20, 22, 26)"
