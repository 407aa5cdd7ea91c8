"""The timeline in a real browser: it says what Python says, and hands can move it."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from syncwall.web.answers.prediction import timeline
from syncwall.web.questions import AskedRun
from tests.web.browser.conftest import axe, fits, until
from tests.web.conftest import RUN

QUERY = (
    "/?model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp&layout.global_batch=1024"
)
CANVAS = ".timeline canvas[data-tops]"


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


def layer(answer: dict[str, Any]) -> tuple[float, float]:
    """When the layer in the middle of the forward pass is computed."""
    rows = zip(answer["op"], answer["layer"], answer["start"], answer["duration"], strict=True)
    found: dict[int, list[float]] = {}
    for op, number, start, duration in rows:
        one = answer["operations"][op]
        if (one["stream"], one["phase"], one["block"]) == ("compute", "forward", "dense layer"):
            found.setdefault(number, []).extend((start / 1e7, (start + duration) / 1e7))
    times = found[len(found) // 2 + 1]
    return min(times), max(times)


@pytest.mark.parametrize("narrow", [False, True])
def test_it_opens_at_one_layer_with_the_whole_below(opened, answer, narrow):
    page = opened(QUERY, narrow=narrow)
    start, end = layer(answer)
    shown = window(page)
    margin = 0.05 * (end - start)
    assert start - margin <= shown[0] <= start < end <= shown[1] <= end + margin
    assert "timeline." not in page.url
    small = page.locator(".timeline-map")
    small.scroll_into_view_if_needed()
    frame = small.evaluate("one => ({...one.dataset})")
    scale = answer["end_s"] / float(frame["width"])
    assert float(frame["from"]) * scale == pytest.approx(shown[0], rel=0.01)
    assert float(frame["to"]) * scale == pytest.approx(shown[1], abs=4 * scale)
    assert _colours(page) > 3  # something is drawn in it
    box = small.bounding_box()
    left = box["width"] - float(frame["width"])
    page.mouse.click(box["x"] + left + 0.75 * float(frame["width"]), box["y"] + 8)
    moved = window(page)
    assert sum(moved) / 2 == pytest.approx(0.75 * answer["end_s"], rel=0.02)
    assert moved[1] - moved[0] == pytest.approx(shown[1] - shown[0], abs=1e-7)  # one tick
    page.get_by_role("button", name="Show the whole micro batch").click()
    assert window(page) == pytest.approx((0, answer["end_s"]), abs=1e-6)
    until(page, "location.search.includes('timeline.from=0')")
    page.get_by_role("button", name="Show one layer").click()
    assert window(page) == pytest.approx(shown)


def _colours(page: Any) -> int:
    """Different colours in the small picture."""
    return int(
        page.locator(".timeline-map").evaluate(
            """one => { const data = new Uint32Array(
        one.getContext("2d").getImageData(0, 0, one.width, one.height).data.buffer);
        return new Set(data).size; }"""
        )
    )


def test_the_window_is_in_the_address_and_asks_nothing_again(opened, answer):
    page = opened(QUERY)
    page.get_by_role("button", name="Show the whole micro batch").click()
    whole = window(page)
    assert whole == pytest.approx((0, answer["end_s"]), abs=1e-6)
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
    begin = "Number(new URLSearchParams(location.search).get('timeline.from'))"
    until(page, f"Math.abs({begin} - {moved[0]}) < 1e-6")
    assert not asked
    again = opened(f"/?{urlsplit(page.url).query}")
    assert window(again) == pytest.approx(window(page), abs=1e-6)
    again.get_by_role("button", name="Show one layer").click()
    until(again, "!location.search.includes('timeline.')")


def test_the_keyboard_reaches_everything(opened):
    page = opened(QUERY)
    page.locator(CANVAS).focus()
    page.keyboard.press("Home")
    whole = window(page)
    assert whole[0] == 0
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
    shown = window(page)
    page.mouse.click(*point(page, "compute", sum(shown) / 2))
    assert page.locator(".timeline-line").inner_text()
    page.get_by_role("button", name="Zoom in").click()
    assert window(page)[0] > shown[0]


def test_too_many_layers_are_refused_kindly(opened):
    model = json.dumps({"base": "llama-3.1-8b", "layers": 100000})
    page = opened(f"/?model={model}&cluster=dgx-h100")
    assert "too many to draw" in page.locator("#timeline").inner_text()
