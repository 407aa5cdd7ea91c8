"""The page of assumed numbers is that of the catalogue."""

from bench.docs.pages import ASSUMED, assumed_text


def test_the_page_of_the_documentation_is_that_of_the_catalogue():
    assert ASSUMED.read_text(encoding="utf-8") == assumed_text(), "run: python -m bench docs assumed"


def test_it_lists_what_is_assumed_and_nothing_else():
    assert "| `trainium2` | scale_up.links | 10 |" in assumed_text()
    assert "`h100-sxm` | peak" not in assumed_text()
