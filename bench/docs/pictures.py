"""Pictures of the served pages in Chromium, a silent film of them, and what they weigh."""

import io
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bench import ROOT, Names
from bench.scale.serve import cpu_s, serving
from syncwall.web.application import PAGES, address

IMAGES: Final = ROOT / "docs" / "images"
EXAMPLES: Final = ROOT / "examples"
RUN: Final = (
    "model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp&layout.global_batch=1024"
)
MORE: Final = {
    "step": "layout.tp=1&layout.shard=ddp&model=gpt3-1.3b&cluster=dgx-a100&nodes=8"
    "&layout.global_batch=256&layout.micro_batch=2&step.slow=1.6&step.at=0.25",
    "fabric": f"{RUN}&fabric.order=crossed",
    "job": f"{RUN}&job.tokens=15T",
    "wall": f"{RUN}&wall.with=cluster:dgx-b200",
    "catalogue": "catalogue.kind=device&catalogue.name=h100-sxm",
}
FILES: Final = {
    "program": ("#file", [EXAMPLES / "capture" / "hybrid.work.json.gz"]),
    "explain": ("#files", sorted((EXAMPLES / "explain" / "traces").glob("*.json"))),
}
"""What pages that read files are given, and where."""
TALLEST: Final = 2400
TOUR: Final = IMAGES / "tour.gif"
PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
VISITS: Final = 5


@contextmanager
def browsing() -> Iterator[tuple[Any, str, int]]:
    """Chromium, the address of a server of its own, and the process of that."""
    from playwright.sync_api import sync_playwright

    with serving() as (pid, port), sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser, f"http://127.0.0.1:{port}", pid
        browser.close()


def screenshots(pages: Names = ()) -> None:
    """Pictures of every served page, or of those named: docs/images/serve-PAGE[-phone].png.

    Each at 1440 px (light) and at 390 px (dark), with few colours so that they are small.
    """
    from PIL import Image

    IMAGES.mkdir(exist_ok=True)
    with browsing() as (browser, served, _):
        for name in pages or PAGES:
            for width, suffix, scheme in ((1440, "", "light"), (390, "-phone", "dark")):
                size = {"width": width, "height": 900}
                page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
                page.goto(f"{served}{address(name)}?{MORE.get(name, RUN)}")
                page.wait_for_load_state("networkidle")
                if name in FILES:
                    field, files = FILES[name]
                    page.locator(field).set_input_files(files)
                    for button in page.locator("button[type=submit]").all():
                        button.click()
                    page.wait_for_selector("article svg")
                if name == "plan":
                    page.get_by_role("button", name="Search").click()
                    page.wait_for_selector("table tbody tr", timeout=120_000)
                page.wait_for_timeout(1200)
                path = IMAGES / f"serve-{name}{suffix}.png"
                picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
                few = picture.crop((0, 0, picture.width, min(picture.height, TALLEST)))
                few = few.convert("RGB").quantize(96, dither=Image.Dither.NONE)
                few.save(path, optimize=True)
                print(f"{name}{suffix}: {path.stat().st_size / 1000:.0f} kB")
                page.close()


def tour() -> None:
    """The tour of the README, a silent film of the pages: docs/images/tour.gif, below 1.5 MB."""
    from PIL import Image

    frames, seconds = [], []
    with browsing() as (browser, served, _):
        size = {"width": 1200, "height": 750}
        page = browser.new_page(viewport=size, reduced_motion="reduce")
        page.set_default_timeout(60_000)
        for shot, lasting_s in _walk(page, served):
            picture = Image.open(io.BytesIO(shot)).convert("RGB")
            picture = picture.resize((960, 600), Image.Resampling.LANCZOS)
            frames.append(picture.quantize(64, dither=Image.Dither.NONE))
            seconds.append(lasting_s)
    film = {"append_images": frames[1:], "duration": [round(1000 * one) for one in seconds]}
    frames[0].save(TOUR, save_all=True, loop=0, optimize=True, **film)
    written = TOUR.stat().st_size
    print(f"{len(frames)} frames, {sum(seconds):.0f} s, {written / 1e6:.2f} MB")
    assert written < 1_500_000, "too large for a README: fewer frames, or colours"


def _walk(page: Any, served: str) -> Iterator[tuple[bytes, float]]:
    """Predict, what to change, the wall, a step with a slow worker, a broken fabric, a job."""

    def settled(shown: str) -> bytes:
        page.wait_for_selector(shown)
        page.wait_for_timeout(1000)
        picture: bytes = page.screenshot()
        return picture

    page.goto(f"{served}/?{RUN}")
    page.wait_for_selector("[data-tile=step]")
    yield settled("#next button"), 3.0
    page.locator("#next button").first.click()
    yield settled("#answer:not(.stale)"), 2.5
    page.goto(f"{served}/wall?{RUN}")
    yield settled("#curve .main-svg"), 3.0
    for moment in (0.04, 0.12, 0.22, 0.3, 0.4):
        page.goto(f"{served}/step?{MORE['step'].replace('step.at=0.25', f'step.at={moment}')}")
        yield settled("#scene svg"), 0.9
    page.goto(f"{served}/fabric?{RUN}")
    yield settled("#drawing svg"), 2.0
    page.locator("#each button").first.click()
    page.wait_for_selector("#broken button")
    page.evaluate("scrollTo(0, 0)")
    yield settled("#answer:not(.stale)"), 2.0
    page.goto(f"{served}/job?{MORE['job']}&chance.by=600+days")
    yield settled("#finish .main-svg"), 3.0
    page.goto(f"{served}/accuracy")
    yield settled("#scatter .points"), 3.0


def weight(pages: Names = ()) -> None:
    """What pages weigh and how soon they show something, in a real browser.

    For each page: bytes over the wire of a first visit until nothing is loaded any more (as the
    browser counted them, with headers), and the first contentful paint of a second visit; at last
    the CPU seconds that the server took to start, its processes included.
    """
    with browsing() as (browser, served, pid):
        time.sleep(2)  # until the processes that answer have loaded what they need
        start_s = cpu_s(pid)
        for name in pages or PAGES:
            where = f"{served}{address(name)}?{MORE.get(name, RUN)}"
            weight_bytes, paint_ms = _visited(browser, where)
            print(f"{name:10} {weight_bytes / 1e3:8,.0f} kB {paint_ms:6,.0f} ms", flush=True)
    print(f"server start {start_s:.2f} s of CPU")


def _visited(browser: Any, where: str) -> tuple[float, float]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    wire = context.new_cdp_session(page)
    sizes: list[float] = []
    wire.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    wire.send("Network.enable")
    page.goto(where)
    for _ in range(2):  # charts are loaded once there is an answer to draw
        page.wait_for_load_state("networkidle", timeout=120_000)
        page.wait_for_timeout(2000)
    weight_bytes, paints = sum(sizes), []
    for _ in range(VISITS):
        page.goto(where)
        page.wait_for_timeout(400)
        paints.append(page.evaluate(PAINT))
    context.close()
    return weight_bytes, sorted(paints)[VISITS // 2]
