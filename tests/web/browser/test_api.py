"""The API page: every route, and a command that works."""

import json
import subprocess
import urllib.request

import pytest

from tests.web.browser.conftest import axe, fits, until


def test_every_route_is_listed(opened, served):
    page = opened("/api")
    page.wait_for_selector("[data-route]")
    with urllib.request.urlopen(f"{served}/api/openapi.json") as sent:
        paths = json.load(sent)["paths"]
    routes = {f"{method} {path}" for path, methods in paths.items() for method in methods}
    shown = {one.get_attribute("data-route") for one in page.locator("[data-route]").all()}
    assert shown == routes
    page.locator("[data-route='post /api/plan'] > summary").press("Enter")
    until(page, "location.search.includes('api.route=post-api-plan')")
    text = page.locator("[data-route='post /api/plan']").inner_text()
    assert "within_s" in text
    assert "≤ 50" in text
    axe(page)


@pytest.mark.parametrize(
    "route", ["post /api/predict", "get /api/catalogue/{kind}/{name}", "post /api/compare"]
)
def test_its_command_works(opened, route):
    page = opened("/api?model=llama-3.1-8b&cluster=dgx-h100&nodes=2&layout.global_batch=64")
    page.wait_for_selector("[data-route]")
    command = page.locator(f"[data-route='{route}'] pre").text_content()
    assert "llama-3.1-8b" in command or route.startswith("get")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert "problems" not in json.loads(done.stdout)


def test_it_fits_a_phone(opened):
    page = opened("/api?api.route=post-api-job", narrow=True, dark=True)
    page.wait_for_selector("[data-route]")
    fits(page)
    axe(page)
