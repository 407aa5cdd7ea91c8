import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from syncwall.lab.virtual_network import Topology
from syncwall.measure.result import Load, MachineLoad
from syncwall.report import read_source
from syncwall.show.article import article
from syncwall.show.blocks import Bullets, Contents, Figure, Heading, Lines, Table, Verdict, View
from syncwall.show.draw.topology_drawing import topology_drawing
from syncwall.show.write.terminal import rendered
from syncwall.show.write.whole_files import markdown, notes_html, page
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


def made(tmp_path, *found, notes="") -> View:
    files = [written(tmp_path / f"r{number}.json", one) for number, one in enumerate(found)]
    return article([read_source(file) for file in files], notes)


def headings(found: View) -> list[str]:
    """Of all sections."""
    blocks = (*found.blocks, *found.details)
    return [block.text for block in blocks if isinstance(block, Heading) and block.level == 2]


def said(found: View, heading: str) -> str:
    """The sentences under a heading."""
    inside = False
    words: list[str] = []
    for block in (*found.blocks, *found.details):
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
    assert not names & {"src", "action", "srcset", "onload", "onerror"}
    links = {attributes["href"] for _, attributes in found.elements if "href" in attributes}
    ids = {f"#{attributes['id']}" for _, attributes in found.elements if "id" in attributes}
    assert links <= ids
    assert "script" not in [tag for tag, _ in found.elements]
    assert not re.search(r"@import|url\(|@@", text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("kind", RESULTS)
def test_no_picture_draws_outside_of_itself(kind, tmp_path):
    found = made(tmp_path, RESULTS[kind])
    for block in (*found.blocks, *found.details):
        if not isinstance(block, Figure):
            continue
        drawing = block.draw()
        root = ET.fromstring(drawing.file())
        assert "nan" not in drawing.markup()
        for node in root.iter():
            for name, value in node.attrib.items():
                if name in ("x", "cx", "x1", "x2"):
                    assert -1 <= float(value) <= drawing.width + 1
                if name in ("y", "cy", "y1", "y2"):
                    assert -1 <= float(value) <= drawing.height + 1


def test_text_of_a_file_is_never_markup(tmp_path):
    evil = lab_result(lab_records()[:3], title=EVIL, question=EVIL)
    found = made(tmp_path, evil, notes=EVIL)
    elements = parsed(page(found)).elements
    tags = [tag for tag, _ in elements]
    assert "script" not in tags
    assert "img" not in tags
    assert all(str(given["href"]).startswith("#") for tag, given in elements if tag == "a")
    text = markdown(made(tmp_path, evil), "r").text
    assert "<" not in text
    assert "\\[a\\](javascript" in text


def test_a_lab_is_an_article_with_the_numbers_of_its_records(tmp_path):
    found = made(tmp_path, lab_result(lab_records(off=0.04)))
    assert found.title == "Made-up steps"
    assert headings(found) == [
        "Comparison",
        "What the model says",
        "What stays unexplained",
        "Training steps",
        "Ledgers",
        "Collectives",
        "Set-up",
    ]
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


def test_the_conclusion_comes_first_and_the_set_up_last(tmp_path):
    found = made(tmp_path, RESULTS["lab"])
    kinds = [type(block) for block in found.blocks]
    assert kinds[:4] == [Verdict, Lines, Contents, Heading]
    verdict, _, contents = found.blocks[:3]
    assert isinstance(verdict, Verdict)
    assert verdict.about == "Why?"
    assert verdict.lines[0].startswith("The same 4 workers take up to 13.43 times as long on 4 hosts")
    assert verdict.lines[1] == "With links of 1 Gb/s, a step takes at most 2.07 times as long."
    assert verdict.lines[2] == "Between 2 and 4 hosts with equal links, it differs by at most 38%."
    assert verdict.lines[3].startswith("The prediction is off by 4.0% on average over 22 steps")
    assert contents == Contents(tuple(headings(found)))
    text = markdown(found, "r").text
    assert "- [What the model says](#what-the-model-says)" in text
    assert text.index("## Comparison") < text.index("## Training steps") < text.index("## Set-up")


def test_one_table_sets_places_side_by_side(tmp_path):
    found = made(tmp_path, RESULTS["lab"])
    table = next(block for block in found.blocks if isinstance(block, Table))
    hosts = ("1 host", "2 hosts", "4 hosts")
    named = [f"{name} {count}" for name in ("×", "waits", "predicted") for count in hosts]
    assert table.head == ("what ran", "links", *hosts, *named)
    rows = {row[:2]: row[2:] for row in table.rows}
    assert len(rows) == len(table.rows) == 12
    assert rows["tiny-5m ddp, 4 workers", "100 Mb/s"] == (
        "260 ms",
        "2.47 s",
        "3.41 s",
        "1.00",
        "9.51",
        "13.12",
        "19%",
        "92%",
        "94%",
        "270 ms",
        "2.57 s",
        "3.55 s",
    )
    assert rows["tiny-5m ddp, 4 workers", "1 Gb/s"][0] == "260 ms"
    assert rows["tiny-5m ddp, 2 workers", "1 Gb/s"][2] == ""
    shown = [line.plain for line in rendered(found, 80)]
    assert shown[0].startswith("Verdict   The same 4 workers")
    assert not any("Set-up" in line or "Each cell: measured / predicted" in line for line in shown)


def test_places_in_several_files_are_compared(tmp_path):
    records = lab_records()
    by_hosts = ([r for r in records if r.topology.hosts == hosts] for hosts in (1, 2, 4))
    found = made(tmp_path, *map(lab_result, by_hosts))
    assert found.title == "Made-up steps"
    sections = [f"Made-up steps (r{number})" for number in range(3)]
    assert headings(found) == ["Comparison", *sections]
    first = next(block for block in found.blocks if isinstance(block, Table))
    alone = made(tmp_path, RESULTS["lab"])
    assert sorted(first.rows) == sorted(
        next(block for block in alone.blocks if isinstance(block, Table)).rows
    )
    assert found.blocks[0] == Verdict(next(b for b in alone.blocks if isinstance(b, Verdict)).lines)


def test_steps_of_jobs_on_more_and_more_hosts_are_compared(tmp_path):
    asked = {"model": {"name": "tiny-5m"}, "shard": "ddp", "micro_batch": 4, "seq": 128}
    spread = (("a",) * 4, ("a", "a", "b", "b"), tuple("abcd"))
    results = [
        result("step", step_data(0.2, 0.1 * number, 4), hosts, settings=asked)
        for number, hosts in enumerate(spread)
    ]
    found = made(tmp_path, *results)
    assert found.title == "3 training steps compared"
    assert len(set(headings(found))) == 4
    (row,) = next(block for block in found.blocks if isinstance(block, Table)).rows
    assert row == (
        "tiny-5m ddp, 4 workers",
        "210 ms",
        "310 ms",
        "410 ms",
        "1.00",
        "1.48",
        "1.95",
        "0%",
        "32%",
        "49%",
    )


def test_collectives_of_several_jobs_are_compared(tmp_path):
    found = made(tmp_path, *(result("collectives", collectives_data(2, r)) for r in (1e9, 2e9)))
    assert found.title == "2 measurements of collectives compared"
    rows = next(block for block in found.blocks if isinstance(block, Table)).rows
    assert [row[0] for row in rows] == [
        f"{kind} of 16 MiB, 2 workers{again}"
        for again in ("", " (2)")
        for kind in ("all-reduce", "all-gather")
    ]


BUSY = MachineLoad(
    before=Load(average=20.04, others=0.953, steal=0.0),
    during=Load(average=20.0, others=0.4, steal=0.031),
)


def test_a_busy_machine_is_warned_of_before_the_verdict(tmp_path):
    records = lab_records()
    records[1] = records[1].model_copy(update={"load": BUSY})
    quiet = MachineLoad(before=Load(average=0.31, others=0.01, steal=0.0))
    records[2] = records[2].model_copy(update={"load": quiet})
    found = made(tmp_path, lab_result(records))
    warning = found.blocks[0]
    assert isinstance(warning, Lines)
    assert warning.lines[0].startswith(
        "The machine was busy in 1 of 2 records: other processes used up to 95% of the cores and "
        "up to 3% of their time was stolen"
    )
    both = made(tmp_path, lab_result(records), RESULTS["lab"])
    assert isinstance(both.blocks[0], Lines)
    assert both.blocks[0].lines[0].startswith("Made-up steps (r0): The machine was busy")


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (None, "load was not recorded"),
        (
            MachineLoad(before=Load(average=0.31, others=0.012, steal=0.0)),
            "machine load 0.3 before, steal 0%, other processes 1% of the cores",
        ),
    ],
)
def test_the_load_is_stated(load, words, tmp_path):
    found = made(tmp_path, result("step", step_data(0.2, 0.1), load=load))
    assert Lines("Load", (words,), is_quiet=True) in found.blocks
    assert words in page(found)


