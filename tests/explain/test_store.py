import sys

import numpy as np
import pytest

from syncwall.explain.pool import store_events, stored_events, summaries
from syncwall.problems import InputError
from tests.explain.job import Job, written


def test_all_events_of_all_ranks_can_be_asked_for(tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    traces = Job(ranks=2, steps=3).traces()
    for trace in traces:
        store_events(trace, tmp_path)
    found = stored_events(tmp_path)
    count = found.aggregate("count(*)").fetchall()[0][0]
    assert count == sum(len(trace) for trace in traces)
    rows = found.filter("kind = 'all-reduce'").aggregate(
        "rank, count(*), sum(duration_ns), min(start_ns), max(bytes), max(step)", "rank"
    )
    for rank, calls, total, first, size, step in rows.fetchall():
        index = np.array(list(traces[rank].collectives))
        assert (calls, size, step) == (3, 1e7, 3)
        assert total == traces[rank].duration_ns[index].sum()
        assert first == traces[rank].base_ns + traces[rank].start_ns[index].min()


def test_without_duckdb_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"pip install \"syncwall\[store\]\""):
        store_events(Job(ranks=1).traces()[0], tmp_path)


def test_workers_keep_what_they_read(tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    traces = Job(ranks=3, steps=2).traces()
    paths = [written(trace, tmp_path / f"rank{trace.rank}.json.gz") for trace in traces]
    summaries(paths, workers=2, store=tmp_path / "events")
    ranks = stored_events(tmp_path / "events").aggregate("rank, count(*)", "rank").fetchall()
    assert sorted(rank for rank, _ in ranks) == [0, 1, 2]
