"""Where ranks part: the collective at which a hung job's flight recorder dumps differ.

Ranks of a process group must issue the same collectives in the same order; the first number at
which one is missing, or differs in operation, size or type, is where the job hangs. Point-to-point
entries are not compared.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from syncwall.problems import InputError
from syncwall.read.flight_recorder import FlightDump, FlightEntry

_Tables = dict[int, dict[int, FlightEntry]]
"""Entries of one group by rank and number."""
MismatchKind = Literal["missing", "operation", "size", "type", "unfinished"]
# Every rank must give these the same size; all-to-all, gather and scatter may differ.
_EVEN = (
    "all_reduce",
    "allreduce",
    "broadcast",
    "reduce",
    "all_gather",
    "_all_gather_base",
    "all_gather_into_tensor",
    "reduce_scatter",
    "_reduce_scatter_base",
    "barrier",
)


@dataclass(frozen=True)
class Hang:
    """The first collective of one process group on which its ranks do not agree."""

    group: str
    sequence: int
    kind: MismatchKind
    """What differs; `unfinished` if all ranks issued the same collective and it did not end."""
    operation: str
    """Of most ranks."""
    waiting: tuple[int, ...]
    """Ranks that issued it."""
    missing: tuple[int, ...]
    """Ranks that did not, though their dump is here."""
    odd: tuple[int, ...] = ()
    """Ranks that differ from most (operation, size or type), or have not started it."""
    without_dump: tuple[int, ...] = ()
    """Members of the group of which there is no dump."""
    versions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """What was issued, by ranks: "all_reduce 1024 Float"."""
    last: dict[int, str] = field(default_factory=dict)
    """Last entry, in any group, of each missing or odd rank, with the line of its program."""
    created_ns: int | None = None


def find_hangs(dumps: Sequence[FlightDump]) -> tuple[Hang, ...]:
    """One `Hang` a process group that has one; the likely root first.

    A group whose missing ranks all wait in another group comes after that one. Raises `InputError`
    if ranks are unknown or given twice.
    """
    by_rank = _by_rank(dumps)
    tables: dict[str, _Tables] = {}
    for rank, dump in by_rank.items():
        for entry in dump.entries:
            if not entry.is_p2p:
                tables.setdefault(entry.group, {}).setdefault(rank, {})[entry.sequence] = entry
    found = []
    for name in sorted(tables):
        members = set(tables[name]).union(*(_stated(d, name) for d in by_rank.values()))
        if hang := _first(name, members, tables[name], by_rank):
            found.append(hang)
    waiting = Counter(rank for hang in found for rank in (*hang.waiting, *hang.odd))
    return tuple(sorted(found, key=lambda hang: _order(hang, waiting)))


def _stated(dump: FlightDump, name: str) -> tuple[int, ...]:
    """Members of a group as the dump says; torch may leave out the name of an only group."""
    only = next(iter(dump.groups.values())) if len(dump.groups) == 1 and "" in dump.groups else ()
    return dump.groups.get(name, only)


def _by_rank(dumps: Sequence[FlightDump]) -> dict[int, FlightDump]:
    by_rank: dict[int, FlightDump] = {}
    for dump in dumps:
        if dump.rank is None:
            raise InputError.of(
                "its name does not end with the rank; rename it to ..._rank_0", file=dump.source
            )
        if dump.rank in by_rank:
            raise InputError.of(f"is a second dump of rank {dump.rank}", file=dump.source)
        by_rank[dump.rank] = dump
    return by_rank


def _order(hang: Hang, waiting: Counter[int]) -> tuple[bool, int, str]:
    """A missing rank waits in no collective of this group, so if it waits, then in another one."""
    follows = bool(hang.missing) and all(waiting[rank] for rank in hang.missing)
    return follows, hang.created_ns or 0, hang.group


def _first(name: str, members: set[int], tables: _Tables, by_rank: dict[int, FlightDump]) -> Hang | None:
    have = sorted(members & by_rank.keys())
    if len(have) < 2:
        return None
    start = max(min(table) for table in tables.values())
    for sequence in sorted({s for table in tables.values() for s in table if s >= start}):
        entries = {rank: table[sequence] for rank, table in tables.items() if sequence in table}
        if (kind := _kind(entries, len(have))) is not None:
            return _hang(name, sequence, kind, entries, members, by_rank)
    return None


def _kind(entries: dict[int, FlightEntry], expected: int) -> MismatchKind | None:
    """What is wrong with one collective; None if nothing is.

    An entry that all its ranks completed is fine even where another rank's dump is older.
    """
    found = list(entries.values())
    if all(entry.finished for entry in found):
        return None
    if len({entry.operation for entry in found}) > 1:
        return "operation"
    if found[0].operation in _EVEN:
        if len({entry.dtypes for entry in found}) > 1:
            return "type"
        if len({_elements(entry) for entry in found}) > 1:
            return "size"
    return "missing" if len(found) < expected else "unfinished"


def _elements(entry: FlightEntry) -> int:
    total = 0
    for shape in entry.input_sizes:
        count = 1
        for size in shape:
            count *= size
        total += count
    return total


def _hang(
    name: str,
    sequence: int,
    kind: MismatchKind,
    entries: dict[int, FlightEntry],
    members: set[int],
    by_rank: dict[int, FlightDump],
) -> Hang:
    versions: dict[str, list[int]] = {}
    for rank, entry in entries.items():
        versions.setdefault(_version(entry), []).append(rank)
    usual = max(versions, key=lambda key: len(versions[key]))
    odd = [rank for key, ranks in versions.items() if key != usual for rank in ranks]
    if kind == "unfinished":
        odd = [rank for rank, entry in entries.items() if entry.state == "scheduled"]
        odd = odd if len(odd) < len(entries) else []
    missing = sorted((members & by_rank.keys()) - entries.keys())
    created = [entry.created_ns for entry in entries.values() if entry.created_ns is not None]
    return Hang(
        group=name,
        sequence=sequence,
        kind=kind,
        operation=usual.split(" ")[0],
        waiting=tuple(sorted(entries.keys() - set(odd))),
        missing=tuple(missing),
        odd=tuple(sorted(odd)),
        without_dump=tuple(sorted(members - by_rank.keys())),
        versions={key: tuple(ranks) for key, ranks in versions.items()},
        last={rank: _last(by_rank[rank].entries) for rank in [*missing, *sorted(odd)][:64]},
        created_ns=min(created, default=None),
    )


def _version(entry: FlightEntry) -> str:
    return f"{entry.operation} {_elements(entry)} {'/'.join(sorted(set(entry.dtypes)))}".strip()


def _last(entries: Iterable[FlightEntry]) -> str:
    entry = max(entries, key=lambda e: (e.created_ns or 0, e.sequence), default=None)
    if entry is None:
        return ""
    what = f"{entry.operation} number {entry.sequence} of {entry.group} {entry.state}"
    return f"{what} {entry.frame}".strip()
