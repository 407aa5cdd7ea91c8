"""Tables of `nvidia-smi topo -m` and `rocm-smi --showtopo`.

Holds `read_smi_topology`. The table may stand anywhere in a file, such as a job's log; the first
one is read.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from syncwall.problems import InputError, Problem
from syncwall.read.limited import UnpackLimits, text_lines
from syncwall.read.topology import (
    Distance,
    Gpu,
    HostTopology,
    NicPort,
    NumaNode,
    listed,
    refuse_crowd,
)

_LIMITS: Final = UnpackLimits(raw_bytes=256 << 20)
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_GPU: Final = re.compile(r"GPU\d{1,4}", re.ASCII)
_LEGEND: Final = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})", re.ASCII)
_LINKS: Final = re.compile(r"NV(\d{1,3})", re.ASCII)
_CELLS: Final = {
    "X": Distance.SAME,
    "PIX": Distance.PIX,
    "PXB": Distance.PXB,
    "PHB": Distance.PHB,
    "NODE": Distance.NODE,
    "SYS": Distance.SYS,
    "SOC": Distance.SYS,
    "XGMI": Distance.LINK,
    "0": Distance.SAME,
    "PCIE": None,
    "N/A": None,
}
_MOST_LINES: Final = 5_000_000
_MOST_COLUMNS: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    cells: tuple[str, ...]
    rest: tuple[str, ...]
    """Affinities, where the table has them."""
    line: int


def read_smi_topology(path: Path | str) -> HostTopology:
    """The first table in `path`; InputError if there is none."""
    columns: list[str] = []
    rows: dict[str, _Row] = {}
    legend: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text_lines(path, _LIMITS), 1):
        if number > _MOST_LINES:
            break
        text = _ANSI.sub("", line) if "\x1b" in line else line
        if found := _LEGEND.match(text):
            legend[found[1]] = found[2]
        elif not columns or not rows:
            columns = _header(text) or columns
        if columns:
            row = _row(text, columns, number)
            if isinstance(row, Problem):
                problems.append(replace(row, file=str(path)))
            elif row is not None:
                rows.setdefault(row.name, row)
    gpus = [name for name in columns if _GPU.fullmatch(name) and name in rows]
    if not gpus:
        raise InputError.of("holds no table of `nvidia-smi topo -m`", file=str(path))
    refuse_crowd(len(gpus), len(columns) - len(gpus), str(path))
    return _topology(str(path), columns, rows, legend, tuple(problems[:20]))


def _header(text: str) -> list[str]:
    """Names of the columns if the line is a table's head, else nothing."""
    if len(text) > 1 << 16:
        return []
    names = text.partition("CPU Affinity")[0].split()
    named = len(names) <= _MOST_COLUMNS and names and all(_is_device(name) for name in names)
    return names if named and _GPU.fullmatch(names[0]) else []


def _is_device(name: str) -> bool:
    return name not in _CELLS and not _LINKS.fullmatch(name)


def _row(text: str, columns: list[str], number: int) -> _Row | Problem | None:
    """A line of the table; nothing if it is another line, a problem if it is cut short."""
    tokens = text.split(maxsplit=len(columns) + 4) if len(text) < 1 << 16 else []
    if len(tokens) < 2 or tokens[0] not in columns or tokens[1] in columns:
        return None
    cells = tuple(tokens[1 : len(columns) + 1])
    known = [cell in _CELLS or _LINKS.fullmatch(cell) is not None for cell in cells]
    if len(cells) == len(columns) and all(known):
        return _Row(tokens[0], cells, tuple(tokens[len(columns) + 1 :]), number)
    if not any(known) or _all_numbers(cells):
        return None
    return Problem("", number, 1, f"row {tokens[0]} of the table is cut short or unreadable")


def _all_numbers(cells: tuple[str, ...]) -> bool:
    """True for the tables of weights and hops of `rocm-smi`."""
    return all(cell.isdecimal() for cell in cells)


def _topology(
    file: str,
    columns: list[str],
    rows: dict[str, _Row],
    legend: dict[str, str],
    problems: tuple[Problem, ...],
) -> HostTopology:
    gpus = [name for name in columns if _GPU.fullmatch(name) and name in rows]
    nics = [name for name in columns if not _GPU.fullmatch(name)]
    at = {name: i for i, name in enumerate(columns)}
    cell = {name: rows[name].cells for name in gpus}
    pairs = tuple(tuple(_links(cell[a][at[b]]) for b in gpus) for a in gpus)
    distances = tuple(tuple(_distance(cell[a][at[b]]) for b in gpus) for a in gpus)
    amd = any("XGMI" in cells or "PCIE" in cells for cells in cell.values())
    switched = None if amd else _switched(pairs)
    read = tuple(_gpu(rows[name], links, switched) for name, links in zip(gpus, pairs, strict=True))
    if amd:
        read = tuple(replace(gpu, links=None) for gpu in read)
    return HostTopology(
        source=file,
        format="rocm-smi" if amd else "nvidia-smi",
        gpus=read,
        nics=tuple(
            NicPort(name=legend.get(name, name), line=rows[name].line if name in rows else 0)
            for name in nics
        ),
        numa_nodes=_numa(read),
        gpu_gpu=distances,
        gpu_nic=tuple(tuple(_distance(cell[a][at[nic]]) for nic in nics) for a in gpus),
        pair_links=pairs if not amd else (),
        switched=switched,
        problems=problems,
    )


def _links(cell: str) -> int:
    match = _LINKS.fullmatch(cell)
    return int(match[1]) if match else 0


def _distance(cell: str) -> Distance | None:
    return Distance.LINK if _LINKS.fullmatch(cell) else _CELLS.get(cell)


def _switched(pairs: tuple[tuple[int, ...], ...]) -> bool | None:
    """Through a switch every pair sees all links of a GPU: more than 18 in sum tells it.

    18 is the most that any GPU has (Hopper, Blackwell); None where the sum does not decide.
    """
    most = max((sum(row) for row in pairs), default=0)
    return True if most > 18 else None if most else False


def _gpu(row: _Row, links: tuple[int, ...], switched: bool | None) -> Gpu:
    cpus = listed(row.rest[0]) if row.rest else None
    numa = row.rest[1] if len(row.rest) > 1 else ""
    return Gpu(
        name=row.name,
        cpus=cpus,
        numa=int(numa) if numa.isdecimal() and len(numa) < 6 else None,
        links=max(links, default=0) if switched else sum(links),
        line=row.line,
    )


def _numa(gpus: tuple[Gpu, ...]) -> tuple[NumaNode, ...]:
    """Memory nodes that the GPUs name, with their processors."""
    nodes = {gpu.numa: gpu.cpus for gpu in gpus if gpu.numa is not None}
    return tuple(NumaNode(index, cpus) for index, cpus in sorted(nodes.items()))
