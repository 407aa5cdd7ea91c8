"""Rounds of an agent, made up: two ranks that step, one that hangs."""

from syncwall.cause import Cause
from syncwall.watch.events import (
    Expectation,
    Finding,
    FindingKind,
    NodeReport,
    Process,
    RankState,
    StepRecord,
)
from syncwall.watch.summary import Live, Recent

NOW_S = 1_000_000.0
HUNG = Finding(FindingKind.HUNG, 1, "node-a", NOW_S, 'rank 1 in "data" for 5.0 s')
SECONDS = {
    Cause.FORWARD: 0.03,
    Cause.BACKWARD: 0.05,
    Cause.EXPOSED_ALL_REDUCE: 0.015,
    Cause.OPTIMIZER: 0.005,
}


def step(rank: int, number: int, loss: float = 3.0) -> StepRecord:
    return StepRecord(rank, number, NOW_S + 0.1 * number, 0.1, SECONDS, 2048.0, loss, 1.5)


def live(number: int = 0, steps: int = 10, findings=(), new=()) -> Live:
    """Round `number`, with so many new steps of each rank."""
    first = number * steps
    now_s = NOW_S + 0.1 * (first + steps)
    states = tuple(
        RankState(
            rank,
            "node-a",
            100 + rank,
            Process.RUNNING,
            "backward",
            now_s - 0.02,
            first + steps,
            collectives=3 * first,
            step_s=0.1,
        )
        for rank in (0, 1)
    )
    records = tuple(step(rank, first + at) for rank in (0, 1) for at in range(steps))
    report = NodeReport("node-a", 0, number + 1, now_s, states, world=2, notes=("no NVML",))
    expected = Expectation(0.08, 0.07, 0.09, {Cause.GEMM: 0.07, Cause.EXPOSED_DP: 0.01}, "run.yaml")
    return Live(now_s, (report,), records, tuple(findings), tuple(new), expected)


def recent(rounds: int = 3) -> Recent:
    found = Recent()
    for number in range(rounds):
        found.round(live(number))
    found.round(live(rounds, findings=(HUNG,), new=(HUNG,)))
    found.goodput = 0.93
    return found
