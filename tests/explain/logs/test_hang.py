"""Where ranks part, from flight recorder dumps."""

import json

import pytest

from syncwall.explain.hang import find_hangs
from syncwall.problems import InputError
from syncwall.read.flight_recorder import read_flight_recorder
from tests.read.nccl_samples import flight


@pytest.fixture
def dumps(tmp_path):
    def write(*bodies):
        found = []
        for rank, body in enumerate(bodies):
            path = tmp_path / f"nccl_trace_rank_{rank}"
            path.write_text(json.dumps(body))
            found.append(read_flight_recorder(path))
        return found

    return write


def test_a_job_that_ended_has_no_hang(dumps):
    assert find_hangs(dumps(*(flight(rank, 5) for rank in range(4)))) == ()


def test_the_rank_that_did_not_come_is_named(dumps):
    bodies = [flight(rank, 6, state="started") for rank in range(4)]
    bodies[2] = flight(2, 5)
    (hang,) = find_hangs(dumps(*bodies))
    assert (hang.kind, hang.sequence, hang.operation) == ("missing", 6, "all_reduce")
    assert (hang.missing, hang.waiting) == ((2,), (0, 1, 3))
    assert "train.py:42" in hang.last[2]
    assert "number 5" in hang.last[2]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"input_sizes": [[4, 255]]}, "size"),
        ({"input_dtypes": ["BFloat16"]}, "type"),
        ({"profiling_name": "nccl:broadcast"}, "operation"),
    ],
)
def test_the_rank_that_differs_is_named(dumps, change, kind):
    bodies = [flight(rank, 6, state="started") for rank in range(4)]
    bodies[1] = flight(1, 6, state="started", **change)
    (hang,) = find_hangs(dumps(*bodies))
    assert (hang.kind, hang.sequence, hang.odd, hang.waiting) == (kind, 6, (1,), (0, 2, 3))


def test_all_to_all_may_differ_in_size(dumps):
    other = {"profiling_name": "nccl:all_to_all"}
    bodies = [flight(r, 6, state="completed", input_sizes=[[r]], **other) for r in range(4)]
    assert find_hangs(dumps(*bodies)) == ()


def test_the_same_collective_that_does_not_end(dumps):
    bodies = [flight(rank, 6, state="started") for rank in range(4)]
    bodies[3] = flight(3, 6, state="scheduled")
    (hang,) = find_hangs(dumps(*bodies))
    assert (hang.kind, hang.odd, hang.missing) == ("unfinished", (3,), ())


def test_ranks_without_a_dump_are_told(dumps):
    (hang,) = find_hangs(dumps(flight(0, 6, state="started"), flight(1, 5)))
    assert (hang.missing, hang.without_dump) == ((1,), (2, 3))


def test_the_group_that_others_wait_for_comes_first(dumps):
    """Ranks 0 and 1 wait in the world for 2 and 3, which wait in their own group for each other."""

    def own(rank, state, dtype):
        entry = flight(rank, 1, state=state, input_dtypes=[dtype])["entries"][0]
        return entry | {"process_group": ["1", "pair"], "time_created_ns": 99_000}

    bodies = [flight(r, 6, state="started") if r < 2 else flight(r, 5) for r in range(4)]
    bodies[2]["entries"].append(own(2, "started", "Float"))
    bodies[3]["entries"].append(own(3, "started", "Half"))
    first, second = find_hangs(dumps(*bodies))
    assert (first.group, first.kind) == ("1", "type")
    assert (second.group, second.missing) == ("0", (2, 3))


def test_two_dumps_of_one_rank_are_an_error(dumps):
    (dump,) = dumps(flight(0, 2))
    with pytest.raises(InputError, match="second dump"):
        find_hangs([dump, dump])
