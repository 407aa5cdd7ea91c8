"""Work in other processes: limits, losses, and who goes first."""

import asyncio
import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from syncwall.problems import InputError
from syncwall.web import workers
from syncwall.web.workers import Busy, TooLong, Workers, check_processes, encoded


def number(value):
    return {"value": value}


def busy_loop():
    while True:
        pass


def impatient():
    setattr(workers, "GRACE_S", 0.3)  # noqa: B010 - in this process only


def deaf():
    """Does not come back to Python, so that no alarm is heard."""
    sum(range(10**13))


def too_much():
    return len(bytearray(64 * 2**30))


def wrong():
    raise InputError.of("cannot be")


def ended():
    os.kill(os.getpid(), signal.SIGKILL)


def slow(seconds, mark):
    time.sleep(seconds)
    return [mark, time.monotonic()]


def known_runs():
    """How many tables of published runs this process has read."""
    from syncwall.answer.interval import _table

    return _table.cache_info().currsize


@pytest.fixture
def lived(monkeypatch):
    """`lived(coroutine function)`: run with workers of its own, which find this file."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])

    def lived(story, processes=2):
        async def whole():
            pool = Workers(processes)
            try:
                return await story(pool)
            finally:
                pool.close()

        return asyncio.run(whole())

    return lived


def test_an_answer_is_json_and_has_no_nan(lived):
    async def story(pool):
        return [
            await pool.call(number, value, limit_s=10)
            for value in (1.5, float("nan"), float("inf"), "ü\ud800", (1, {"a": float("nan")}))
        ]

    found = [json.loads(body) for body in lived(story)]
    assert [one["value"] for one in found] == [1.5, None, None, "ü?", [1, {"a": None}]]


def test_what_loops_is_ended_and_others_are_answered(lived):
    async def story(pool):
        before = time.monotonic()
        with pytest.raises(TooLong, match=r"more than 0\.3 s"):
            await pool.call(busy_loop, limit_s=0.3)
        return time.monotonic() - before, await pool.call(number, 1, limit_s=10)

    seconds, answer = lived(story, 1)
    assert seconds < 5
    assert json.loads(answer) == {"value": 1}


def test_what_hears_no_alarm_is_ended_with_its_process(lived):
    async def story(pool):
        await pool.call(impatient, limit_s=10)
        with pytest.raises(Busy, match="was lost"):
            await pool.call(deaf, limit_s=0.2)
        return await pool.call(number, 2, limit_s=10)

    assert json.loads(lived(story, 1)) == {"value": 2}


def test_what_needs_too_much_memory_is_refused(lived):
    async def story(pool):
        with pytest.raises(TooLong, match="too much memory"):
            await pool.call(too_much, limit_s=10)
        return await pool.call(number, 3, limit_s=10)

    assert json.loads(lived(story, 1)) == {"value": 3}


def test_a_lost_process_is_replaced_and_its_neighbours_are_answered(lived):
    async def story(pool):
        await pool.warm()
        beside = asyncio.ensure_future(pool.call(slow, 0.5, "beside", limit_s=10))
        await asyncio.sleep(0.2)
        with pytest.raises(Busy, match="was lost"):
            await pool.call(ended, limit_s=10)
        mark, _ = json.loads(await beside)
        return mark, await pool.call(number, 4, limit_s=10)

    mark, answer = lived(story)
    assert mark == "beside"
    assert json.loads(answer) == {"value": 4}


def test_a_problem_of_the_input_stays_one(lived):
    async def story(pool):
        with pytest.raises(InputError, match="cannot be"):
            await pool.call(wrong, limit_s=10)

    lived(story, 1)


def niceness():
    return os.nice(0)


def test_what_can_wait_never_delays_what_is_urgent(lived):
    async def story(pool):
        await pool.warm()
        rest = [asyncio.ensure_future(pool.call(slow, 0.5, n, limit_s=10, later=True)) for n in range(3)]
        await asyncio.sleep(0.05)
        before = time.monotonic()
        nice = int(await pool.call(niceness, limit_s=10))
        waited = time.monotonic() - before
        done = [json.loads(body)[0] for body in await asyncio.gather(*rest)]
        return waited, done, int(await pool.call(niceness, limit_s=10, later=True)) - nice

    waited, done, less = lived(story, 1)
    assert waited < 1.5  # what can wait takes as long in all
    assert done == [0, 1, 2]
    assert less == workers.PATIENCE


def test_who_goes_away_leaves_the_queue_and_nothing_is_lost(lived):
    async def story(pool):
        running = asyncio.ensure_future(pool.call(slow, 0.3, "first", limit_s=10))
        waiting = [asyncio.ensure_future(pool.call(number, n, limit_s=10)) for n in range(5)]
        await asyncio.sleep(0.05)
        for one in (*waiting[:4], running):
            one.cancel()
        before = time.monotonic()
        last = json.loads(await waiting[4])
        await asyncio.gather(running, *waiting, return_exceptions=True)
        return last, time.monotonic() - before, pool

    last, waited, pool = lived(story, 1)
    assert last == {"value": 4}
    assert waited > 0.15  # the process was not free before the first had ended
    lane = pool._urgent
    assert (len(lane._idle), len(lane._waiting), len(lane._all)) == (1, 0, 1)


def test_too_many_who_wait_are_refused(lived, monkeypatch):
    monkeypatch.setattr(workers, "WAITING", 3)

    async def story(pool):
        calls = [asyncio.ensure_future(pool.call(slow, 0.1, n, limit_s=10)) for n in range(6)]
        return await asyncio.gather(*calls, return_exceptions=True)

    found = lived(story, 1)
    assert [isinstance(one, Busy) for one in found] == [False] * 4 + [True] * 2


def test_encoded_is_what_json_reads():
    assert encoded({"a": [1, "é", None]}) == '{"a":[1,"é",null]}'.encode()


def test_processes_start_where_no_folder_for_temporary_files_can_be_written(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/nowhere"])
    check_processes()
    assert tempfile.gettempdir() == "/dev/shm"


def test_a_machine_that_lets_no_process_be_started_is_named(monkeypatch):
    def lock(_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(multiprocessing.context.BaseContext, "Lock", lock)
    with pytest.raises(InputError, match="Read-only file system: is /dev/shm writable"):
        check_processes()


@pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="processes start clean"
)
def test_what_every_answer_needs_is_loaded_once_for_all_processes(lived):
    """A process that has answered nothing yet has it from the one that it was started from."""

    async def story(pool):
        return await pool.call(known_runs, limit_s=10)

    assert json.loads(lived(story, 1)) == 1
