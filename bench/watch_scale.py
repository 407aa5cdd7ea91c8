"""How long one round of judging takes at 10,000 nodes: `python -m bench.watch_scale [NODES]`.

Reports of all nodes with eight ranks each are made up, one rank of them 15 % slow, one hung; agents
would have sent them. Printed are CPU seconds of rounds with and without new windows of steps, what
was found, and the memory that it takes.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from syncwall.cause import Cause
from syncwall.watch.events import NodeReport, Phase, Process, RankState, Window, from_json, to_json
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS

RANKS, STEP_S, ROUNDS = 8, 1.0, 8
SLOW_RANK, HUNG_RANK = 12_345, 54_321


def reports(nodes: int, number: int, now_s: float) -> tuple[NodeReport, ...]:
    """Of all nodes, after `number` windows; the hung rank stands from the last round on."""
    random = np.random.default_rng(number)
    own_s = 0.8 * STEP_S * (1 + 0.004 * random.standard_normal(nodes * RANKS))
    if nodes * RANKS > SLOW_RANK:
        own_s[SLOW_RANK] *= 1.15
    found = []
    for node in range(nodes):
        ranks = range(node * RANKS, node * RANKS + RANKS)
        found.append(NodeReport(
            f"node-{node}", node, number, now_s,
            tuple(_state(rank, node, number, now_s) for rank in ranks),
            tuple(_window(rank, number, float(own_s[rank]), now_s) for rank in ranks),
            world=nodes * RANKS,
        ))  # fmt: skip
    return tuple(found)


def _state(rank: int, node: int, number: int, now_s: float) -> RankState:
    silent_s = 60.0 if number == ROUNDS - 1 else 0.1
    is_hung = rank == HUNG_RANK and silent_s > 1
    phase: Phase = "data" if is_hung else "exposed communication"
    step = 25 * number
    return RankState(
        rank, f"node-{node}", 1000 + rank, Process.RUNNING, phase, now_s - silent_s, step,
        collectives=step, step_s=STEP_S, longest_silence_s=0.4,
    )  # fmt: skip


def _window(rank: int, number: int, own_s: float, now_s: float) -> Window:
    seconds = {Cause.FORWARD: own_s, Cause.EXPOSED_DP: STEP_S - own_s}
    return Window(rank, 25 * number, 25, own_s, STEP_S, seconds, now_s)


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
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


if __name__ == "__main__":
    main()
