"""Traces that do not say their rank: it is that of the name or of the place of the file, and this is said."""

from dataclasses import replace

import pytest

from syncwall.explain.answer import explain
from syncwall.problems import InputError
from tests.explain.traces.job import Job, written


def folder(tmp_path, *names: str):
    """A job whose third rank is slow, one file a rank, none of which says its rank."""
    paths = [tmp_path / name for name in names]
    for path, trace in zip(paths, Job(slower={2: 1.5}, steps=6).traces(), strict=True):
        path.parent.mkdir(exist_ok=True)
        written(replace(trace, rank=None, world_size=None, host=None), path)
    return tmp_path


@pytest.mark.parametrize(
    "names",
    [
        tuple(f"rank{n}.json.gz" for n in range(4)),
        tuple(f"trace_rank_{n}_step10.json.gz" for n in range(4)),
        tuple(f"worker{n}.json.gz" for n in range(4)),
        tuple(f"rank_{n}/trace.json.gz" for n in range(4)),
        tuple(f"rank-{n}.1699999999.pt.trace.json.gz" for n in range(4)),
    ],
)
def test_the_rank_is_that_of_the_name(names, tmp_path):
    found = explain([folder(tmp_path, *names)])
    assert found.ranks is not None
    assert found.ranks.ranks == (2,)
    assert "(ranks assumed from the names of the files)" in str(found.verdict)


@pytest.mark.parametrize(
    "names",
    [
        (
            "node_98.1.pt.trace.json.gz",
            "node_99.1.pt.trace.json.gz",
            "node_100.1.pt.trace.json.gz",
            "node_101.1.pt.trace.json.gz",
        ),
        tuple(f"job-worker-{n}_7.1699{999 - n}.pt.trace.json.gz" for n in (2, 3, 10, 11)),
        ("a.json.gz", "b.json.gz", "c.json.gz", "d.json.gz"),
    ],
)
def test_else_it_is_that_of_the_place_among_the_files(names, tmp_path):
    found = explain([folder(tmp_path, *names)])
    assert found.ranks is not None
    assert found.ranks.ranks == (2,)
    assert "(ranks assumed from the order of the files)" in str(found.verdict)
    assert any("assumed from the order" in fact.says for fact in found.facts)


def test_two_traces_of_one_process_are_one_rank(tmp_path):
    names = [f"node_{process}.{when}.pt.trace.json.gz" for process in (7, 8) for when in (1, 2)]
    with pytest.raises(InputError, match="give each rank once"):
        explain([folder(tmp_path, *names)])


def test_ranks_that_traces_say_are_not_assumed(tmp_path):
    for trace in Job(slower={2: 1.5}, steps=6).traces():
        written(trace, tmp_path / f"{9 - (trace.rank or 0)}.json.gz")
    found = explain([tmp_path])
    assert found.ranks is not None
    assert found.ranks.ranks == (2,)
    assert "assumed" not in str(found)
