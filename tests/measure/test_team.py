"""Real processes over loopback: who is lost is named, and nobody waits for ever."""

import signal
import time

import pytest

from syncwall.measure.lost_ranks import (
    first_line,
    host_names,
    is_communication_error,
    silent,
    with_time_limit,
)
from tests.measure.ranks import WORKER, Rank, started

torch = pytest.importorskip("torch", reason="torch is not installed")


def going(*arguments: str, hosts: tuple[str, ...] = ("a", "b", "c")) -> list[Rank]:
    ranks = started(hosts, str(WORKER), *arguments)
    for rank in ranks:
        rank.read_until("going")
    return ranks


def survivors(ranks: list[Rank], victim: int, limit_s: float) -> list[str]:
    """What the others say last; all must end in time with code 1."""
    end = time.monotonic() + limit_s
    others = [rank for number, rank in enumerate(ranks) if number != victim]
    try:
        for rank in others:
            assert rank.end(max(0.1, end - time.monotonic())) == 1, rank.err
    finally:
        for rank in ranks:
            rank.clear()
    return [rank.out.splitlines()[-1] for rank in others]


@pytest.mark.slow
def test_ranks_join_know_each_other_and_leave():
    ranks = started(("a", "b", "b"), str(WORKER), "once")
    assert [rank.end(60) for rank in ranks] == [0, 0, 0], [rank.err for rank in ranks]
    assert ranks[0].out == "['a', 'b', 'b'] 2\n"
    assert ranks[2].out == "['a', 'b', 'b'] 1\n"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [1, 2])
def test_a_killed_rank_is_named_by_all_others(victim):
    ranks = going("loop")
    ranks[victim].kill()
    for said in survivors(ranks, victim, 45):
        assert said.startswith(f"LOST lost: host {'abc'[victim]} (rank {victim});"), said


@pytest.mark.slow
def test_a_killed_rank_0_is_named_by_all_others():
    ranks = going("loop")
    ranks[0].kill()
    for said in survivors(ranks, 0, 45):
        assert "rank 0 on host a can no longer be reached" in said


@pytest.mark.slow
def test_a_rank_that_stands_still_is_named_as_if_its_cable_were_cut():
    ranks = going("loop", "5", hosts=("a", "b", "c", "d"))
    ranks[2].kill(signal.SIGSTOP)
    for said in survivors(ranks, 2, 30):
        assert said.startswith("LOST lost: host c (rank 2);"), said


@pytest.mark.slow
def test_a_rank_that_never_comes_is_named():
    ranks = started(("a", "b"), str(WORKER), "once", "3", world=3)
    assert [rank.end(30) for rank in ranks] == [1, 1]
    said = "LOST 2 of 3 ranks have joined within 3 s; missing: rank 2"
    assert [rank.out.splitlines()[-1] for rank in ranks] == [said, said]


@pytest.mark.slow
def test_without_rank_0_the_others_say_so():
    (alone,) = started(("a", "b"), str(WORKER), "once", "3", ranks=(1,))
    assert alone.end(30) == 1
    assert "rank 0 cannot be reached at 127.0.0.1:" in alone.out


class Beats:
    """A store in which only some ranks beat."""

    def __init__(self, beating: set[int]) -> None:
        self.beating, self.looks = beating, 0

    def multi_get(self, keys: list[str]) -> list[int]:
        self.looks += 1
        return [self.looks if rank in self.beating else 0 for rank in range(len(keys))]


def test_only_those_who_do_not_beat_are_silent(monkeypatch):
    monkeypatch.setattr("syncwall.measure.lost_ranks.SILENT_S", 0.05)
    monkeypatch.setattr("syncwall.measure.lost_ranks._LOOK_S", 0.01)
    assert silent(Beats({0, 2}), 4) == [1, 3]
    assert silent(Beats({0, 1, 2, 3}), 4) == []


def test_a_call_that_hangs_is_given_up():
    with pytest.raises(TimeoutError, match="no answer"):
        with_time_limit(lambda: time.sleep(5), 0.05)
    assert with_time_limit(lambda: 7, 1.0) == 7
    with pytest.raises(ZeroDivisionError):
        with_time_limit(lambda: 1 / 0, 1.0)


def test_errors_of_the_network_are_told_from_others():
    assert is_communication_error(RuntimeError("[gloo/pair.cc:1] Connection closed by peer"))
    assert is_communication_error(ConnectionResetError())
    assert not is_communication_error(RuntimeError("CUDA out of memory"))
    assert not is_communication_error(FileNotFoundError("x"))
    error = RuntimeError("[/a/b/pair.cc:53] Read error: reset. This is typically caused\nby")
    assert first_line(error) == "Read error: reset"
    assert host_names(("a", "b", "b"), (1, 2)) == "host b (rank 1, 2)"
