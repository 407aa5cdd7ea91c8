"""What a profiler trace says besides its events: rank, ranks, device, host, versions.

Holds `Facts` and `facts_of`.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_RANK = re.compile(r"(?:^|[^a-z])rank[-_]?(\d{1,6})", re.IGNORECASE)
_HOST = re.compile(r"^(?P<host>[A-Za-z0-9.-]+)_\d+\.\d+\.pt\.trace\.json")
_KEPT = (
    "schemaVersion",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "record_shapes",
    "with_stack",
    "profile_memory",
    "traceName",
)


@dataclass(frozen=True)
class Facts:
    """Of one trace."""

    rank: int | None = None
    world_size: int | None = None
    device: str | None = None
    host: str | None = None
    base_ns: int = 0
    """Time of day that the file's times count from."""
    more: dict[str, Any] = field(default_factory=dict)
    """Versions, the backend, process groups by name: (description, ranks)."""


def facts_of(head: dict[str, Any], path: Path, device: int | None) -> Facts:
    """From the values beside the events; `device` is the number of the one that was used."""
    given = head.get("distributedInfo")
    info = given if isinstance(given, dict) else {}
    rank, ranks = _whole(info.get("rank")), _whole(info.get("world_size"))
    match = _RANK.search(path.name)
    if rank is None and match:
        rank = int(match.group(1))
    named = _HOST.match(path.name)
    more = {key: head[key] for key in _KEPT if isinstance(head.get(key), str | int | float)}
    more |= {key: str(info[key]) for key in ("backend", "nccl_version") if info.get(key)}
    more |= {"groups": groups} if (groups := _groups(info)) else {}
    return Facts(
        rank=rank,
        world_size=ranks,
        device=_device(head, device),
        host=_host(head) or (named.group("host") if named else None),
        base_ns=_whole(head.get("baseTimeNanoseconds")) or 0,
        more=more,
    )


def _whole(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
    return value if sound else None


def _device(head: dict[str, Any], number: int | None) -> str | None:
    listed = head.get("deviceProperties")
    devices = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    chosen = [d for d in devices if d.get("id") == number] or devices
    name = chosen[0].get("name") if chosen else None
    return name if isinstance(name, str) else None


def _host(head: dict[str, Any]) -> str | None:
    """As `syncwall measure step --profile` or the profiler wrote it."""
    names = (head.get(key) for key in ("syncwall_host", "host_name"))
    return next((name for name in names if isinstance(name, str) and name), None)


def _groups(info: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    listed = info.get("pg_config")
    groups = {}
    for group in listed if isinstance(listed, list) else ():
        if isinstance(group, dict) and "pg_name" in group:
            members = group.get("ranks")
            ranks = (
                tuple(r for r in members if isinstance(r, int)) if isinstance(members, list) else ()
            )
            groups[str(group["pg_name"])] = (str(group.get("pg_desc", "")), ranks)
    return groups
