import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from syncwall.show.validation import scatter_page
from syncwall.validate.report import Report, validate
from tests.validate.samples import table

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&quot;\u2028"


class Reader(HTMLParser):
    """Elements of a page, and the text inside its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] == "script":
            self.scripts[-1] += data


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
    page = scatter_page(report)
    links = [value for _, attributes in parsed(page).elements for name, value in attributes.items()
             if name in {"src", "href", "action", "srcset"}]  # fmt: skip
    assert links == []
    assert not re.search(r"@import|url\(|\beval\b|\bFunction\(|innerHTML|fetch\(", page)
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}


def test_text_of_a_table_is_never_markup(report):
    page = scatter_page(report)
    found = parsed(page)
    assert [tag for tag, _ in found.elements].count("script") == 2
    assert "img" not in [tag for tag, _ in found.elements]
    data = json.loads(found.scripts[0])
    assert EVIL.strip() in [run[0] for run in data["runs"]]
    assert EVIL.strip() in data["sources"]
    assert EVIL.strip() in data["doubts"]
    assert "\u2028" not in found.scripts[0]


def test_every_run_is_in_the_page_with_its_figures(report):
    data = json.loads(parsed(scatter_page(report)).scripts[0])
    by_id = {run[0]: run for run in data["runs"]}
    for one in report.outcomes:
        run = by_id[one.case.row.id]
        assert data["sources"][run[1]] == one.case.row.source
        assert "h100-sxm" in data["machines"][run[2]]
        assert "tp 2" in run[3]
        assert run[4:8] == pytest.approx([one.case.measured_s, one.step_s, *one.interval_s], 1e-4)
        assert data["parts"][run[8]] == "judge"
        assert (run[9] >= 0) == (one.case.row.grade == "C")


def test_the_sets_stand_in_tables_that_need_no_script(report):
    page = scatter_page(report)
    assert page.count("<table>") == len({one.runs.kind for one in report.sets})
    assert "@@" not in page


def test_5000_runs_are_less_than_3_megabytes(report):
    one = replace(report.outcomes[0])
    many = replace(report, outcomes=[one] * 5000)
    assert len(scatter_page(many).encode()) < 3e6
