import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from syncwall.lab.topology import Topology
from syncwall.show.report.article import article
from syncwall.show.report.blocks import Article, Bullets, Figure, Heading
from syncwall.show.report.page import markdown, notes_html, page
from syncwall.show.report.reading import read_source
from syncwall.show.report.setup import topology_drawing
from tests.show.report_samples import (
    collectives_data,
    lab_records,
    lab_result,
    links_data,
    matmul_data,
    result,
    step_data,
    written,
)

EVIL = "</title><script>alert(1)</script><img src=x onerror=alert(2)>&quot;|`*_[a](javascript:1)"
RESULTS = {
    "collectives": result("collectives", collectives_data(2, 1e9)),
    "links": result("links", links_data(), tuple("abcd")),
    "matmul": result("matmul", matmul_data()),
    "step": result("step", step_data(0.2, 0.1)),
    "lab": lab_result(lab_records()),
    "lab without predictions": lab_result(lab_records(predicted=False)),
    "lab without records": lab_result([]),
}


class Reader(HTMLParser):
    """Elements of a page, and those that are open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def made(tmp_path, *found, notes="") -> Article:
    files = [written(tmp_path / f"r{number}.json", one) for number, one in enumerate(found)]
    return article([read_source(file) for file in files], notes)


def said(found: Article, heading: str) -> str:
    """The sentences under a heading."""
    inside = False
    words: list[str] = []
    for block in found.blocks:
        if isinstance(block, Heading):
            inside = block.text == heading
        elif inside and isinstance(block, Bullets):
            words += block.items
    return "\n".join(words)


@pytest.mark.parametrize("kind", RESULTS)
def test_every_kind_of_result_makes_a_page_that_asks_nobody_for_anything(kind, tmp_path):
    text = page(made(tmp_path, RESULTS[kind]))
    found = parsed(text)
    names = {name for _, attributes in found.elements for name in attributes}
    assert not names & {"src", "href", "action", "srcset", "onload", "onerror"}
    assert "script" not in [tag for tag, _ in found.elements]
    assert not re.search(r"@import|url\(|@@", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("kind", RESULTS)
def test_no_picture_draws_outside_of_itself(kind, tmp_path):
    for block in made(tmp_path, RESULTS[kind]).blocks:
        if not isinstance(block, Figure):
            continue
        root = ET.fromstring(block.drawing.file())
        assert "nan" not in block.drawing.markup()
        for node in root.iter():
            for name, value in node.attrib.items():
                if name in ("x", "cx", "x1", "x2"):
                    assert -1 <= float(value) <= block.drawing.width + 1
                if name in ("y", "cy", "y1", "y2"):
                    assert -1 <= float(value) <= block.drawing.height + 1


def test_text_of_a_file_is_never_markup(tmp_path):
    evil = lab_result(lab_records()[:3], title=EVIL, question=EVIL)
    found = made(tmp_path, evil, notes=EVIL)
    tags = [tag for tag, _ in parsed(page(found)).elements]
    assert "script" not in tags
    assert "img" not in tags
    assert "a" not in tags
    text = markdown(made(tmp_path, evil), "r").text
    assert "<" not in text
    assert "\\[a\\](javascript" in text


def test_a_lab_is_an_article_with_the_numbers_of_its_records(tmp_path):
    found = made(tmp_path, lab_result(lab_records(off=0.04)))
    assert found.title == "Made-up steps"
    headings = [block.text for block in found.blocks if isinstance(block, Heading)]
    assert headings == ["What was asked", "Set-up", "Training steps", "Ledgers", "Collectives",
                        "What the model says", "What stays unexplained"]  # fmt: skip
    says = said(found, "What the model says")
    assert "22 steps were measured and predicted: mean absolute error (MAPE) 4.0%, 22 of 22" in says
    assert "22 of 22 predictions are above the measured step" in says
    assert "right in 12 of 12 groups" in says
    assert "exposed communication 4.0%, compute 0.0%" in says
    text = page(found)
    assert "every prediction is within 10% of its step" in text
    assert "4x1 · 100 Mb/s takes 13.12 times as long as 1x4" in text
    assert "100% of the difference is exposed communication" in text


def test_what_is_off_is_listed_with_the_line_that_explains_it(tmp_path):
    records = lab_records(off=0.2)
    broken = records[-1].model_copy(
        update={"message": "rank 3 was killed", "result": None, "predicted": None}
    )
    unexplained = said(made(tmp_path, lab_result([*records, broken])), "What stays unexplained")
    assert unexplained.count("Most off is exposed communication") == 22
    assert "100% of the error" in unexplained
    assert "failed, rank 3 was killed" in unexplained
    assert unexplained.count("\n") == 22


def test_no_conclusion_is_drawn_where_nothing_was_predicted(tmp_path):
    text = page(made(tmp_path, RESULTS["lab without predictions"]))
    assert "What the model says" not in text
    assert "every prediction" not in text
    assert "Made-up steps" in page(made(tmp_path, RESULTS["lab without records"]))


def test_several_results_stand_under_one_title(tmp_path):
    found = made(tmp_path, RESULTS["links"], RESULTS["matmul"], notes="# Why\n\n*so*")
    assert found.title == "2 results"
    headings = [block.text for block in found.blocks if isinstance(block, Heading)]
    assert headings == ["Links between ranks: r0", "Kernels: r1", "Notes"]
    assert "<h3>Why</h3>\n<p><em>so</em></p>" in page(found)


def test_markdown_refers_to_the_pictures_it_comes_with(tmp_path):
    found = markdown(made(tmp_path, RESULTS["lab"]), "places")
    referred = re.findall(r"\]\((places-\d+\.svg)\)", found.text)
    assert referred == list(found.pictures)
    assert len(referred) == 5 + 2 + 2 + 2 + 1
    assert all("<style>" in picture for picture in found.pictures.values())
    widths = {line.count("|") for line in found.text.splitlines() if line.startswith("| tiny-5m")}
    assert widths == {10, 6}


def test_notes_are_markdown_without_html_and_pictures():
    html = notes_html("# A\n\n<b>b</b> ![c](d.png) `e`\n\n|f|\n|-|\n|1|\n")
    assert html.startswith("<h3>A</h3>")
    assert "<b>" not in html
    assert "<img" not in html
    assert "<table>" in html


@pytest.mark.parametrize(
    "topology",
    [
        Topology(hosts=1, workers=64),
        Topology(hosts=200, workers=8, nics=8, rails=8),
        Topology(hosts=8, workers=2, nics=2, serves=((0,), (1,)), leaves=4, oversubscription=2),
        Topology(hosts=3, workers=1, nics=16, rails=16, leaves=3),
    ],
)
def test_large_topologies_are_drawn_inside_the_picture(topology):
    drawing = topology_drawing(topology)
    for x in re.findall(r' (?:x|cx|x1|x2)="([-\d.]+)"', drawing.markup()):
        assert -1 <= float(x) <= drawing.width + 1
