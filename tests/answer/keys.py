"""Every key that a run file may hold, from the types themselves, and other values for each."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import permutations
from typing import Any, Literal, get_args, get_origin

from syncwall.catalogue import CatalogueKind, names
from syncwall.describe.base import Description, dimension_of, parts_of
from syncwall.units import Dimension

Path = tuple[str, ...]
SIZES: dict[Dimension, tuple[float, ...]] = {
    Dimension.BYTES: (1e6, 1e9, 1e11),
    Dimension.BYTES_PER_S: (1e8, 1e10),
    Dimension.FLOP_PER_S: (1e14,),
    Dimension.SECONDS: (1e-3, 100.0, 1e5),
    Dimension.HERTZ: (1e9,),
    Dimension.WATTS: (200.0,),
    Dimension.TOKENS: (1e9, 1e10),
    Dimension.USD: (20_000.0,),
    Dimension.USD_PER_GPU_HOUR: (3.0,),
    Dimension.FLOP: (1e9,),
}
"""Values of a key that nobody stated."""
WHOLE = (1, 2, 3, 4, 8, 64, 4096)
NAMED = (CatalogueKind.LINK, CatalogueKind.DEVICE, CatalogueKind.FRAMEWORK, CatalogueKind.FAILURE)


@dataclass(frozen=True)
class Key:
    """A field of a description, and the keys that lead to it."""

    name: str
    """As a file writes it, with dots; elements of lists have no number."""
    path: Path
    """Names in Python."""
    annotation: Any
    metadata: tuple[Any, ...]


def keys_of(kind: type[Description], name: Path = (), path: Path = ()) -> Iterator[Key]:
    """Keys of `kind` and of the descriptions inside, without those that only hold others."""
    for own, field in kind.model_fields.items():
        inner = [one for one in parts_of(field.annotation) if _is_description(one)]
        written, called = (*name, field.alias or own), (*path, own)
        if not inner:
            yield Key(".".join(written), called, field.annotation, tuple(field.metadata))
        for one in inner:
            yield from keys_of(one, written, called)


def _is_description(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Description)


def stated(values: Any, path: Path) -> Any:
    """The value at `path`, in the first element of each list; KeyError where a part is missing."""
    for name in path:
        if isinstance(values, (list, tuple)):
            values = values[0]
        if not isinstance(values, dict):
            raise KeyError(name)
        values = values.get(name) if name == path[-1] else values[name]
    return values


def with_value(values: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """`values` with another one at `path`."""
    found = deepcopy(values)
    inside: Any = found
    for name in path[:-1]:
        inside = inside[name]
        inside = inside[0] if isinstance(inside, list) else inside
    inside[path[-1]] = value
    return found


def other_values(key: Key, now: Any) -> list[Any]:
    """Values of the key's type that are not what stands there."""
    found: list[Any] = []
    parts = [*parts_of(key.annotation), *(one for meta in key.metadata for one in parts_of(meta))]
    dimension = dimension_of(key.annotation, *key.metadata)
    listed = any(get_origin(part) is tuple for part in parts) or isinstance(now, list)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    words += [one for part in parts if isinstance(part, type) and issubclass(part, Enum) for one in part]
    if isinstance(now, dict):
        return [{name: _scaled(one, 0.5) for name, one in now.items()}] if now else []
    if listed:
        return [one for one in _lists(parts, words, now) if one != now]
    found += words
    if bool in parts:
        found += [True, False]
    if dimension is not None:
        found += [_scaled(now, by) for by in (0.5, 2.0, 0.01, 100.0)] if now else SIZES[dimension]
    elif int in parts or float in parts:
        found += [now * 2, now + 1, now - 1, now // 2, now / 2] if now else []
        found += [*WHOLE, 0.5, 0, 1.5]
    if datetime in parts:
        found += ["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"]
    if str in parts and not words:
        ends = (sorted(names(kind)) for kind in NAMED)
        found += ["other", "2022-06", "* -", "France", *(name for one in ends for name in (one[0], one[-1]))]
    return [one for one in found if one != now]


def _scaled(value: Any, by: float) -> Any:
    if isinstance(value, int):
        return max(int(value * by), 1)
    return value * by if isinstance(value, float) else value


def _lists(parts: list[Any], words: list[Any], now: Any) -> Iterator[Any]:
    now = list(now) if isinstance(now, (list, tuple)) else []
    if words:
        yield from ([word] for word in words)
        yield from map(list, permutations(now))
    elif now and isinstance(now[0], (list, tuple)):
        yield [[one for group in now for one in group], *([] for _ in now[1:])]
    elif now:
        yield now[::-1]
        yield [now[-1], *now[1:-1], now[0]]
    yield []
