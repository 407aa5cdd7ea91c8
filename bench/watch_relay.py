"""What relaying costs the first node of a large job: `python -m bench.watch_relay [NODES]`.

All nodes take part at one real `TCPStore`, as their agents would, one after the other in this
process. Printed are bytes and milliseconds of a round of the first node and of a leader, with one
key a node and in groups; once with new windows of steps in all reports, once without.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from torch.distributed import TCPStore

from bench.watch_scale import RANKS, STEP_S, reports
from syncwall.watch.relay import Exchange, group_size

ROUNDS = 7


class Counted:
    """A store that counts the keys and bytes that were read."""

    def __init__(self, store: Any) -> None:
        self._store, self.keys, self.bytes = store, 0, 0
        self.set, self.compare_set = store.set, store.compare_set

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """As of the store."""
        found: list[bytes] = self._store.multi_get(keys)
        self.keys += len(keys)
        self.bytes += sum(map(len, found))
        return found


def measured(nodes: int, size: Callable[[int], int], *, windows: bool) -> str:
    """Medians over rounds in which every node has told something new."""
    store = Counted(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
    with patch("syncwall.watch.relay.group_size", size):
        fleet = [Exchange(node, nodes) for node in range(nodes)]
    fleet[0].open(store)
    spent: dict[str, list[float]] = {"first": [], "leader": []}
    read: dict[str, tuple[int, int]] = {}
    for number in range(ROUNDS):
        now_s = 1e9 + 25 * STEP_S * number
        for node, one in reversed(list(enumerate(reports(nodes, number, now_s)))):
            fleet[node].tell(one if windows else replace(one, windows=()))
            store.keys = store.bytes = 0
            gc.freeze()  # what the other nodes hold is not this one's to look through
            began_s = time.perf_counter()
            fleet[node].round(store)
            role = "first" if node == 0 else "leader" if node == size(nodes) else ""
            if role:
                spent[role].append(time.perf_counter() - began_s)
                read[role] = store.keys, store.bytes
    said = [
        f"{role} node {statistics.median(times[1:]) * 1e3:.1f} ms, {read[role][0]:,} keys, "
        f"{read[role][1] / 1e3:,.1f} kB"
        for role, times in spent.items()
        if times
    ]
    return "; ".join(said)


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    print(f"{nodes:,} nodes, {nodes * RANKS:,} ranks, groups of {group_size(nodes)}")
    for windows in (False, True):
        with_ = "with a new window of each rank" if windows else "without windows"
        for name, size in (("one key a node", lambda n: n), ("in groups", group_size)):
            print(f"{with_}, {name}: {measured(nodes, size, windows=windows)}", flush=True)


if __name__ == "__main__":
    main()
