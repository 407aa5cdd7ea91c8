"""What `syncwall watch` reaches on real Gloo jobs: `python bench/watch.py PART [--repeat N]`.

Parts: overhead (CPU of a step, paired and interleaved), ledger (no_sync, injected sleeps), deaths,
hangs (five kinds), stragglers, healthy (false alarms), agent (its CPU), nodes (a lab host cut off,
needs root), failures (of the watcher). Thresholds are those of `syncwall.watch.judges`. Each
prints what it measured.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.watch_jobs import ROOT, WatchedJob, fail

FAILURES = ("agent killed", "agent stopped", "folder removed", "other version", "no room")
HANGS = ("data", "gil", "spin", "after step", "collective")


def overhead(repeat: int) -> None:
    """One rank under DDP; blocks with hooks, without, and without once more, in random order."""
    script = ROOT / "bench" / "watch_overhead.py"
    with WatchedJob(1, script, agent=False, repeat=repeat) as job:
        print(job.outputs(3600)[0], end="")


def ledger(repeat: int) -> None:
    for number in range(repeat):
        cases: dict[str, dict[str, Any]] = {
            "plain": {},
            "no_sync": {"fault": "no sync"},
            "data +20 ms": {"fault": "slow data", "fault_step": 0, "fault_s": 0.02},
            "checkpoint 100 ms in 10 steps": {"fault": "save", "fault_s": 0.1},
            "evaluation 100 ms in 10 steps": {"fault": "evaluate", "fault_s": 0.1},
        }
        for name, variables in cases.items():
            with WatchedJob(2, steps=120, compute_s=0.01, fault_rank=0, **variables) as job:
                slept_s = float(job.outputs()[0].split()[-1]) / 120
                windows = [one for one in job.events("window") if one["rank"] == 0]
                found = job.summary()
            print(f"{number} {name}: step {found['step_s'] * 1e3:.2f} ms of {found['steps']}")
            mean: Counter[str] = Counter()
            for one in windows:
                mean.update({k: v / len(windows) for k, v in one["seconds"].items()})
            total = sum(mean.values())
            print(f"   injected: {slept_s * 1e3:.3f} ms a step")
            print("   rank 0:", {k: f"{v * 1e3:.3f} ms {v / total:.1%}" for k, v in mean.items()})


def deaths(repeat: int) -> None:
    """SIGKILL and SIGSTOP by turns, four ranks, a random victim."""
    right: Counter[str] = Counter()
    for number in range(repeat):
        name = ("SIGKILL", "SIGSTOP")[number % 2]
        kind = {"SIGKILL": "dead rank", "SIGSTOP": "stopped rank"}[name]
        victim = random.randrange(4)
        with WatchedJob(4, steps=100_000, compute_s=0.01) as job:
            if job.wait_for("window", 120, rank=victim) is None:
                print(f"{number}: did not start")
                continue
            time.sleep(random.random())
            sent_s = time.time()
            os.kill(job.processes[victim].pid, getattr(signal, name))
            found = job.wait_for("finding", 10, kind=kind)
            first = next(iter(job.findings()), None)
        ok = found is not None and found["rank"] == victim and first == found
        right[f"{name} {'right' if ok else 'wrong'}"] += 1
        after = f"{found['time_s'] - sent_s:.3f} s" if found else "never"
        said = found["rank"] if found else None
        print(f"{number}: {name} rank {victim}: named {said} after {after}", flush=True)
    print(dict(right))


def hangs(repeat: int) -> None:
    """Each kind in turn, four ranks, a random victim; steps of 10 ms, so within 3 s and a poll."""
    right: Counter[str] = Counter()
    for number in range(repeat):
        kind = HANGS[number % len(HANGS)]
        victim = random.randrange(4)
        with WatchedJob(
            4, steps=100_000, compute_s=0.01, fault=kind, fault_rank=victim, fault_step=60
        ) as job:
            job.wait_for("finding", 150, kind="hung rank")
            found = list(job.findings())
        named = [one["rank"] for one in found]
        ok = named == [victim]
        right[f"{kind} {'right' if ok else 'wrong'}"] += 1
        late = f"{found[0]['time_s'] - found[0]['since_s']:.2f} s" if found else "never"
        said = found[0]["evidence"] if found else ""
        print(f"{number}: {kind} rank {victim}: named {named} after {late}: {said}", flush=True)
    print(dict(right))


def stragglers(repeat: int) -> None:
    """Four ranks, steps of 30 ms; one is 5, 10 or 20% slower from step 50 on."""
    right: Counter[str] = Counter()
    for number in range(repeat):
        share = (0.1, 0.2, 0.05)[number % 3]
        victim = random.randrange(4)
        with WatchedJob(
            4, steps=200, compute_s=0.03, fault="slow", fault_rank=victim, fault_step=50,
            fault_s=share,
        ) as job:  # fmt: skip
            job.outputs()
            job.summary()
            found = [one for one in job.findings() if one["kind"] == "straggler"]
        named = [(one["rank"], one["since_step"], one["evidence"]) for one in found]
        wrong = any(rank != victim for rank, _, _ in named)
        soon = any(rank == victim and since <= 75 for rank, since, _ in named)
        right[f"{share:.0%} {'wrong' if wrong else 'named' if soon else 'missed'}"] += 1
        print(f"{number}: rank {victim} +{share:.0%}: {named}", flush=True)
    print(dict(right))


def healthy(repeat: int) -> None:
    """`repeat` thousand steps of four ranks with checkpoints and evaluations: no finding is right.

    What else runs on the machine may slow the job down; that is told apart.
    """
    began_s = time.monotonic()
    with WatchedJob(
        4, steps=1000 * repeat, compute_s=0.02, fault="save, evaluate", fault_rank=-1, fault_s=0.05
    ) as job:
        job.outputs(6 * 3600)
        found = job.summary()
        for one in job.findings():
            print(one["kind"], one["rank"], one["evidence"])
        false = Counter(one["kind"] for one in job.findings())
    minutes = (time.monotonic() - began_s) / 60
    print(f"{found['steps']} steps of {found['step_s'] * 1e3:.1f} ms, {minutes:.0f} min: {false}")


def agent(repeat: int) -> None:
    """CPU of the agent of four ranks with steps of 20 ms, over `repeat` times 10 s."""
    with WatchedJob(4, steps=100_000, compute_s=0.02) as job:
        job.wait_for("window", 120)
        assert job.agent
        time.sleep(2.0)
        for _ in range(repeat):
            before_s, began_s = _cpu_s(job.agent.pid), time.monotonic()
            time.sleep(10.0)
            used = (_cpu_s(job.agent.pid) - before_s) / (time.monotonic() - began_s)
            status = Path(f"/proc/{job.agent.pid}/status").read_text()
            memory = next(line.split()[1] for line in status.splitlines() if "VmRSS" in line)
            print(f"{used:.2%} of a core, {int(memory) / 1024:.0f} MiB", flush=True)
        last = job.events("window")[-1]
        print(f"step {last['step_s'] * 1e3:.1f} ms")
        for one in job.findings():
            print(one["kind"], one["rank"], one["evidence"])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def nodes(repeat: int) -> None:
    """Three lab hosts; the link of one is cut, by turns another's and the first one's."""
    from bench.watch_nodes import cut_off

    for number in range(repeat):
        cut_off(number)


def failures(repeat: int) -> None:
    """The watcher itself fails, by turns in one of five ways: two ranks must compute the same."""
    with WatchedJob(2, agent=False, steps=60, SYNCWALL_WATCH=0) as job:
        expected = job.outputs()[0].split()[1]
    same: Counter[str] = Counter()
    for number in range(repeat):
        kind = FAILURES[number % len(FAILURES)]
        folder: dict[str, Any] = {}
        if kind == "no room":
            folder["syncwall_watch_folder"] = "/proc/nowhere"
        with WatchedJob(2, steps=60, compute_s=0.005, **folder) as job:
            if not folder and job.wait_for("rank", 120):
                fail(job, kind)
            is_same = job.outputs()[0].split()[1] == expected
        same[f"{kind}: {'same' if is_same else 'different'}"] += 1
        print(f"{number}: {kind}: {'same' if is_same else 'different'} weights", flush=True)
    print(dict(same))


PARTS: dict[str, Any] = {
    one.__name__: one
    for one in (overhead, ledger, deaths, hangs, stragglers, healthy, agent, nodes, failures)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--seed", type=int, default=20)
    asked = parser.parse_args()
    random.seed(asked.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # jobs are ended, too
    PARTS[asked.part](asked.repeat)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
