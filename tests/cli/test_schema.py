"""Schemas are published, describe what is printed, and keep what the last release promised."""

import json

import pydantic
import pytest
from bench.docs.pages import PROMISED, SCHEMA_PAGE, published

from syncwall.cli import main
from syncwall.records import SCHEMA_VERSION
from syncwall.show.schema import VERBS, schema
from tests.cli.promises import broken, promised

OPTIONAL = {
    "type": "object",
    "properties": {
        "a": {"type": "number"},
        "b": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]},
    },
    "required": ["a"],
    "$defs": {
        "B": {
            "type": "object",
            "properties": {
                "words": {"type": "array", "items": {"enum": ["x", "y"]}},
                "pair": {"type": "array", "prefixItems": [{"type": "number"}, {"const": 1}]},
                "by_name": {"type": "object", "additionalProperties": {"type": "integer"}},
                "again": {"$ref": "#/$defs/B"},
            },
            "required": ["words", "pair", "by_name", "again"],
        }
    },
}
KEYS = {
    "a": "number",
    "b": "null|object?",
    "b.words": "array",
    "b.words[]": "string",
    "b.pair": "array",
    "b.pair[0]": "number",
    "b.pair[1]": "integer",
    "b.by_name": "object",
    "b.by_name.*": "integer",
    "b.again": "object",
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_published_schema_is_that_of_the_program(verb, capsys):
    """If it fails: `python -m bench docs schemas`, and look at the difference."""
    assert main(["schema", *verb.split()]) == 0
    text, said = published(verb).read_text(encoding="utf-8"), capsys.readouterr().out
    assert promised(json.loads(text)) == promised(json.loads(said))
    if pydantic.VERSION.split(".")[:2] >= ["2", "14"]:  # older ones write less about the same keys
        assert text == said
    assert f"../schemas/{published(verb).name})" in SCHEMA_PAGE.read_text()


def test_what_the_last_release_promised_is_kept():
    """If it fails: keep the key, or raise SCHEMA_VERSION and say so in the changelog."""
    last = json.loads(PROMISED.read_text())
    assert last["schema_version"] <= SCHEMA_VERSION
    if last["schema_version"] == SCHEMA_VERSION:
        for verb, keys in last["verbs"].items():
            assert broken(keys, promised(schema(verb))) == [], verb


def test_every_key_of_an_answer_is_always_there():
    for verb in VERBS:
        assert [key for key, kind in promised(schema(verb)).items() if kind.endswith("?")] == []


def test_keys_have_paths_and_types():
    assert promised(OPTIONAL) == KEYS


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"a": None}, ["a is gone"]),
        ({"b.words[]": "integer"}, ["b.words[] was string, is integer"]),
        ({"a": "null|number"}, ["a was number, is null|number"]),
        ({"a": "number?"}, ["a may be missing now"]),
        ({"b": "null|object"}, []),
        ({"new": "string?"}, []),
    ],
)
def test_a_broken_promise_is_found(change, said):
    now = {key: kind for key, kind in (KEYS | change).items() if kind is not None}
    assert broken(KEYS, now) == said


def test_schemas_are_listed_and_a_wrong_name_is_corrected(capsys):
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.split("\n")[0] == "predict"
    assert main(["schema", "predikt"]) == 2
    assert capsys.readouterr().err == '"predikt" has no schema; did you mean "predict"?\n'
