"""A real server, and a real browser that looks at it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'syncwall[web]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

WIDE = {"width": 1440, "height": 900}
PATIENCE_S = 45.0
"""How long to wait for a page: no bound of its speed, which tests that run alone measure."""
NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """The address of a `syncwall serve` of its own."""
    with serving() as address:
        yield address


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """`syncwall serve` with these flags; its address."""
    command = [sys.executable, "-m", "syncwall", "serve", "--port", "0", *flags]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            yield said.split(" at ")[1].split()[0].rstrip("/")
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser for one file of tests: while it lives, nothing else can run an event loop."""
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(served: str, chromium: Any) -> Iterator[Callable[..., Any]]:
    """`opened("/wall?nodes=8", narrow=True, dark=True)`: a page that tolerates no error."""
    wrong: list[str] = []
    contexts = []

    def opened(path: str, *, narrow: bool = False, dark: bool = False, calm: bool = True) -> Any:
        context = chromium.new_context(
            viewport=NARROW if narrow else WIDE,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if calm else "no-preference",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE_S)
        page.on("console", lambda message: wrong.extend(_grave(message)))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.extend(_elsewhere(request.url, served)))
        page.goto(served + path)
        page.wait_for_load_state("networkidle")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong


def _grave(message: Any) -> list[str]:
    """Chromium writes an error for every refused request; our own refusals are meant."""
    meant = message.type not in ("error", "warning") or "status of 422" in message.text
    return [] if meant else [message.text]


def _elsewhere(url: str, served: str) -> list[str]:
    if url.startswith(("data:", "blob:")) or urlsplit(url).netloc == urlsplit(served).netloc:
        return []
    return [f"asked {url}"]


def axe(page: Any, *rules: str) -> None:
    """No serious or critical fault of accessibility, by all rules of axe-core or only by these."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": list(rules)} if rules else {}).response["violations"]
    grave = [
        f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes'][:4]]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert not grave, "\n".join(grave)


def fits(page: Any) -> None:
    """Nothing is wider than the window."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def until(page: Any, is_so: str, most_s: float = PATIENCE_S) -> None:
    """Wait for an expression to become true; the content policy lets the page itself not wait."""
    end = monotonic() + most_s
    while not page.evaluate(is_so):
        assert monotonic() < end, is_so
        page.wait_for_timeout(30)
