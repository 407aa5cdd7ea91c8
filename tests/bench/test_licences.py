"""Every source of the catalogue states its licence, and the page of licences lists it."""

from bench.docs.pages import LICENCE_NAMES, LICENCES, licences_text

from syncwall import catalogue


def test_every_source_states_its_licence():
    stated = {key: source.get("licence") for key, source in catalogue.sources().items()}
    assert set(stated.values()) == set(LICENCE_NAMES), stated


def test_the_page_of_the_documentation_is_that_of_the_sources():
    assert LICENCES.read_text(encoding="utf-8") == licences_text(), "run: python -m bench docs licences"
