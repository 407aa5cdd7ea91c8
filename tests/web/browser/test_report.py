"""The written page of a run: opened from the disk, without a network, and printed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from syncwall.cli import main
from tests.web.browser.conftest import NARROW, WIDE, axe, fits

ROOT = Path(__file__).parents[3]
A4 = {"width": 680, "height": 1000}
"""What is left of a sheet between its margins, in CSS pixels."""


@pytest.fixture(scope="module", params=["llama-70b-on-dgx-h100.yaml", "jobs/llama-3-405b.yaml"])
def report(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["report", str(ROOT / "examples" / request.param), "--html", str(path)]) == 0
    return path


@pytest.fixture
def seen(chromium, report):
    """A context of the browser that lists what is asked and what goes wrong."""
    asked, wrong, contexts = [], [], []

    def seen(viewport, dark=False):
        theme = "dark" if dark else "light"
        context = chromium.new_context(viewport=viewport, color_scheme=theme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(report.as_uri())
        return page

    yield seen
    for context in contexts:
        context.close()
    assert set(asked) == {report.as_uri()}
    assert not wrong


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_from_the_disk_and_everybody_can_read_it(seen, report, viewport, dark):
    page = seen(viewport, dark)
    assert page.locator("h1").count() == 1
    assert page.locator("figure svg[role=img]").count() >= 5
    fits(page)
    axe(page)
    assert report.stat().st_size < 6e6


def test_printed_it_has_all_text_and_no_figure_is_cut(seen, tmp_path):
    page = seen(A4, dark=True)
    page.emulate_media(media="print")
    fits(page)
    assert page.evaluate(
        """() => [...document.querySelectorAll("svg, table, pre")].every((one) => {
             const { left, right } = one.getBoundingClientRect();
             return left >= 0 && right <= innerWidth + 1 && one.scrollWidth <= one.clientWidth + 1;
           })"""
    )
    white = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert white == "rgb(255, 255, 255)"  # ink is dark on paper, whatever the screen is
    path = tmp_path / "report.pdf"
    page.pdf(path=path, format="A4", print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", path.read_bytes())) >= 2
    if shutil.which("pdftotext"):
        said = subprocess.run(["pdftotext", path, "-"], capture_output=True, text=True, check=True)
        words = " ".join(said.stdout.split())
        for text in page.locator("h1, h2, h3, p, figcaption").all_inner_texts():
            assert " ".join(text.split())[:40] in words


def test_the_predict_page_gives_the_report_of_its_run(opened, tmp_path):
    page = opened("/?model=llama-3.1-8b&cluster=dgx-h100&nodes=4&layout.shard=fsdp")
    page.wait_for_selector("#tiles .tile")
    with page.expect_download() as download:
        page.click("[data-export=html]")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    text = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    assert "<h1>Llama 3.1 8B on 32 × NVIDIA H100 SXM5 80 GB</h1>" in text
