"""What pages weigh and how soon they show something: `python -m bench.page_weight [PAGE ...]`.

A real server and Chromium. For each page: bytes over the wire of a first visit until nothing is
loaded any more (as the browser counted them, with headers), and the first contentful paint of a
second visit; at last the CPU seconds that the server took to start, its processes included.
"""

import shutil
import sys
import time
from typing import Any

from bench.screenshots import MORE, RUN
from bench.serve_load import cpu_s, serving
from syncwall.web.application import PAGES, address

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
VISITS = 5
"""Second visits, of which the middle one counts."""


def main() -> None:
    from playwright.sync_api import sync_playwright

    wanted = sys.argv[1:] or list(PAGES)
    with serving() as (pid, port):
        time.sleep(2)  # until the processes that answer have loaded what they need
        start_s = cpu_s(pid)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for name in wanted:
                where = f"http://127.0.0.1:{port}{address(name)}?{MORE.get(name, RUN)}"
                weight_bytes, paint_ms = _visited(browser, where)
                print(f"{name:10} {weight_bytes / 1e3:8,.0f} kB {paint_ms:6,.0f} ms", flush=True)
    print(f"server start {start_s:.2f} s of CPU")


def _visited(browser: Any, where: str) -> tuple[float, float]:
    """Bytes of a first visit, and milliseconds to the first paint of the next ones."""
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
    weight_bytes = sum(sizes)
    paints = []
    for _ in range(VISITS):
        page.goto(where)
        page.wait_for_timeout(400)
        paints.append(page.evaluate(PAINT))
    context.close()
    return weight_bytes, sorted(paints)[VISITS // 2]


if __name__ == "__main__":
    main()
