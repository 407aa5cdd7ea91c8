"""The main path in Firefox, beside Chromium, which looks at everything else."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest

from syncwall.show.numbers import duration
from syncwall.web.application import PAGES, address
from tests.conftest import sampled
from tests.web.browser.firefox import ENTER, PROGRAM, Firefox, firefox
from tests.web.test_predict import HF_CONFIG

STEP = "document.querySelector('#answer:not(.stale) [data-tile=step]')?.dataset.value"
QUERY = "?model=llama-3.1-8b&cluster=dgx-h100&nodes=2&layout.shard=fsdp&layout.global_batch=64"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    if PROGRAM is None:
        pytest.skip("no Firefox: apt-get install firefox-esr")
    with firefox(tmp_path_factory.mktemp("firefox")) as browser:
        yield browser


def query(page: Firefox) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page.run("return location.href")).query))


def settled(page: Firefox, key: str, value: str) -> float:
    """The step of the page once its address says this and its numbers belong to it."""
    page.until(f"new URLSearchParams(location.search).get({json.dumps(key)}) === {json.dumps(value)}")
    page.run("return new Promise((done) => setTimeout(done, 200))")  # numbers begin to lag
    return float(page.until(STEP))


def test_my_own_config_and_cluster_a_proposal_and_the_plan(served: str, page: Firefox) -> None:
    page.open(served)
    page.click("#door button:enabled", "Paste mine")
    page.type("#paste textarea", json.dumps(HF_CONFIG))
    page.click("#paste button", "Use it")
    page.until("location.search.includes('model=%7B')")
    page.clear("#run input[name=cluster]")
    page.type("#run input[name=cluster]", f"dgx-b200{ENTER}")
    before_s = settled(page, "cluster", "dgx-b200")
    asked = query(page)
    assert json.loads(asked["model"])["layers"] == HF_CONFIG["num_hidden_layers"]
    shown = page.run("return document.querySelector('[data-tile=step]').textContent")
    assert duration(before_s) in shown

    page.click("#next:not(.stale) .proposals button")
    page.until(f"Number({STEP}) < {before_s!r}")
    page.click("nav a[data-page=plan]")
    page.until("document.querySelector('#go')?.textContent === 'Search'")
    assert query(page)["cluster"] == "dgx-b200"
    assert query(page)["model"] == asked["model"]
    assert not page.errors(served)


@pytest.mark.parametrize("name", sampled(PAGES, 3))
def test_every_page_opens_without_an_error_and_fits(served: str, page: Firefox, name: str) -> None:
    page.errors(served)
    for width in (1440, 500):  # the narrowest window that Firefox makes
        page.open(f"{served}{address(name)}{QUERY}", width=width)
        page.until("document.readyState === 'complete' && document.querySelector('h1')?.textContent")
        page.until("performance.now() > 500 && !document.querySelector('.stale')")
        if page.run("return document.querySelector('script[src*=plotly]')"):
            page.until("document.querySelector('.main-svg')")  # one that is left would fail
        page.until("document.documentElement.scrollWidth <= innerWidth")
        assert page.run("return document.title") == f"{PAGES[name]} · syncwall"
    assert not page.errors(served)


def test_an_error_of_a_script_is_seen(served: str, page: Firefox) -> None:
    """Or else the tests above could not fail."""
    page.open(f"{served}/api")
    page.errors(served)
    page.run("document.body.addEventListener('click', () => { throw new Error('seen') })")
    page.run("setTimeout(() => document.body.click())")
    page.run("return new Promise((done) => setTimeout(done, 200))")
    assert any("seen" in error for error in page.errors(""))
