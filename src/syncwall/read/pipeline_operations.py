"""Tables with one row for each operation of a pipeline-parallel job.

Holds `WorkerOperation`, `Operations` (the table as columns) and `read_operations` for CSV, CSV.gz
and Parquet. The columns are those of the artifact ByteDance-Seed/StragglerAnalysis: dp_rank, stage,
rank, step, optype, start_ts, duration, seq_id, mc, mb_id, gmc; times in seconds. `OperationKind`,
`COMPUTE` and `TRANSFERS`: kinds of operations of a pipeline-parallel training step. The names are
those of the artifact ByteDance-Seed/StragglerAnalysis.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from syncwall.problems import EmptyInput, InputError, Problem, did_you_mean
from syncwall.read.limited import DEFAULT, open_limited, read_lines


class OperationKind(StrEnum):
    """What an operation is; the values are the names in the tables."""

    FORWARD = "forward-compute"
    BACKWARD = "backward-compute"
    FORWARD_SEND = "forward-send"
    FORWARD_RECEIVE = "forward-recv"
    BACKWARD_SEND = "backward-send"
    BACKWARD_RECEIVE = "backward-recv"
    PARAMETERS = "params-all-gather"
    GRADIENTS = "grads-reduce-scatter"
    SEPARATE_GRADIENTS = "separate-grads-all-reduce"
    NORM_GRADIENTS = "layernorm-grads-all-reduce"
    EMBEDDING_GRADIENTS = "embedding-grads-all-reduce"
    CLIP = "optimizer-clip-main-grad"
    OPTIMIZER = "optimizer"
    GARBAGE_COLLECTION = "gc"

    @property
    def is_forward(self) -> bool:
        """Whether it belongs to the forward pass."""
        return self.value.startswith("forward")

    @property
    def is_send(self) -> bool:
        """Whether it sends to another stage."""
        return self.value.endswith("-send")

    @property
    def is_computation(self) -> bool:
        """Whether it works on its own worker only; all other kinds communicate."""
        return self in (*COMPUTE, OperationKind.OPTIMIZER, OperationKind.GARBAGE_COLLECTION)

    @property
    def account(self) -> str:
        """What its slowdown is counted under: both ends of a transfer together, else itself."""
        if self not in TRANSFERS:
            return self.value
        return "forward-pp-comm" if self.is_forward else "backward-pp-comm"

    @property
    def computation(self) -> "OperationKind":
        """The computation of the same direction."""
        return OperationKind.FORWARD if self.is_forward else OperationKind.BACKWARD


COMPUTE: Final = (OperationKind.FORWARD, OperationKind.BACKWARD)
TRANSFERS: Final = (
    OperationKind.FORWARD_SEND,
    OperationKind.FORWARD_RECEIVE,
    OperationKind.BACKWARD_SEND,
    OperationKind.BACKWARD_RECEIVE,
)
"""Between pipeline stages."""


LARGEST_NUMBER = 2**31 - 1
"""Ranks, steps and counters from this on are damage."""
LONGEST_S = 1e12
MOST_PROBLEMS = 20
"""Problems kept; a damaged file has the same one on every line."""
MOST_ROWS = 20_000_000
_LONGEST_LINE = 4096

_WHOLE: Final = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "mb_id", "gmc")
_TIMES: Final = ("start_ts", "duration")
COLUMNS: Final = (*_WHOLE, "optype", *_TIMES)
_KINDS: Final = {kind.value: number for number, kind in enumerate(OperationKind)}


@dataclass(frozen=True, slots=True)
class WorkerOperation:
    """One operation on one worker in one step."""

    kind: OperationKind
    stage: int
    sequence: int
    """Counted per kind, worker and step in order of the start."""
    chunk: int
    """Model chunk of the stage (interleaved pipelines have several); -1 where it does not apply."""
    global_chunk: int
    """Model chunk of the model; -1 where it does not apply."""
    microbatch: int
    """-1 except for computations."""
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Operations:
    """A table as columns, in the order of the file."""

    source: str
    """The file."""
    dp_rank: Any
    stage: Any
    """Pipeline rank."""
    rank: Any
    """Global rank of the worker."""
    step: Any
    kind: Any
    """Index into `list(Kind)` (int8)."""
    start_s: Any
    duration_s: Any
    sequence: Any
    chunk: Any
    microbatch: Any
    """-1 except for computations."""
    global_chunk: Any
    problems: tuple[Problem, ...] = ()
    """Rows that were left out, at most `MOST_PROBLEMS`, and why."""

    def __len__(self) -> int:
        return len(self.step)


def read_operations(path: Path | str) -> Operations:
    """The table in `path`; rows that cannot be used are left out and listed in `problems`."""
    path = Path(path)
    if path.suffix == ".parquet":
        return _columns(path, *_from_parquet(path))
    return _columns(path, *_from_csv(path))


class _Problems:
    """The first faults of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[Problem] = []

    def add(self, message: str, line: int = 0) -> None:
        if len(self.found) < MOST_PROBLEMS:
            self.found.append(Problem(str(self.path), line, 1 if line else 0, message))


def _from_csv(path: Path) -> tuple[dict[str, Any], _Problems]:
    problems = _Problems(path)
    lines = _lines(path, problems)
    header = next(lines, "").split(",")
    _check_header(path, header)
    places = [header.index(name) for name in COLUMNS]
    kept: list[array[Any]] = [array("d" if name in _TIMES else "q") for name in COLUMNS]
    for number, line in enumerate(lines, start=2):
        if len(kept[0]) >= MOST_ROWS:
            problems.add(f"has more than {MOST_ROWS:,} rows; the rest was not read")
            break
        try:
            values = _row(line.split(","), places)
        except (ValueError, IndexError) as error:
            problems.add(f"row left out: {_reason(error)}", number)
            continue
        for column, value in zip(kept, values, strict=True):
            column.append(value)
    return {name: np.array(c) for name, c in zip(COLUMNS, kept, strict=True)}, problems


