"""Keys of a schema with their types, and which of those that were promised are not kept."""

from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
Node = Mapping[str, Any]


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
