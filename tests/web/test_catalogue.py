"""The Catalogue page: every entry, and every number with its trust and source."""

import json
from typing import get_args

import pytest

from syncwall import catalogue
from syncwall.catalogue import CatalogueKind
from syncwall.describe import lookup
from syncwall.problems import InputError
from syncwall.records import described
from syncwall.show.records.listing import listing
from syncwall.web.answers.catalogue import KINDS, listed, shown
from syncwall.web.routes import EntryKind

EVERY = [(kind, name) for kind in KINDS for name in catalogue.names(CatalogueKind(kind))]
TRUST = {"measured", "fitted", "datasheet", "assumed"}


def test_all_entries_are_listed():
    for table in listed()["kinds"]:
        rows = listing(CatalogueKind(table["kind"]))
        assert [row["values"] for row in table["rows"]] == [list(row.values()) for row in rows]
        names = [column["name"] for column in table["columns"]]
        assert len(set(names)) == len(names)
        assert {row["name"] for row in table["rows"]} == set(catalogue.names(CatalogueKind(table["kind"])))


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_is_shown_with_its_trust_and_sources(kind):
    for name in catalogue.names(CatalogueKind(kind)):
        found = shown(kind, name)
        assert json.dumps(found, allow_nan=False)
        keys = {source["key"] for source in found["sources"]}
        for row in found["rows"]:
            origin = row.get("provenance")
            if origin:
                assert origin["trust"] in TRUST
                assert origin.get("source") in keys or origin.get("source") not in catalogue.sources()


def test_an_entry_is_that_of_the_terminal():
    found = shown("device", "h100-sxm")
    assert found["record"] == described(lookup.device("h100-sxm"))
    rows = {row["label"]: row for row in found["rows"]}
    assert rows["peak bf16"]["text"] == "989.4 TFLOP/s"
    assert rows["peak bf16"]["provenance"]["trust"] == "datasheet"
    assert rows["scale up link"]["entry"] == {"kind": "link", "name": "nvlink-4"}


@pytest.mark.parametrize("kind", KINDS)
def test_references_lead_to_entries(kind):
    for name in catalogue.names(CatalogueKind(kind)):
        for row in shown(kind, name)["rows"]:
            if "entry" in row:
                assert (row["entry"]["kind"], row["entry"]["name"]) in EVERY


def test_a_price_is_one_line():
    found = shown("price", "aws")
    offers = lookup.price_list("aws").offers
    assert len(found["rows"]) == len(offers)
    assert found["rows"][0]["text"].startswith("$")


@pytest.mark.parametrize("name", ["h100-smx", "../devices/h100-sxm", "", "/etc/passwd", "h100.yaml"])
def test_only_names_of_the_list_are_opened(name):
    with pytest.raises(InputError, match="unknown device"):
        shown("device", name)


def test_routes(client):
    assert get_args(EntryKind) == KINDS
    assert len(client.get("/api/catalogue").json()["kinds"]) == len(KINDS)
    assert client.get("/api/catalogue/device/h100-sxm").json()["title"] == "NVIDIA H100 SXM5 80 GB"
    refused = client.get("/api/catalogue/device/h100-smx")
    assert refused.status_code == 422
    assert "h100-sxm" in refused.json()["problems"][0]["what"]
    assert client.get("/api/catalogue/runs/x").status_code == 422
    assert client.get(f"/api/catalogue/device/{'x' * 101}").status_code == 422
