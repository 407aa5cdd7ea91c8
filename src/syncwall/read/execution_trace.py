"""Reads PyTorch execution traces (Chakra JSON): what was executed, without times.

Holds `ExecutionTrace` and `read_execution_traces`. Schemas 1.0.1 (2023) and 1.0.2 and 1.1 (Chakra)
are known; a tar archive gives one trace for each file in it.
"""

import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from syncwall.problems import EmptyInput, InputError, Problem
from syncwall.read.json_array import JsonArray
from syncwall.read.limited import open_limited
from syncwall.read.trace import TracedCollective, collective_kind, dtype_bytes

_FIRST_KEYS = r'(?:"id"\s*:\s*\d|"name"\s*:\s*"[^"]*"\s*,\s*"id")'
_RANK = re.compile(r"(?:rank|_eg)[-_.]?(\d{1,6})", re.IGNORECASE)
_RECORD = "record_param_comms"
_TYPE = re.compile(r"Tensor\(([\w: ]+)\)")


@dataclass(frozen=True)
class ExecutionTrace:
    """What one rank executed."""

    source: str
    schema: str
    nodes: int
    operators: dict[str, int]
    """Number of calls by name, the most frequent first."""
    collectives: tuple[TracedCollective, ...]
    """In order; `sequence` counts within the process, waits are left out."""
    rank: int | None = None
    groups: tuple[str, ...] = ()
    """Names of the process groups used."""
    problems: tuple[Problem, ...] = ()


def read_execution_traces(path: Path | str) -> list[ExecutionTrace]:
    """All traces in a JSON file (plain or packed) or in a tar archive of them."""
    path = Path(path)
    if not re.search(r"\.(tar(\.gz)?|tgz)$", path.name):
        with open_limited(path) as stream:
            return [_read(stream, str(path))]
    found = []
    with open_limited(path) as stream:
        for name, member in _members(stream, str(path)):
            found.append(_read(member, f"{path}:{name}"))
    if not found:
        raise InputError.of("holds no JSON file", file=str(path))
    return sorted(found, key=lambda trace: (trace.rank is None, trace.rank, trace.source))


def _members(stream: IO[bytes], source: str) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isfile() else None
                if file is not None and entry.name.endswith(".json"):
                    yield PurePosixPath(entry.name).name, file
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError.of(f"is a damaged tar archive: {error}", file=source) from None


def _read(stream: IO[bytes], source: str) -> ExecutionTrace:
    array = JsonArray(stream, source, "nodes", _FIRST_KEYS)
    names: Counter[str] = Counter()
    collectives: list[TracedCollective] = []
    ranks: Counter[int] = Counter()
    for batch in array.batches():
        for node in batch:
            if isinstance(node, dict) and isinstance(node.get("name"), str):
                names[node["name"]] += 1
                if node["name"].startswith(_RECORD):
                    _take(node, collectives, ranks)
    if not names:
        raise EmptyInput.of('has no "nodes" with names; it is not an execution trace', file=source)
    named = _RANK.search(PurePosixPath(source).name)
    rank = ranks.most_common(1)[0][0] if ranks else int(named.group(1)) if named else None
    return ExecutionTrace(
        source=source,
        schema=str(array.head.get("schema", "")),
        nodes=names.total(),
        operators=dict(names.most_common()),
        collectives=tuple(collectives),
        rank=rank,
        groups=tuple(dict.fromkeys(c.group for c in collectives if c.group)),
        problems=array.problems,
    )


def _take(node: dict[str, Any], collectives: list[TracedCollective], ranks: Counter[int]) -> None:
    """One record; its inputs are [tensors,] sequence, group, rank, name, splits ..."""
    values, types = _inputs(node)
    at = next((i for i, value in enumerate(values) if isinstance(value, str)), 0)
    attributes = {a["name"]: a.get("value") for a in _items(node.get("attrs")) if "name" in a}
    if at < 3:
        return
    if isinstance(values[at - 1], int) and 0 <= values[at - 1] < 1 << 24:
        ranks[values[at - 1]] += 1
    if values[at] == "wait":
        return
    group = values[at - 2][0] if isinstance(values[at - 2], list) and values[at - 2] else (values[at - 2])
    dtype = attributes.get("dtype") or _dtype(types[0] if types else None)
    collectives.append(
        TracedCollective(
            kind=collective_kind(values[at]),
            bytes=_size(node, values[0], attributes, dtype),
            dtype=dtype if isinstance(dtype, str) else None,
            group=str(group),
            ranks=_ranks(values, at, attributes),
            sequence=_count(values[at - 3]),
        )
    )


def _ranks(values: list[Any], at: int, attributes: dict[Any, Any]) -> int | None:
    """Ranks of the group: as told, else one for each part that is sent."""
    told = _count(attributes.get("pg_size")) or _count(values[-1] if at + 5 < len(values) else None)
    parts = values[at + 1] if at + 1 < len(values) else None
    return told or (len(parts) if isinstance(parts, list) and parts else None)


def _inputs(node: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    given = node.get("inputs")
    if isinstance(given, dict):
        values, types = given.get("values"), given.get("types")
    else:
        values, types = given, node.get("input_types")
    return (values if isinstance(values, list) else []), (types if isinstance(types, list) else [])


def _outputs(node: dict[str, Any]) -> Any:
    given = node.get("outputs")
    return given.get("values") if isinstance(given, dict) else given


def _size(node: dict[str, Any], tensors: Any, attributes: dict[Any, Any], dtype: Any) -> float | None:
    """Bytes as nccl-tests counts them: the larger of what goes in and what comes out."""
    width = dtype_bytes(dtype) if isinstance(dtype, str) else None
    counts = [_count(attributes.get(key)) for key in ("in_msg_nelems", "out_msg_nelems")]
    told = [count for count in counts if count is not None]
    if width and told:
        return float(max(told) * width)
    return max(_tensor_bytes(tensors), _tensor_bytes(_outputs(node))) or None


def _tensor_bytes(value: Any) -> float:
    """Of one tensor, written as [id, storage, offset, elements, bytes each, device], or a list."""
    if not isinstance(value, list):
        return 0.0
    tensors = [value] if value and not isinstance(value[0], list) else value
    return float(sum(t[3] * t[4] for t in tensors if _is_tensor(t)))


def _is_tensor(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 6
        and all(isinstance(v, int) for v in value[:5])
        and 0 <= value[3] < 1 << 50
        and 0 < value[4] < 64
    )


def _items(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _dtype(name: Any) -> str | None:
    match = _TYPE.search(name) if isinstance(name, str) else None
    return match.group(1) if match else None


def _count(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50
    return value if sound else None
