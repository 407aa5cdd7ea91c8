"""A sign of life of every rank, and who has stopped giving one.

Holds `Heartbeat` (the thread that gives it), `silent` (who stopped) and `bounded`, which gives up
on a store that does not answer. A rank that waits in a collective still beats; one that was killed,
stopped or cut off does not.
"""

import threading
import time
from collections.abc import Callable
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
        """Beat no more; a thread that hangs in the store is left behind."""
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
    """The ranks whose beat stands still for `SILENT_S`.

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


def bounded(call: Callable[[], Returned], limit_s: float) -> Returned:
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