def _lines(path: Path, problems: _Problems) -> Iterator[str]:
    """Lines until the end or until the file breaks off."""
    with open_limited(path) as stream:
        first = True
        for line in read_lines(stream, str(path), _LONGEST_LINE):
            yield line.decode("utf-8-sig" if first else "utf-8", "replace").rstrip("\r\n")
            first = False
        if stream.problem is not None:
            problems.add(stream.problem.message)


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        message = f"has no column {', '.join(missing)}; a table of operations has {', '.join(COLUMNS)}"
        raise InputError.of(message, file=str(path), line=1, column=1)


def _row(cells: list[str], places: list[int]) -> list[float | int]:
    """Cells of one row in the order of `COLUMNS`; raises ValueError if one is damaged."""
    named = [cells[place] for place in places]
    whole = [int(cell) for cell in named[: len(_WHOLE)]]
    if max(whole) > LARGEST_NUMBER or min(whole) < -1 or min(whole[:5]) < 0:
        raise ValueError("a rank, step or counter is out of range")
    kind = named[len(_WHOLE)]
    if kind not in _KINDS:
        raise ValueError(f'"{kind[:40]}" is not a known optype{did_you_mean(kind[:40], _KINDS)}')
    start_s, duration_s = float(named[-2]), float(named[-1])
    if not (abs(start_s) < LONGEST_S and 0 <= duration_s < LONGEST_S):
        raise ValueError("start_ts or duration is not a time in seconds")
    return [*whole, _KINDS[kind], start_s, duration_s]


def _reason(error: Exception) -> str:
    return "it has too few cells" if isinstance(error, IndexError) else str(error)[:160]


def _from_parquet(path: Path) -> tuple[dict[str, Any], _Problems]:
    try:
        duckdb: Any = import_module("duckdb")  # optional, so not there where types are checked
    except ImportError:
        message = "Parquet needs DuckDB: pip install duckdb"
        raise InputError.of(message, file=str(path)) from None
    wanted = ", ".join(
        [f"CAST({name} AS BIGINT) AS {name}" for name in _WHOLE]
        + ["CAST(optype AS VARCHAR) AS optype"]
        + [f"CAST({name} AS DOUBLE) AS {name}" for name in _TIMES]
    )
    query = f"SELECT {wanted} FROM read_parquet(?) LIMIT {MOST_ROWS}"  # noqa: S608  # our own names
    try:
        with duckdb.connect() as connection:
            _refuse_expanding(connection, path)
            found = connection.execute(query, [str(path)]).fetchnumpy()
    except duckdb.Error as error:
        message = f"cannot be read as a table of operations: {str(error).splitlines()[0][:200]}"
        raise InputError.of(message, file=str(path)) from None
    return _usable(found, _Problems(path))


def _refuse_expanding(connection: Any, path: Path) -> None:
    """InputError for a table that is far larger than its file, as no recorded one is."""
    rows = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(path)]).fetchone()[0]
    raw_bytes = rows * 8 * len(COLUMNS)
    if raw_bytes > max(DEFAULT.free_bytes, DEFAULT.ratio * path.stat().st_size):
        raise InputError.of(f"expands more than {DEFAULT.ratio:.0f} times", file=str(path))


def _usable(found: dict[str, Any], problems: "_Problems") -> tuple[dict[str, Any], "_Problems"]:
    """The rows of a Parquet table that pass the same checks as those of a CSV."""
    columns = {name: np.ma.filled(found[name], -2) for name in _WHOLE}
    columns |= {name: np.ma.filled(found[name], np.nan) for name in _TIMES}
    names = [str(name) for name in found["optype"]]
    columns["optype"] = np.array([_KINDS.get(name, -1) for name in names], dtype=np.int64)
    good = columns["optype"] >= 0
    for number, name in enumerate(_WHOLE):
        good &= (columns[name] >= (0 if number < 5 else -1)) & (columns[name] <= LARGEST_NUMBER)
    good &= (np.abs(columns["start_ts"]) < LONGEST_S) & (columns["duration"] >= 0)
    good &= columns["duration"] < LONGEST_S
    if not good.all():
        problems.add(f"{int((~good).sum()):,} rows left out: a cell is missing or out of range")
    return {name: column[good] for name, column in columns.items()}, problems


def _columns(path: Path, found: dict[str, Any], problems: _Problems) -> Operations:
    if not len(found["step"]):
        reasons = [*problems.found[:3], Problem(str(path), 0, 0, "has no operation")]
        raise (InputError if problems.found else EmptyInput)(reasons)
    whole = {name: found[name].astype(np.int64) for name in _WHOLE}
    return Operations(
        source=str(path),
        dp_rank=whole["dp_rank"],
        stage=whole["stage"],
        rank=whole["rank"],
        step=whole["step"],
        kind=found["optype"].astype(np.int8),
        start_s=found["start_ts"].astype(float),
        duration_s=found["duration"].astype(float),
        sequence=whole["seq_id"],
        chunk=whole["mc"],
        microbatch=whole["mb_id"],
        global_chunk=whole["gmc"],
        problems=tuple(problems.found),
    )
