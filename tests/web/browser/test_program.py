"""The page for recorded programs: a file is chosen, or dropped, and priced."""

from pathlib import Path

from tests.web.browser.conftest import axe, fits, until

PROGRAM = Path(__file__).parents[3] / "examples" / "capture" / "hybrid.work.json.gz"


def test_a_file_becomes_an_article(opened):
    page = opened("/program")
    until(page, "document.getElementById('cluster').options.length > 3")
    page.locator("#file").set_input_files(PROGRAM)
    page.wait_for_selector(".finding svg")
    text = page.locator(".finding").inner_text()
    assert "comms is a bottleneck" in text
    assert "blocks.*.qkv" in text
    axe(page)
    page.locator("#cluster").select_option("dgx-b200")
    until(page, "document.querySelector('.finding').innerText.includes('B200')")
    assert "--cluster dgx-b200" in page.locator(".command").inner_text()


def test_another_file_is_refused_in_words(opened):
    page = opened("/program", narrow=True, dark=True)
    page.locator("#file").set_input_files(
        {"name": "a.gz", "mimeType": "application/gzip", "buffer": b"no program"}
    )
    until(page, "document.getElementById('said').textContent.includes('a.gz')")
    fits(page)
    axe(page)