def test_no_conclusion_is_drawn_where_nothing_was_predicted(tmp_path):
    text = page(made(tmp_path, RESULTS["lab without predictions"]))
    assert "What the model says" not in text
    assert "every prediction" not in text
    assert "Made-up steps" in page(made(tmp_path, RESULTS["lab without records"]))


def test_several_results_stand_under_one_title(tmp_path):
    found = made(tmp_path, RESULTS["links"], RESULTS["matmul"], notes="# Why\n\n*so*")
    assert found.title == "2 results"
    assert headings(found) == [
        "Comparison",
        "Links between ranks: 4 ranks on 4 hosts, gloo on cpu",
        "Kernels: 2 ranks on 2 hosts, gloo on cpu",
        "Notes",
    ]
    assert "<h3>Why</h3>\n<p><em>so</em></p>" in page(found)


def test_markdown_refers_to_the_pictures_it_comes_with(tmp_path):
    found = markdown(made(tmp_path, RESULTS["lab"]), "places")
    referred = re.findall(r"\]\((places-\d+\.svg)\)", found.text)
    assert referred == list(found.pictures)
    assert len(referred) == 5 + 2 + 2 + 2 + 1
    assert all("<style>" in picture for picture in found.pictures.values())
    widths = {line.count("|") for line in found.text.splitlines() if line.startswith("| tiny-5m")}
    assert widths == {15, 10, 6}


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
