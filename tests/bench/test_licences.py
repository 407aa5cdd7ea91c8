"""Every source of the catalogue states its licence, and the page of licences lists it."""

from bench.licences import LICENCES, PAGE, licences

from syncwall import catalogue


def test_every_source_states_its_licence():
    stated = {key: source.get("licence") for key, source in catalogue.sources().items()}
    assert set(stated.values()) == set(LICENCES), stated


def test_the_page_of_the_documentation_is_that_of_the_sources():
    assert PAGE.read_text(encoding="utf-8") == licences(), "run: python -m bench.licences"
