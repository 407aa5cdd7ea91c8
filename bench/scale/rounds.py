"""What watching costs at thousands of nodes: rounds of judging, and of relaying reports.

Reports of all nodes with eight ranks each are made up, one rank of them 15 % slow, one hung; agents
would have sent them.
"""

import gc
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from syncwall.cause import Cause
from syncwall.watch.events import (
    NodeReport,
    Phase,
    Process,
    RankState,
    StepWindow,
    from_json,
    to_json,
)
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS
from syncwall.watch.relay import Exchange, group_size

RANKS, STEP_S, ROUNDS = 8, 1.0, 8
SLOW_RANK, HUNG_RANK = 12_345, 54_321


def reports(nodes: int, number: int, now_s: float) -> tuple[NodeReport, ...]:
    """Of all nodes, after `number` windows; the hung rank stands from the last round on."""
    random = np.random.default_rng(number)
    own_s = 0.8 * STEP_S * (1 + 0.004 * random.standard_normal(nodes * RANKS))
    if nodes * RANKS > SLOW_RANK:
        own_s[SLOW_RANK] *= 1.15
    silent_s, step = 60.0 if number == ROUNDS - 1 else 0.1, 25 * number

    def state(rank: int, node: int) -> RankState:
        is_hung = rank == HUNG_RANK and silent_s > 1
        phase: Phase = "data" if is_hung else "exposed communication"
        about = (rank, f"node-{node}", 1000 + rank, Process.RUNNING, phase, now_s - silent_s, step)
        return RankState(*about, collectives=step, step_s=STEP_S, longest_silence_s=0.4)

    def window(rank: int, spent_s: float) -> StepWindow:
        seconds = {Cause.FORWARD: spent_s, Cause.EXPOSED_DP: STEP_S - spent_s}
        return StepWindow(rank, step, 25, spent_s, STEP_S, seconds, now_s)

    found = []
    for node in range(nodes):
        ranks = range(node * RANKS, node * RANKS + RANKS)
        states = tuple(state(rank, node) for rank in ranks)
        windows = tuple(window(rank, float(own_s[rank])) for rank in ranks)
        about = (f"node-{node}", node, number, now_s)
        found.append(NodeReport(*about, states, windows, world=nodes * RANKS))
    return tuple(found)


def rounds(nodes: int = 10_000) -> None:
    """CPU seconds of rounds of judging with and without new windows, what is found, and memory."""
    judged = Findings(Path(tempfile.mkdtemp()), THRESHOLDS)
    print(f"{nodes:,} nodes, {nodes * RANKS:,} ranks")
    for number in range(ROUNDS):
        now_s = 1e9 + 25 * STEP_S * number
        made = reports(nodes, number, now_s)
        silent_s = {one.node: 0.2 for one in made}
        spent = []
        for _ in range(2):
            began_s = time.process_time()
            findings, _new = judged.round(made, silent_s, now_s)
            spent.append(time.process_time() - began_s)
        kinds = [f"{one.kind} {one.rank}" for one in findings]
        print(f"round {number}: {spent[0]:.2f} s with windows, {spent[1]:.2f} s without: {kinds}")
    text = to_json(made[0])
    began_s = time.process_time()
    for _ in range(200):
        from_json(NodeReport, text)
    each_s = (time.process_time() - began_s) / 200
    print(f"a report: {len(text):,} bytes, all of them read in {each_s * nodes:.1f} s")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB at most")


class Counted:
    def __init__(self, store: Any) -> None:
        self._store, self.keys, self.bytes = store, 0, 0
        self.set, self.compare_set = store.set, store.compare_set

    def multi_get(self, keys: list[str]) -> list[bytes]:
        found: list[bytes] = self._store.multi_get(keys)
        self.keys += len(keys)
        self.bytes += sum(map(len, found))
        return found


def relayed(nodes: int, size: Callable[[int], int], *, windows: bool) -> str:
    from torch.distributed import TCPStore

    store = Counted(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
    with patch("syncwall.watch.relay.group_size", size):
        fleet = [Exchange(node, nodes) for node in range(nodes)]
    fleet[0].open(store)
    spent: dict[str, list[float]] = {"first": [], "leader": []}
    read: dict[str, str] = {}
    for number in range(ROUNDS - 1):
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
                read[role] = f"{store.keys:,} keys, {store.bytes / 1e3:,.1f} kB"
    medians = {role: statistics.median(times[1:]) * 1e3 for role, times in spent.items() if times}
    return "; ".join(f"{role} node {ms:.1f} ms, {read[role]}" for role, ms in medians.items())


def relay(nodes: int = 1024) -> None:
    """What relaying costs the first node of a large job, and a leader of a group.

    All nodes take part at one real `TCPStore`, as their agents would, one after the other in this
    process. Printed are bytes and milliseconds of a round of the first node and of a leader, with
    one key a node and in groups; once with new windows of steps in all reports, once without.
    """
    print(f"{nodes:,} nodes, {nodes * RANKS:,} ranks, groups of {group_size(nodes)}")
    for words in ("without windows", "with a new window of each rank"):
        for name, size in (("one key a node", lambda n: n), ("in groups", group_size)):
            found = relayed(nodes, size, windows=words.startswith("with "))
            print(f"{words}, {name}: {found}", flush=True)
