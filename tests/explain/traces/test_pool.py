"""Many traces over several processes, and their events kept as Parquet."""

import sys

import numpy as np
import pytest

from syncwall.explain.traces.job_traces import (
    explain_traces,
    store_events,
    stored_events,
    summaries,
    trace_files,
)
from syncwall.explain.traces.rank_comparison import RanksVerdict, explain_ranks
from syncwall.problems import InputError
from tests.explain.traces.job import Job, written


@pytest.fixture
def folder(tmp_path):
    for trace in Job(slower={2: 1.5}, steps=4).traces():
        written(trace, tmp_path / f"rank{trace.rank}.json.gz")
    return tmp_path


def test_processes_read_what_this_one_reads(folder):
    told = []
    paths = trace_files(folder)
    found = summaries(paths, workers=2, progress=lambda done, total: told.append((done, total)))
    alone = summaries(paths, workers=1)
    assert [one.rank for one in found.ranks] == [0, 1, 2, 3]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert 0 < found.peak_bytes < 2**30
    assert (found.ranks[0].bytes == 1e7).all()
    for one, other in zip(found.ranks, alone.ranks, strict=True):
        assert (one.by_order == other.by_order).all()
        assert one.own_s == pytest.approx(other.own_s)
    verdict = explain_ranks(found.ranks)
    assert (verdict.kind, verdict.ranks) == ("slow worker", (2,))


def test_the_memory_of_a_worker_is_its_own_not_that_of_who_started_it(folder):
    held = np.ones(2**27)  # 1 GiB, touched
    found = summaries(trace_files(folder), workers=2)
    assert found.peak_bytes < held.nbytes


def test_a_damaged_file_is_a_problem_not_the_end(folder):
    (folder / "rank9.json").write_text("no trace")
    found = summaries(trace_files(folder), workers=2)
    assert len(found.ranks) == 4
    assert [problem.file.endswith("rank9.json") for problem in found.problems] == [True]


def test_a_rank_that_is_there_twice_is_refused(folder):
    (folder / "copy.json.gz").write_bytes((folder / "rank0.json.gz").read_bytes())
    with pytest.raises(InputError, match="rank 0"):
        summaries(trace_files(folder), workers=1)


def test_a_folder_without_traces_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no \.json"):
        trace_files(tmp_path)


def test_ray_that_is_missing_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install ray"):
        summaries(trace_files(folder), ray="auto")


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
    with pytest.raises(InputError, match=r"pip install duckdb"):
        store_events(Job(ranks=1).traces()[0], tmp_path)


def test_workers_keep_what_they_read(tmp_path):
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    traces = Job(ranks=3, steps=2).traces()
    paths = [written(trace, tmp_path / f"rank{trace.rank}.json.gz") for trace in traces]
    summaries(paths, workers=2, store=tmp_path / "events")
    ranks = stored_events(tmp_path / "events").aggregate("rank, count(*)", "rank").fetchall()
    assert sorted(rank for rank, _ in ranks) == [0, 1, 2]


def test_the_first_two_ranks_of_more_are_told_before_the_others(tmp_path):
    told = []
    for trace in Job(ranks=4, slower={1: 1.5}).traces():
        written(trace, tmp_path / f"rank{trace.rank}.json.gz")
    files = trace_files(tmp_path)
    found = summaries(files, workers=1, first=lambda some: told.append([one.rank for one in some]))
    assert told == [[0, 1]]
    assert len(found.ranks) == 4
    verdicts: list[RanksVerdict] = []
    explain_traces(files, workers=1, so_far=verdicts.append)
    assert [one.ranks for one in verdicts] == [(1,)]
    summaries(files[:2], workers=1, first=lambda some: told.append([]))
    assert len(told) == 1
