"""The Live page: a watched run, drawn anew while it goes on."""

import time
from pathlib import Path

import pytest

from syncwall.watch.summary import SnapshotFile
from tests.watch import lives
from tests.web.browser.conftest import axe, fits, until


@pytest.fixture
def run(monkeypatch):
    """A run that is watched now."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("there is no /dev/shm")
    home = memory / "syncwall-test-of-the-live-page"
    home.mkdir(exist_ok=True)
    monkeypatch.setattr(lives, "NOW_S", time.time() - 5)
    recent = lives.recent()
    assert recent.live is not None
    yield SnapshotFile(recent, home), recent
    for path in home.iterdir():
        path.unlink()
    home.rmdir()


@pytest.mark.parametrize(("dark", "narrow"), [(False, False), (True, True)])
def test_a_run_is_shown_and_goes_on(opened, run, dark, narrow):
    file, recent = run
    file.round(recent.live)
    page = opened("/live", dark=dark, narrow=narrow)
    shown = page.locator("[data-run='syncwall-test-of-the-live-page']")
    shown.wait_for()
    assert "The job stands still" in shown.inner_text()
    assert shown.locator("svg").count() == 3
    fits(page)
    axe(page)
    recent.round(lives.live(4))
    page.wait_for_timeout(1000)  # it is written once a second
    file.round(recent.live)
    until(
        page,
        "document.querySelector('[data-run=syncwall-test-of-the-live-page]')"
        ".textContent.includes('Nothing is wrong')",
    )
