"""Detect ranks that stopped answering, and propagate who they are to all that are left.

Holds `Heartbeat` (a sign of life of every rank), `silent` (who stopped giving one), `bounded`,
which gives up on a store that does not answer, `LostRankError`, `explained` (after a failure: the
error that names the lost host) and `farewell` (what a rank that ends on its own leaves for the
others). A rank that waits in a collective still beats; one that was killed, stopped or cut off does
not.

The first rank that finds out writes it into the store, and the others read it there: those that
leave later must not take those that left earlier for the lost ones.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

BEAT_S = 2.0
SILENT_S = 3.5 * BEAT_S
"""A rank whose beat does not change for so long is lost."""
_LOOK_S = 0.5

Returned = TypeVar("Returned")


class Heartbeat:
    """Beats for one rank, over a connection of its own, until it is stopped."""

    def __init__(self, connect: Callable[[], Any], rank: int) -> None:
        self._connect = connect
        self._key = f"beat/{rank}"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="syncwall-heart", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the heartbeat; a thread that hangs in the store is left behind."""
        self._end.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            store = self._connect()
            while not self._end.wait(BEAT_S):
                store.add(self._key, 1)
        except (RuntimeError, OSError):  # the store is gone: whoever looks there will notice
            return


def first_beat(store: Any, rank: int) -> None:
    """Make the beat of `rank` known, so that it can be looked for."""
    store.add(f"beat/{rank}", 1)


def silent(store: Any, world: int, known: Callable[[], bool] = lambda: False) -> list[int]:
    """The ranks whose beat has not changed for `SILENT_S`.

    Returns early when all have beaten, or when `known` says that another rank has found out.
    """
    keys = [f"beat/{rank}" for rank in range(world)]
    first = store.multi_get(keys)
    waiting = set(range(world))
    end = time.monotonic() + SILENT_S
    while waiting and time.monotonic() < end and not known():
        time.sleep(_LOOK_S)
        now = store.multi_get(keys)
        waiting = {rank for rank in waiting if now[rank] == first[rank]}
    return sorted(waiting)


def with_time_limit(call: Callable[[], Returned], limit_s: float) -> Returned:
    """What `call` returns; `TimeoutError` if it takes longer than `limit_s`.

    A store behind a cut network blocks for ever, whatever its own timeout says.
    """
    found: list[Returned] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again below, by the caller
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(f"no answer within {limit_s:.0f} s")
    return found[0]


_VERDICT = "verdict"
_REACH_S = 5.0
"""How long the store may take to answer beyond the search itself."""
_COMMUNICATION = re.compile(
    r"gloo|nccl|connect|timed? ?out|broken pipe|reset by peer|socket|store|watchdog", re.IGNORECASE
)


class LostRankError(RuntimeError):
    """A rank did not join, ended, or can no longer be reached; the message names its host."""


def is_communication_error(error: BaseException) -> bool:
    """True if `error` tells of others rather than of this rank."""
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    if type(error).__name__.startswith("Dist"):  # torch's own; not all versions have all of them
        return True
    return isinstance(error, RuntimeError) and bool(_COMMUNICATION.search(str(error)))


def explained(
    store: Any, hosts: Sequence[str], rank: int, error: BaseException, timeout_s: float
) -> LostRankError:
    """The error that says who is lost, the same on every rank that is left.

    Takes about `SILENT_S`, or up to `_REACH_S` longer if the store is beyond reach. Rank 0 keeps
    the store, so it stays until the others know, `timeout_s` and a little longer at most.
    """

    def search() -> dict[str, Any]:
        lost = silent(store, len(hosts), lambda: bool(store.check([_VERDICT])))
        found = _agreed(store, lost, _said(hosts, lost, rank, error))
        store.set(f"told/{rank}", "yes")
        return found

    try:
        verdict = with_time_limit(search, SILENT_S + _REACH_S)
    except (RuntimeError, OSError):
        return LostRankError(
            f"rank 0 on host {hosts[0]} can no longer be reached from host {hosts[rank]} (rank {rank})"
        )
    if rank == 0:
        alive = [other for other in range(len(hosts)) if other not in verdict["lost"]]
        _wait_for_the_others(store, alive, timeout_s)
    return LostRankError(verdict["message"])


def farewell(store: Any, hosts: Sequence[str], rank: int, error: BaseException) -> None:
    """Leave word of why this rank ends, if the store can be reached."""
    message = f"host {hosts[rank]} (rank {rank}) ended: {type(error).__name__}: {first_line(error)}"
    try:
        with_time_limit(lambda: _agreed(store, [rank], message), _REACH_S)
    except (RuntimeError, OSError):
        return


def _agreed(store: Any, lost: list[int], message: str) -> dict[str, Any]:
    """The verdict of the first who came to one."""
    own = json.dumps({"lost": lost, "message": message})
    found: dict[str, Any] = json.loads(store.compare_set(_VERDICT, "", own))
    return found


def first_line(error: BaseException) -> str:
    """The first sentence of what an error says, without the place in the source code."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[^\]]*\.(cc|cpp|h):\d+\]\s*", "", line).split(". This is ")[0][:200]


def host_names(hosts: Sequence[str], ranks: Sequence[int]) -> str:
    """The hosts of `ranks`: "host b (rank 2, 3); host c (rank 4)"."""
    where: dict[str, list[int]] = {}
    for rank in ranks:
        where.setdefault(hosts[rank], []).append(rank)
    return "; ".join(f"host {host} (rank {', '.join(map(str, r))})" for host, r in where.items())


def _said(hosts: Sequence[str], lost: Sequence[int], rank: int, error: BaseException) -> str:
    """What one rank has found, as a line for all."""
    if lost:
        return f"lost: {host_names(hosts, lost)}; the others gave up waiting: {first_line(error)}"
    return (
        f"host {hosts[rank]} (rank {rank}) gave up waiting although every rank is alive: {first_line(error)}"
    )


def _wait_for_the_others(store: Any, ranks: list[int], timeout_s: float) -> None:
    """Wait until all `ranks` know: the ones still in a collective come when it times out."""
    limit_s = timeout_s + _REACH_S
    keys = [f"told/{rank}" for rank in ranks]

    def wait() -> None:
        end = time.monotonic() + limit_s
        while not store.check(keys) and time.monotonic() < end:
            time.sleep(0.2)

    try:
        store.set_timeout(timedelta(seconds=limit_s))
        with_time_limit(wait, limit_s + 1.0)
    except (RuntimeError, OSError):
        return
