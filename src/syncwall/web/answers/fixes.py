"""What would make a run possible that is not: values near those stated, each tried before.

Holds `fixes`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from syncwall.problems import InputError
from syncwall.web.asked import AskedRun

_MEANT: Final = re.compile(r'did you mean "([^"]+)"')
_NEAR: Final = 2
"""Values that are offered for one problem."""
_TRIED: Final = 24
"""Values that are tried for one field."""
_LARGEST_POWER: Final = 16
_BLAMED: Final = {
    "layout.dp": ("layout.tp", "layout.pp", "layout.cp", "layout.dp", "nodes", "gpus"),
    "layout.global_batch": ("layout.global_batch", "layout.micro_batch"),
    "layout.shard_degree": ("layout.shard_degree", "layout.shard"),
    "layout.virtual_stages": ("layout.virtual_stages", "layout.pp"),
    "layout.pp": ("layout.pp", "layout.virtual_stages"),
    "gpus": ("gpus",),
}
"""Fields of which another value may solve a problem that is booked on one of them."""


def fixes(asked: AskedRun) -> dict[str, Any]:
    """For each problem of the run the nearest values without it, and whether leaving it out helps.

    Each has the problem's key (`where`), what it does (`said`) and the keys to set (null: leave
    open). Those are said that leave the fewest problems, so none if a later one is the only cause.
    """
    wrong = _problems(asked.fields())
    found = [one for where, what in wrong.items() for one in _fixes(asked, where, what, wrong)]
    least = min((one["left"] for one in found), default=0)
    return {"fixes": [one for one in found if one["left"] == least]}


def _problems(fields: dict[str, Any]) -> dict[str, str]:
    """What is wrong by its key; nothing if the run is possible."""
    try:
        AskedRun.model_validate(fields).run()
    except InputError as error:
        return {one.key: one.sentence() for one in error.problems}
    except ValueError:  # no run at all
        return {"": ""}
    return {}


def _fixes(
    asked: AskedRun, where: str, what: str, wrong: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Changes after which `where` is no problem any more."""
    found = 0
    for key, value, is_meant in _changes(asked, where, what):
        left = _problems(_with(asked, key, value))
        if where not in left and (is_meant or len(left) < len(wrong)):
            name = key.split(".")[-1]
            said = f"leave {name} open" if value is None else f"{name} {value}"
            yield {"where": where, "said": said, "keys": {key: value}, "left": len(left)}
            found += 1
            if found == _NEAR:
                return


def _changes(asked: AskedRun, where: str, what: str) -> Iterator[tuple[str, Any, bool]]:
    """Keys and values to try, the nearest first, and whether just that was meant; None: open."""
    keys = [key for key in _BLAMED.get(where, (where,)) if _stated(asked, key) is not None]
    meant = _MEANT.search(what)
    if meant and where in keys:
        yield where, meant[1], True
    for key in keys:
        stated = _stated(asked, key)
        if isinstance(stated, int) and not isinstance(stated, bool):
            yield from ((key, value, False) for value in _near(stated))
    yield from ((key, None, False) for key in keys if key not in ("model", "cluster"))


def _near(stated: int) -> list[int]:
    """Powers of two and their multiples around a count, the nearest first."""
    powers = [2**n for n in range(_LARGEST_POWER)]
    multiples = {side * p for p in powers for side in (stated // p, -(-stated // p))}
    wanted = {value for value in {*powers, *multiples} if value >= 1} - {stated}
    return sorted(wanted, key=lambda value: (max(value / stated, stated / value), value))[:_TRIED]


def _stated(asked: AskedRun, key: str) -> Any:
    part, _, name = key.partition(".")
    found = getattr(asked, part, None)
    return found.get(name) if isinstance(found, dict) and name else found


def _with(asked: AskedRun, key: str, value: Any) -> dict[str, Any]:
    """What was asked with another value of one key."""
    fields = asked.fields()
    part, _, name = key.partition(".")
    if not name:
        return {**fields, part: value}
    return {**fields, part: {**fields.get(part, {}), name: value}}
