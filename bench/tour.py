"""The tour of the README, a silent film of the pages: `python -m bench.tour`.

Starts `syncwall serve`, looks at what a reader would look at, and writes docs/images/tour.gif. Few
colours and few frames, so that it stays under 1.5 MB; it is no part of the package.
"""

import io
import shutil
from collections.abc import Iterator
from typing import Any, Final

from bench.screenshots import IMAGES, MORE, RUN
from bench.serve_load import serving

TOUR: Final = IMAGES / "tour.gif"
SIZE: Final = (1200, 750)
DRAWN: Final = (960, 600)
COLOURS: Final = 64
MOST_BYTES: Final = 1_500_000


def main() -> None:
    from PIL import Image

    frames, seconds = [], []
    for shot, lasting_s in _shots():
        picture = (
            Image.open(io.BytesIO(shot)).convert("RGB").resize(DRAWN, Image.Resampling.LANCZOS)
        )
        frames.append(picture.quantize(COLOURS, dither=Image.Dither.NONE))
        seconds.append(lasting_s)
    durations = [round(1000 * one) for one in seconds]
    frames[0].save(
        TOUR, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True
    )
    size = TOUR.stat().st_size
    print(f"{len(frames)} frames, {sum(seconds):.0f} s, {size / 1e6:.2f} MB")
    assert size < MOST_BYTES, "too large for a README: fewer frames, or colours"


def _shots() -> Iterator[tuple[bytes, float]]:
    """Pictures of the window, each with how long it is looked at."""
    from playwright.sync_api import sync_playwright

    with serving() as (_, port), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        width, height = SIZE
        page = browser.new_page(
            viewport={"width": width, "height": height}, reduced_motion="reduce"
        )
        page.set_default_timeout(60_000)
        yield from _walk(page, f"http://127.0.0.1:{port}")
        browser.close()


def _walk(page: Any, served: str) -> Iterator[tuple[bytes, float]]:
    """Predict, what to change, the wall, a step with a slow worker, a broken fabric, a job."""
    page.goto(f"{served}/?{RUN}")
    page.wait_for_selector("[data-tile=step]")
    page.wait_for_selector("#next button")
    page.wait_for_timeout(800)
    yield page.screenshot(), 3.0
    page.locator("#next button").first.click()
    yield _settled(page, "#answer:not(.stale)"), 2.5
    page.goto(f"{served}/wall?{RUN}")
    yield _settled(page, "#curve .main-svg"), 3.0
    for moment in (0.04, 0.12, 0.22, 0.3, 0.4):
        page.goto(f"{served}/step?{MORE['step'].replace('step.at=0.25', f'step.at={moment}')}")
        yield _settled(page, "#scene svg"), 0.9
    page.goto(f"{served}/fabric?{RUN}")
    yield _settled(page, "#drawing svg"), 2.0
    page.locator("#each button").first.click()
    page.wait_for_selector("#broken button")
    page.evaluate("scrollTo(0, 0)")
    yield _settled(page, "#answer:not(.stale)"), 2.0
    page.goto(f"{served}/job?{MORE['job']}&chance.by=600+days")
    yield _settled(page, "#finish .main-svg"), 3.0
    page.goto(f"{served}/accuracy")
    yield _settled(page, "#scatter .points"), 3.0


def _settled(page: Any, shown: str) -> bytes:
    page.wait_for_selector(shown)
    page.wait_for_timeout(1000)
    picture: bytes = page.screenshot()
    return picture


if __name__ == "__main__":
    main()
