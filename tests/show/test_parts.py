"""Parts of pages: nothing that somebody wrote becomes markup, and numbers are those of blocks."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall.cause import Cause
from syncwall.show.blocks import Cell, Lines, Table, ledger
from syncwall.show.numbers import duration
from syncwall.show.write.parts import button, linked, markup, proposal, table, tag, tile

HOSTILE = "<img src=x onerror=alert(1)> \"quoted\" 'too' & more"


class Elements(HTMLParser):
    """Names and attributes of all elements, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Text."""
        self.text += data


@given(st.text())
def test_text_stays_text(text):
    table_of = Table(("name", text), ((Cell(text, below=text, row={"key": text}), text),))
    parts = (text, Lines("", (text,)), table_of, tile("key", "name", text, text), tag("p", text))
    for part in parts:
        found = Elements(markup(part))
        assert {name for name, _ in found.found} <= {
            "p",
            "div",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "abbr",
            "strong",
            "br",
        }
        assert not any(name.startswith("on") for _, given_ in found.found for name in given_)


def test_attributes_cannot_be_left():
    made = tag("span", "x", title=HOSTILE, data={"key": HOSTILE})
    ((name, attributes),) = Elements(made).found
    assert name == "span"
    assert attributes == {"title": HOSTILE, "data-key": HOSTILE}


def test_what_is_nothing_is_left_out_and_data_may_be_empty():
    assert tag("p", None, [], hidden=False, class_="", data={"value": ""}) == '<p data-value=""></p>'


def test_a_button_holds_its_keys_as_json():
    ((_, attributes),) = Elements(button("go", {"layout.tp": 8, "layout.dp": None})).found
    assert attributes["data-set"] == '{"layout.tp": 8, "layout.dp": null}'
    made = Elements(proposal("tp 8", "−1 s", "memory", {"layout.tp": 8}, gained=1.0)).found
    assert made[0][1]["data-gained"] == "1.0"


@pytest.mark.parametrize(
    ("text", "href"),
    [
        ("see https://example.org/a, page 3", "https://example.org/a"),
        ("arXiv:2401.10241, tables 3 and 4", "https://arxiv.org/abs/2401.10241"),
        ("javascript:alert(1)", None),
    ],
)
def test_only_addresses_of_the_web_are_links(text, href):
    found = Elements(linked(text))
    assert [given_.get("href") for _, given_ in found.found] == ([href] if href else [])
    assert re.sub("https://", "", text) == found.text


def test_a_ledger_has_a_line_for_every_cause_and_its_sum():
    seconds = {Cause.GEMM: 3.0, Cause.EXPOSED_DP: 1.0, Cause.HOST: 1e-9}
    found = Elements(markup(ledger("where the time goes", seconds, least=0.0)))
    rows = [given_ for name, given_ in found.found if name == "tr" and "data-cause" in given_]
    assert [(row["data-cause"], row["data-value"]) for row in rows] == [
        ("GEMM", "3.0"),
        ("exposed DP", "1.0"),
    ]
    assert duration(4.0) in found.text
    widths = [float(given_["data-width"] or 0) for _, given_ in found.found if "data-width" in given_]
    assert sum(widths[:2]) == pytest.approx(100)


def test_a_cell_is_its_text_for_everybody_else():
    cell = Cell("2,048", "better", data={"value": 2048}, keys={"nodes": 256})
    assert cell == "2,048"
    (row,) = [
        given_ for name, given_ in Elements(table(Table(("a", "b"), (("x", cell),)))).found if name == "td"
    ]
    assert row == {"class": "better", "data-value": "2048"}
