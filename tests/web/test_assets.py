"""What browsers load: compressed, and kept as long as it does not change."""

import re

import pytest

from syncwall.web.application import PAGES, address
from syncwall.web.assets import assets, digest


def test_whatever_a_page_names_is_kept_for_good(client):
    for name in PAGES:
        text = client.get(address(name)).text
        linked = re.findall(r'(?:href|src)="\./(static/[^"]+)"', text)
        assert len(linked) >= 7
        for path in linked:
            said = client.get(f"/{path}")
            assert said.status_code == 200, path
            assert "immutable" in said.headers["cache-control"], path


@pytest.mark.parametrize("path", ["/", "/static/app.css", "/static/plotly.js"])
def test_what_a_browser_has_is_not_sent_again(client, path):
    first = client.get(path)
    assert first.headers["cache-control"] == "no-cache"
    again = client.get(path, headers={"if-none-match": f"W/{first.headers['etag']}"})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("coding", ["gzip", "br"])
@pytest.mark.parametrize("name", ["run_form.js", "colours.css", "plotly.js", "term_list.js"])
def test_compressed_or_not_it_is_the_same(client, name, coding):
    path = f"/static/{digest()}/{name}"
    read = {"gzip": "gzip, deflate", "br": "gzip, deflate, br;q=1.0, zstd"}[coding]
    small = client.get(path, headers={"accept-encoding": read})
    plain = client.get(path, headers={"accept-encoding": "identity"})
    assert small.headers["content-encoding"] == coding
    assert "content-encoding" not in plain.headers
    assert small.content == plain.content
    assert int(small.headers["content-length"]) < 0.6 * int(plain.headers["content-length"])


def test_a_page_opened_before_an_upgrade_still_gets_its_scripts(client):
    said = client.get("/static/0123456789ab/chart.js")
    assert said.status_code == 200
    assert said.headers["cache-control"] == "no-cache"


def test_the_digest_changes_with_any_asset(monkeypatch):
    before = digest()
    changed = assets() | {"app.css": assets()["dom.js"]}
    monkeypatch.setattr("syncwall.web.assets.assets", lambda: changed)
    assert digest.__wrapped__() != before


def test_everything_for_one_page_weighs_less_than_a_megabyte_and_a_half():
    assert sum(len(one.br) for one in assets().values()) < 1_500_000


def test_browsers_take_scripts_and_rules_for_what_they_are():
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for name, one in assets().items():
        assert one.kind == kinds[name[name.rindex(".") :]], name
