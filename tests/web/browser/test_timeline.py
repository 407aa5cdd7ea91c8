"""The timeline in a real browser: it says what Python says, and hands can move it."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from syncwall.web.answers.timeline import timeline
from syncwall.web.asked import AskedRun
from tests.web.browser.conftest import axe, fits
from tests.web.conftest import RUN

QUERY = (
    "/?model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp"
    "&layout.global_batch=1024"
)
CANVAS = ".timeline canvas[data-to]"


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    return timeline(AskedRun(**RUN))


def window(page: Any) -> tuple[float, float]:
    page.wait_for_timeout(60)
    data = page.locator(CANVAS).evaluate("one => ({...one.dataset})")
    return float(data["from"]), float(data["to"])


def point(page: Any, stream: str, seconds: float) -> tuple[float, float]:
    """Where a moment of a stream stands in the window."""
    canvas = page.locator(CANVAS)
    canvas.scroll_into_view_if_needed()
    data = canvas.evaluate("one => ({...one.dataset})")
    box = canvas.bounding_box()
    start, end = float(data["from"]), float(data["to"])
    left = float(data["left"])
    share = (seconds - start) / (end - start)
    return (
        box["x"] + left + share * (box["width"] - left),
        box["y"] + json.loads(data["tops"])[stream] + 13,
    )


def longest(answer: dict[str, Any], name: str) -> tuple[dict[str, Any], float, float]:
    """The first interval of an operation, with start and end in seconds."""
    index = next(i for i, op in enumerate(answer["op"]) if answer["operations"][op]["name"] == name)
    start, duration = answer["start"][index], answer["duration"][index]
    return answer["operations"][answer["op"][index]], start / 1e7, (start + duration) / 1e7


def test_pointing_tells_what_python_says(opened, answer):
    operation, start, end = longest(answer, "logits")
    page = opened(f"{QUERY}&timeline.from={start - 0.01}&timeline.to={end + 0.01}")
    root = page.locator(".timeline")
    assert int(root.get_attribute("data-intervals")) == len(answer["op"])
    assert float(root.get_attribute("data-end")) == answer["end_s"]
    page.mouse.move(*point(page, "compute", (start + end) / 2))
    tip = page.locator(".tip").inner_text()
    assert tip.startswith("logits")
    assert operation["shape"] in tip
    assert answer["priced"][operation["priced"]]["formula"] in tip
    assert answer["priced"][operation["priced"]]["source"] in tip
    assert "TFLOP" in tip
    axe(page)
    fits(page)


def test_the_window_is_in_the_address_and_asks_nothing_again(opened):
    page = opened(QUERY)
    whole = window(page)
    asked: list[str] = []
    page.on("request", lambda one: asked.extend([one.url] * ("/api/" in one.url)))
    x, y = point(page, "compute", whole[1] / 2)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -600)
    zoomed = window(page)
    assert zoomed[1] - zoomed[0] < 0.5 * whole[1]
    page.mouse.down()
    page.mouse.move(x - 80, y, steps=4)
    page.mouse.up()
    moved = window(page)
    assert moved[0] > zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
    page.wait_for_timeout(500)
    said = parse_qs(urlsplit(page.url).query)
    assert float(said["timeline.from"][0]) == pytest.approx(moved[0], abs=1e-6)
    assert not asked
    again = opened(f"/?{urlsplit(page.url).query}")
    assert window(again) == pytest.approx(window(page), abs=1e-6)
    again.get_by_role("button", name="Show the whole micro batch").click()
    again.wait_for_timeout(500)
    assert "timeline." not in again.url


def test_the_keyboard_reaches_everything(opened):
    page = opened(QUERY)
    whole = window(page)
    page.locator(CANVAS).focus()
    line = page.locator(".timeline-line")
    page.keyboard.press("]")
    first = line.inner_text()
    page.keyboard.press("]")
    second = line.inner_text()
    assert first
    assert second not in ("", first)
    page.keyboard.press("[")
    assert line.inner_text() == first
    page.keyboard.press("Enter")
    near = window(page)
    assert near[1] - near[0] < 0.1 * whole[1]
    page.keyboard.press("-")
    assert window(page)[1] - window(page)[0] > near[1] - near[0]
    before = window(page)
    page.keyboard.press("ArrowRight")
    assert window(page)[0] > before[0]
    page.keyboard.press("ArrowDown")
    assert "communication" in line.inner_text()
    page.keyboard.press("Home")
    assert window(page) == whole
    page.keyboard.press("Escape")
    assert line.inner_text() == ""


def test_small_and_dark_it_can_be_tapped(opened):
    page = opened(QUERY, narrow=True, dark=True)
    fits(page)
    axe(page)
    assert page.locator(CANVAS).evaluate("one => getComputedStyle(one).touchAction") == "pan-y"
    page.mouse.click(*point(page, "compute", window(page)[1] / 2))
    assert page.locator(".timeline-line").inner_text()
    page.get_by_role("button", name="Zoom in").click()
    assert window(page)[0] > 0


def test_too_many_layers_are_refused_kindly(opened):
    model = json.dumps({"base": "llama-3.1-8b", "layers": 100000})
    page = opened(f"/?model={model}&cluster=dgx-h100")
    assert "too many to draw" in page.locator("#timeline").inner_text()
