"""Events of ranks as Parquet, to be asked in SQL later; written by DuckDB (extra `[store]`).

Holds `store_events` and `stored_events`. One file a rank, `rank<n>.parquet`: rank, step, name,
category, start_ns (time of day), duration_ns, thread, stream, correlation, and of collectives their
kind, group and bytes.
"""

from pathlib import Path
from typing import Any

import numpy as np

from syncwall.problems import InputError
from syncwall.read.trace import Category, Trace

_SELECT = """
    SELECT ?::INTEGER AS rank, NULLIF(e.step, -1)::INTEGER AS step, n.name AS name,
           c.category AS category, e.start_ns, e.duration_ns, e.thread, e.stream, e.correlation,
           k.kind AS kind, k.process_group AS process_group, k.bytes AS bytes
    FROM events e JOIN names n ON n.number = e.name JOIN categories c ON c.number = e.category
    LEFT JOIN collectives k ON k.number = e.number
    ORDER BY e.start_ns, e.number
"""


def store_events(trace: Trace, folder: Path) -> Path:
    """Write the events of `trace`; the file that was written."""
    duckdb = _duckdb()
    if trace.rank is None:
        raise InputError.of("says not which rank it is of", file=trace.source)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{trace.rank}.parquet"
    with duckdb.connect() as base:
        for name, columns in _tables(trace).items():
            base.register(name, columns)
        base.sql(_SELECT, params=[trace.rank]).write_parquet(str(path), compression="zstd")
    return path


def stored_events(folder: Path) -> Any:
    """All ranks in `folder` as one DuckDB relation: `stored_events(d).filter("rank = 3").df()`."""
    duckdb = _duckdb()
    if not any(folder.glob("rank*.parquet")):
        raise InputError.of("holds no rank<n>.parquet", file=str(folder))
    return duckdb.connect().read_parquet(str(folder / "rank*.parquet"))


def _tables(trace: Trace) -> dict[str, dict[str, Any]]:
    count = len(trace)
    starts = np.array([step.start_ns for step in trace.steps], dtype=np.int64)
    ends = np.array([step.end_ns for step in trace.steps], dtype=np.int64)
    numbers = np.array([step.number for step in trace.steps], dtype=np.int64)
    place = np.searchsorted(starts, trace.start_ns, side="right") - 1
    step = np.full(count, -1)
    inside = place >= 0
    inside[inside] = trace.start_ns[inside] < ends[place[inside]]
    step[inside] = numbers[place[inside]]
    known = list(trace.collectives.values())
    return {
        "events": {
            "number": np.arange(count), "name": trace.name, "category": trace.category,
            "step": step, "start_ns": trace.base_ns + trace.start_ns,
            "duration_ns": trace.duration_ns, "thread": trace.thread, "stream": trace.stream,
            "correlation": trace.correlation,
        },
        "names": _listed("name", trace.names),
        "categories": _listed("category", [one.name.lower() for one in Category]),
        "collectives": {
            "number": np.array(list(trace.collectives), dtype=np.int64),
            "kind": np.array([one.kind for one in known], dtype=object),
            "process_group": np.array([one.group or "" for one in known], dtype=object),
            "bytes": np.array([np.nan if one.bytes is None else one.bytes for one in known]),
        },
    }  # fmt: skip


def _listed(column: str, texts: list[str]) -> dict[str, Any]:
    return {"number": np.arange(len(texts)), column: np.array(texts, dtype=object)}


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InputError.of('DuckDB is not installed: pip install "syncwall[store]"') from None
    return duckdb
