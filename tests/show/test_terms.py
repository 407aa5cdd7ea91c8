"""The glossary: every cause is in it, and names are unique."""

from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from bench.docs.pages import GLOSSARY, glossary_text

from syncwall.cause import Cause
from syncwall.problems import InputError
from syncwall.show.blocks import Breakdown, Share, Table, View
from syncwall.show.terms import named, term, terms
from syncwall.show.write.whole_files import page
from syncwall.work.memory import Memory

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("cause", [*map(str, Cause), *(part.name for part in fields(Memory))])
def test_every_cause_of_time_and_memory_is_a_term(cause):
    assert term(cause).meaning


def test_a_name_means_one_thing():
    names = Counter(name for one in terms() for name in (one.name, *one.also))
    assert set(names.values()) == {1}
    assert len(names) == len(named())


def test_terms_lead_to_pages_that_exist():
    assert [one.name for one in terms() if not (DOCS / one.page).is_file()] == []


def test_the_page_of_the_documentation_is_that_of_the_terms():
    text = GLOSSARY.read_text(encoding="utf-8")
    assert text == glossary_text(), "run: python -m bench docs glossary"


def test_pages_say_what_a_term_means():
    seconds = Breakdown("where the time goes", (Share("contention", 1.0),), 1.0)
    rows = Table(("", "MFU"), (("pipeline bubble", "MFU"),))
    text = page(View("terms", (seconds, rows)))
    assert f'<abbr title="{term("bubble").meaning}">pipeline bubble</abbr>' in text
    assert text.count("<abbr") == 2
    assert f"contention: 1 s. {term('contention').meaning}</title>" in text


def test_meanings_are_sentences():
    assert all(one.meaning[0].isupper() or one.meaning[0].isdigit() for one in terms())
    assert all(one.meaning.endswith(".") for one in terms())


def test_a_term_is_found_by_any_name_and_a_wrong_one_has_a_suggestion():
    assert term("Bus-Bandwidth") is term("busbw")
    with pytest.raises(InputError, match='did you mean "bubble"'):
        term("bubbel")
    with pytest.raises(InputError, match="show terms"):
        term("xyzzy")
