"""Schemas of what `--json` prints, and the promise that keys stay.

`docs/schemas/VERB.json` is what the program says today, listed in `docs/reference/json.md`.
`docs/schemas/promised.json` has every key with its type as of the last release: within a schema
version no key of it may go or change.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import ROOT
from syncwall import __version__
from syncwall.show.records.interface import SCHEMA_VERSION, VERBS, schema

FOLDER = ROOT / "docs" / "schemas"
PROMISED = FOLDER / "promised.json"
PAGE = FOLDER.parent / "reference" / "json.md"
_TABLE = re.compile(r"(\| verb \| schema \|\n\|---\|---\|\n)(?:\|.*\n)*")
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
Node = Mapping[str, Any]


def published(verb: str) -> Path:
    return FOLDER / f"{verb.replace(' ', '-')}.json"


def promised(whole: Node) -> dict[str, str]:
    """Every key of a schema with its type, by its path; `?` marks one that may be missing."""

    def target(name: str) -> Node:
        found: Node = whole["$defs"][name.rpartition("/")[2]]
        return found

    def type_of(node: Node) -> str:
        if "$ref" in node:
            return type_of(target(node["$ref"]))
        if "anyOf" in node:
            return "|".join(sorted({type_of(one) for one in node["anyOf"]}))
        values = node.get("enum", [node["const"]] if "const" in node else [])
        if "type" in node or not values:
            return str(node.get("type", "any"))
        return "|".join(sorted({_NAMES[type(value)] for value in values}))

    def keys(node: Node, path: str, outer: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for one in node.get("anyOf", (node,)):
            name = one.get("$ref", "")
            inside = target(name) if name else one
            if name and name in outer:  # a type that holds itself
                continue
            above = (*outer, name) if name else outer
            for key, value in inside.get("properties", {}).items():
                optional = "" if key in inside.get("required", ()) else "?"
                yield f"{path}.{key}".lstrip("."), type_of(value) + optional
                yield from keys(value, f"{path}.{key}", above)
            parts = {f"[{n}]": value for n, value in enumerate(inside.get("prefixItems", ()))}
            parts |= {"[]": inside.get("items"), ".*": inside.get("additionalProperties")}
            for key, value in parts.items():
                if isinstance(value, dict):
                    yield f"{path}{key}".lstrip("."), type_of(value)
                    yield from keys(value, f"{path}{key}", above)

    return dict(keys(whole, "", ()))


def broken(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What was promised and is not kept: keys that are gone, of another type, or optional now."""
    found = []
    for path, kind in before.items():
        is_now = now.get(path)
        if is_now is None:
            found.append(f"{path} is gone")
        elif is_now.rstrip("?") != kind.rstrip("?"):
            found.append(f"{path} was {kind.rstrip('?')}, is {is_now.rstrip('?')}")
        elif is_now.endswith("?") and not kind.endswith("?"):
            found.append(f"{path} may be missing now")
    return found


def schemas(release: bool = False) -> None:
    """Publish the schemas of today; with --release promise them."""
    for verb in VERBS:
        text = json.dumps(schema(verb), indent=2, ensure_ascii=False)
        published(verb).write_text(f"{text}\n", encoding="utf-8")
    names = ((verb, published(verb).name) for verb in VERBS)
    rows = "".join(f"| `{verb}` | [{name}](../schemas/{name}) |\n" for verb, name in names)
    PAGE.write_text(_TABLE.sub(lambda head: head[1] + rows, PAGE.read_text()))
    if release:
        keys = {verb: promised(schema(verb)) for verb in VERBS}
        made = {"release": __version__, "schema_version": SCHEMA_VERSION, "verbs": keys}
        PROMISED.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
