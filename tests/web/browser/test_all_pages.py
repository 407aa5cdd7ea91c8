"""What holds for every page; what each of them shows is tested in a file of its own."""

import pytest

from syncwall.web.application import PAGES, address
from tests.web.browser.conftest import axe, fits

QUERY = "?model=llama-3.1-8b&cluster=dgx-h100&nodes=2&layout.shard=fsdp&layout.global_batch=64"


@pytest.mark.parametrize("narrow", [False, True], ids=["1440 px", "390 px"])
@pytest.mark.parametrize("name", list(PAGES))
def test_light_and_dark_it_fits_and_can_be_used_by_everybody(opened, name, narrow):
    page = opened(f"{address(name)}{QUERY}", dark=True, narrow=narrow)
    assert page.locator("h1").count() == 1
    assert page.locator("nav [aria-current=page]").inner_text() == PAGES[name]
    assert page.title() == f"{PAGES[name]} · syncwall"
    fits(page)
    axe(page)
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(300)
    fits(page)
    axe(page)


def test_the_run_goes_along_from_page_to_page(opened):
    page = opened(f"/{QUERY}")
    for name in ("wall", "fabric", "plan"):
        page.locator(f"nav a[data-page={name}]").click()
        page.wait_for_load_state("networkidle")
        assert "model=llama-3.1-8b" in page.url
        assert page.locator("[name=nodes]").input_value() == "2"


@pytest.mark.parametrize("name", ["wall", "accuracy"])
def test_a_first_visit_loads_less_than_a_megabyte_and_a_half(served, chromium, name):
    """Everything, charts and answers as well, as it comes over the wire; a second loads less."""
    context = chromium.new_context()
    page = context.new_page()
    wire = context.new_cdp_session(page)
    sizes = []
    wire.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    wire.send("Network.enable")
    page.goto(f"{served}/{name}{QUERY}&wall.most=1024")
    page.wait_for_selector(".main-svg", timeout=60_000)
    first = sum(sizes)
    assert 300_000 < first < 1_500_000
    sizes.clear()
    page.reload()
    page.wait_for_selector(".main-svg", timeout=60_000)
    assert sum(sizes) < 0.3 * first
    context.close()


@pytest.mark.parametrize("name", ["fabric", "step", "wall", "job", "accuracy"])
def test_every_answer_can_be_taken_as_files(opened, name):
    page = opened(f"/{name}{QUERY}")
    page.wait_for_selector("#answer:not(.stale), #found:not([hidden])")
    for button, kind in (("CSV", ".csv"), ("JSON", ".json"), ("SVG", ".svg")):
        with page.expect_download() as waited:
            page.locator("#exports").get_by_role("button", name=button).click()
        assert waited.value.suggested_filename == f"{name}{kind}"
        text = waited.value.path().read_text()
        assert len(text) > 50
        assert text.startswith("<svg") == (kind == ".svg")


def test_colours_can_be_chosen_and_are_kept(opened):
    page = opened("/api")
    for said in ("Colours: light", "Colours: dark"):
        page.locator("#theme").click()
        assert page.locator("#theme").get_attribute("aria-label") == said
    page.reload()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(20, 22, 26)"
