"""All pages under a path, as a proxy serves them to a team."""

from urllib.parse import urlsplit

from syncwall.web.application import PAGES

from .conftest import serving

ROOT = "/team/sync"


def test_every_page_works_under_a_path(chromium):
    """Whatever a page asks for or leads to stays under the path."""
    asked, statuses, wrong = set(), set(), []
    with serving("--root-path", ROOT) as served:
        page = chromium.new_page()
        page.set_default_timeout(15_000)
        page.on("request", lambda request: asked.add(urlsplit(request.url).path))
        page.on("response", lambda one: statuses.add(one.status))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(served)
        for name in PAGES:
            page.click(f"nav [data-page={name}]")
            page.wait_for_load_state("networkidle")
            assert page.title().startswith(PAGES[name])
            links = page.eval_on_selector_all("a[href]", "all => all.map((one) => one.href)")
            own = [link for link in links if link.startswith(served.removesuffix(ROOT))]
            assert all(urlsplit(link).path.startswith(f"{ROOT}/") for link in own)
        assert served in page.text_content("#routes pre >> nth=0")
        page.close()
    assert (wrong, max(statuses) < 400) == ([], True)
    assert asked - {ROOT} == {path for path in asked if path.startswith(f"{ROOT}/")}
    assert f"{ROOT}/api/predict" in asked
    assert any(path.endswith("/plotly.js") for path in asked)
