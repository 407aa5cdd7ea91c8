"""Pictures of every served page for the documentation: python -m bench.screenshots [PAGE ...].

Starts `syncwall serve`, opens each page at 1440 px (light) and at 390 px (dark) in Chromium, and
writes docs/images/serve-PAGE.png and serve-PAGE-phone.png, with few colours so that they are small.
"""

import io
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from bench.serve_load import serving
from syncwall.web.application import PAGES, address

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
RUN: Final = (
    "model=llama-3.1-70b&cluster=dgx-h100&nodes=64&layout.tp=8&layout.shard=fsdp"
    "&layout.global_batch=1024"
)
MORE: Final = {
    "step": "layout.tp=1&layout.shard=ddp&model=gpt3-1.3b&cluster=dgx-a100&nodes=8"
    "&layout.global_batch=256&layout.micro_batch=2&step.slow=1.6&step.at=0.25",
    "fabric": f"{RUN}&fabric.order=crossed",
    "job": f"{RUN}&job.tokens=15T",
    "wall": f"{RUN}&wall.with=cluster:dgx-b200",
    "catalogue": "catalogue.kind=device&catalogue.name=h100-sxm",
}
"""What an address says instead of `RUN`."""
EXAMPLES: Final = IMAGES.parents[1] / "examples"
FILES: Final = {
    "program": ("#file", [EXAMPLES / "capture" / "hybrid.work.json.gz"]),
    "explain": ("#files", sorted((EXAMPLES / "explain" / "traces").glob("*.json"))),
}
"""What pages that read files are given, and where."""
TALLEST: Final = 2400


def main() -> None:
    wanted = sys.argv[1:] or list(PAGES)
    with serving() as (_, port):
        _pictures(f"http://127.0.0.1:{port}", wanted)


def _give(page: Any, field: str, files: list[Path]) -> None:
    """Let the page read files, and wait for what it says of them."""
    page.locator(field).set_input_files(files)
    for button in page.locator("button[type=submit]").all():
        button.click()
    page.wait_for_selector("article svg")


def _pictures(served: str, wanted: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name in wanted:
            for width, suffix in ((1440, ""), (390, "-phone")):
                page = browser.new_page(
                    viewport={"width": width, "height": 900},
                    color_scheme="dark" if suffix else "light",
                    reduced_motion="reduce",
                )
                page.goto(f"{served}{address(name)}?{MORE.get(name, RUN)}")
                page.wait_for_load_state("networkidle")
                if name in FILES:
                    _give(page, *FILES[name])
                if name == "plan":
                    page.get_by_role("button", name="Search").click()
                    page.wait_for_selector("table tbody tr", timeout=120_000)
                page.wait_for_timeout(1200)
                written = _written(page, IMAGES / f"serve-{name}{suffix}.png")
                print(f"{name}{suffix}: {written / 1000:.0f} kB")
                page.close()
        browser.close()


def _written(page: Any, path: Path) -> int:
    from PIL import Image

    picture = Image.open(io.BytesIO(page.screenshot(full_page=True)))
    few = picture.crop((0, 0, picture.width, min(picture.height, TALLEST))).convert("RGB")
    few.quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)
    return path.stat().st_size


if __name__ == "__main__":
    main()
