"""The Findings page: recorded results as articles, and nothing else of the disk."""

import gzip
import json
from html import escape
from importlib.resources import files
from pathlib import Path

import pytest

from syncwall.problems import InputError
from syncwall.report import read_source
from syncwall.show.article import article
from syncwall.show.blocks import Figure, Table
from syncwall.show.write.whole_files import body
from syncwall.web.answers.catalogue import MOST_FILES, RECORDED, listed_findings, shown_finding

NAMES = ["four-workers", "slow-links"]


def test_what_comes_with_syncwall_is_found():
    found = listed_findings(())
    assert sorted(one["id"] for one in found["findings"]) == NAMES
    for one in found["findings"]:
        assert one["question"].endswith("?")
        assert len(one["says"]) == 2
        assert one["is_built_in"]
        assert one["load"] == "load was not recorded"


@pytest.mark.parametrize("name", NAMES)
def test_they_may_be_compressed_as_in_the_wheel(name, tmp_path: Path):
    assert RECORDED is not None
    for path in RECORDED.glob(f"{name}.*"):
        packed = path.suffix == ".json"
        whole = path.read_bytes()
        text = gzip.compress(whole) if packed else whole
        (tmp_path / (f"{path.name}.gz" if packed else path.name)).write_bytes(text)
    assert shown_finding((tmp_path,), f"{name}-2")["html"] == shown_finding((), name)["html"]


@pytest.mark.parametrize("name", NAMES)
def test_an_article_has_everything(name):
    assert RECORDED is not None
    path = RECORDED / f"{name}.json"
    made = article([read_source(path)], path.with_suffix(".notes.md").read_text())
    found = shown_finding((), name)
    assert found["title"] == made.title
    assert found["html"] == body(made)
    assert found["html"].startswith(f'<p class="lead">{found["says"][0]}</p>')
    for block in (*made.blocks, *made.details):
        if isinstance(block, Table):
            cells = (escape(cell) for row in block.rows for cell in row)
            assert all(f">{cell}</" in found["html"] for cell in cells)
        if isinstance(block, Figure):
            assert block.draw().markup() in found["html"]
    assert json.dumps(found)


def test_the_page_has_the_rules_of_the_drawings(client):
    said = client.get("/static/chart.css")
    theirs = files("syncwall.show.draw").joinpath("chart.css").read_text()
    assert said.headers["content-type"].startswith("text/css")
    assert said.text == f".finding {{\n{theirs[theirs.index('svg text') :]}}}\n"


def test_own_folders_are_shown_and_names_stay_apart(tmp_path: Path):
    assert RECORDED is not None
    text = (RECORDED / "slow-links.json").read_text()
    (tmp_path / "slow-links.json").write_text(text)
    (tmp_path / "settings.json").write_text('{"a": 1}')
    (tmp_path / "broken.json").write_text("{")
    found = listed_findings((tmp_path,))
    ids = {one["id"]: one["is_built_in"] for one in found["findings"]}
    assert ids == {"four-workers": True, "slow-links": True, "slow-links-2": False}
    assert sorted(one["file"] for one in found["unread"]) == ["broken.json", "settings.json"]
    assert shown_finding((tmp_path,), "slow-links-2")["title"] == shown_finding((), "slow-links")["title"]


def test_a_file_that_changes_is_read_again(tmp_path: Path):
    path = tmp_path / "mine.json"
    assert RECORDED is not None
    path.write_text((RECORDED / "slow-links.json").read_text())
    before = shown_finding((tmp_path,), "mine")["title"]
    path.write_text(path.read_text().replace(before, "Another title"))
    assert shown_finding((tmp_path,), "mine")["title"] == "Another title"


def test_folders_may_be_missing_or_full(tmp_path: Path):
    for number in range(MOST_FILES + 5):
        (tmp_path / f"{number}.json").write_text("{}")
    assert len(listed_findings((tmp_path, tmp_path / "missing"))["unread"]) == MOST_FILES


@pytest.mark.parametrize("name", ["", "..", "../findings/slow-links", "/etc/passwd", "slow-links.json"])
def test_only_names_of_the_list_are_opened(name):
    with pytest.raises(InputError, match="no finding"):
        shown_finding((), name)


def test_routes(client):
    assert {one["id"] for one in client.get("/api/findings").json()["findings"]} == set(NAMES)
    assert client.get("/api/findings/slow-links").json()["html"]
    assert client.get("/api/findings/..%2f..%2fpyproject").status_code in (404, 422)
    assert client.get("/api/findings/nothing").status_code == 422
