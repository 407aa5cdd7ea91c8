import base64
import hashlib
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from syncwall.show.blocks import View
from syncwall.show.validation import validation_view
from syncwall.show.write.whole_files import page
from syncwall.validate.accuracy_report import Report, validate
from tests.validate.samples import table

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&quot;\u2028"


class Reader(HTMLParser):
    """Elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def parsed(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path: Path = tmp_path_factory.mktemp("tables") / "runs.csv"
    evil = {"id": EVIL, "source": EVIL, "model": EVIL, "grade": "C", "flags": EVIL}
    path.write_text(table({"id": "a"}, {"id": "b", "gpus": "32"}, evil), encoding="utf-8")
    return validate(path)


def test_the_page_asks_nobody_for_anything(report):
    text = page(validation_view(report))
    links = [
        value
        for _, attributes in parsed(text).elements
        for name, value in attributes.items()
        if name in {"src", "href", "action", "srcset"}
    ]
    assert links == []
    assert not re.search(r"@import|url\(|\beval\b|\bFunction\(|innerHTML|fetch\(", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}


def test_text_of_a_table_is_never_markup(report):
    found = parsed(page(validation_view(report)))
    tags = [tag for tag, _ in found.elements]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert EVIL.strip() in [about.get("data-name") for _, about in found.elements]


def test_only_our_script_may_run(report):
    text = page(validation_view(report))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'\">" in text
    assert "script-src" not in page(View("no script", ()))


def test_every_run_is_a_dot_that_says_what_it_is(report):
    text = page(validation_view(report))
    dots = re.findall(r"<circle [^>]*><title>(.*?)</title>", text, re.DOTALL)
    notes = list(map(unescape, dots))
    for one in report.outcomes:
        note = next(note for note in notes if note.startswith(f"{one.case.row.id}\n"))
        assert "tp 2" in note
        assert f"ratio {one.ratio:.3f}, 80% interval" in note
        assert ("in doubt: " in note) == (one.case.row.grade == "C")
    assert len(notes) == len(report.outcomes)


def test_the_sets_stand_in_tables_that_need_no_script(report):
    text = page(validation_view(report))
    assert text.count("<table>") >= len({one.runs.kind for one in report.sets})
    assert "@@" not in text


def test_5000_runs_are_less_than_3_megabytes(report):
    one = replace(report.outcomes[0])
    many = replace(report, outcomes=[one] * 5000)
    assert len(page(validation_view(many)).encode()) < 3e6
