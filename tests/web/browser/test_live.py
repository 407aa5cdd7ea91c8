"""The Live page: a watched run, drawn anew while it goes on."""

from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from syncwall.watch.events import to_json
from syncwall.watch.job_state import Writer
from syncwall.watch.summary import SNAPSHOT, SnapshotFile
from tests.watch import lives
from tests.web.browser.conftest import axe, fits, until


@pytest.fixture
def home():
    """A folder of a watched run."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("there is no /dev/shm")
    made = memory / "syncwall-test-of-the-live-page"
    made.mkdir(exist_ok=True)
    yield made
    for path in made.iterdir():
        path.unlink()
    made.rmdir()


@pytest.fixture
def recent(home):
    """A run that is watched now, by a thread of this process."""
    found, over = lives.recent(), Event()
    file = SnapshotFile(found, home)

    def agent():
        while not over.wait(0.2):
            assert found.live is not None
            file.round(found.live)

    thread = Thread(target=agent)
    thread.start()
    yield found
    over.set()
    thread.join()


@pytest.mark.parametrize(("dark", "narrow"), [(False, False), (True, True)])
def test_a_run_is_shown_and_goes_on(opened, recent, dark, narrow):
    page = opened("/live", dark=dark, narrow=narrow)
    shown = page.locator("[data-run='syncwall-test-of-the-live-page']")
    shown.wait_for()
    assert "The job stands still" in shown.inner_text()
    assert shown.locator("svg").count() == 3
    fits(page)
    axe(page)
    recent.round(lives.live(4))
    until(
        page,
        "document.querySelector('[data-run=syncwall-test-of-the-live-page]')"
        ".textContent.includes('Nothing is wrong')",
    )


def test_a_run_whose_agent_says_nothing_is_not_shown_as_running(opened, home):
    recent = lives.recent()
    recent.round(lives.live(4))
    found, now = recent.snapshot(), Writer.now()
    assert found is not None
    old = replace(found, writer=replace(now, at_s=now.at_s - 75), name="train.py --lr 1")
    (home / SNAPSHOT).write_bytes(to_json(old))
    page = opened("/live")
    shown = page.locator("[data-run='syncwall-test-of-the-live-page']")
    shown.wait_for()
    text = shown.inner_text()
    assert "Live: train.py --lr 1" in text
    assert "says nothing, as if stopped; it was last seen in step 50, 7" in text
    assert "running" not in text
    assert "Nothing is wrong" not in text
    page.route("**/api/live", lambda one: one.fulfill(status=422, json={"problems": []}))
    until(page, "!document.querySelector('[data-run]')")
