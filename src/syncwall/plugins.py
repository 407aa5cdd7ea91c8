"""Entries that other installed packages add to our tables, through Python's entry points.

Holds `table` (our own entries and those added), `Plugin`, `Group`, `added`, `owner` and `refuse`.
Packages are asked only when a table is; one that does not load, or adds a name that is taken, is
left out with a line on the log that says why. docs/extend/index.md tells how to write one.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, TypeVar

Group = Literal["architectures", "catalogue", "collectives", "networks", "readers", "settings"]
"""Packages name an entry point of the group `syncwall.<one of these>`."""
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Plugin:
    """What one package adds to one table."""

    group: Group
    name: str
    package: str
    """Name and version."""
    entry: Any = None
    """None if it is refused."""
    problem: str = ""
    """Why it is."""


_FOUND: Final[dict[Group, list[Plugin]]] = {}


def table(
    group: Group,
    own: Mapping[str, Entry],
    kind: Any,
    then: Callable[[], None] = lambda: None,
) -> dict[str, Entry]:
    """`own` entries, and those of type `kind` that packages add under names of their own.

    `then` looks through them once, and may refuse some.
    """
    if group not in _FOUND:
        _load(group, own, kind)
        then()
    return {**own, **{one.name: one.entry for one in _FOUND[group] if not one.problem}}


def added(group: Group) -> list[Plugin]:
    """What packages add to a table that was asked for, refused entries too."""
    return _FOUND.get(group, [])


def owner(group: Group, entry: Any) -> Plugin | None:
    """The plug-in that has added `entry`; None if it is our own or nobody's."""
    return next((one for one in added(group) if one.entry is entry), None)


def refuse(plugin: Plugin, problem: str) -> None:
    """Leave out what a package adds, and log why."""
    logging.getLogger("syncwall").warning(
        'plug-in "%s" (%s) of %s is not used: %s',
        plugin.name,
        plugin.group,
        plugin.package,
        problem,
    )
    refused = replace(plugin, entry=None, problem=problem)
    found = _FOUND[plugin.group]
    found[:] = [refused if one is plugin else one for one in found]


def _load(group: Group, own: Mapping[str, Any], kind: Any) -> None:
    points = sorted(entry_points(group=f"syncwall.{group}"), key=lambda one: (one.name, _who(one)))
    owners = {name: ["syncwall"] for name in own}
    for point in points:
        owners.setdefault(point.name, []).append(_who(point))
    _FOUND[group] = [Plugin(group, point.name, _who(point)) for point in points]
    for number, (point, plugin) in enumerate(zip(points, _FOUND[group], strict=True)):
        if len(owners[point.name]) > 1:
            refuse(plugin, f"{' and '.join(owners[point.name])} both have this name")
            continue
        try:
            entry = point.load()
        except Exception as error:  # noqa: BLE001 - whatever a stranger's module does
            refuse(plugin, f"{type(error).__name__}: {error}")
            continue
        if isinstance(entry, kind):
            _FOUND[group][number] = replace(plugin, entry=entry)
        else:
            refuse(plugin, f"{point.value} is a {type(entry).__name__}, not a {kind.__name__}")


def _who(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
