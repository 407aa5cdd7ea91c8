"""What `syncwall watch` reaches on real Gloo jobs."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Final

import tyro
from tests.watch.watched_job import JOBS, SCRIPT, WatchedJob, events_of

from bench.scale.serve import cpu_s
from syncwall.lab import Topology, lab
from syncwall.lab.host_machine import issue
from syncwall.lab.virtual_hosts import Hosts
from syncwall.measure.result import MachineLoad, Meter
from syncwall.show.numbers import duration
from syncwall.watch.events import FindingKind, Group
from syncwall.watch.judges import THRESHOLDS
from syncwall.watch.life import Life, life_of, outlook, rates_of, read_life

FAILURES = ("agent killed", "agent stopped", "folder removed", "other version", "no room")
HANGS = ("data", "gil", "spin", "after step", "collective")
HOSTS = 3
FAULTS: Final = {
    "slow data": Group.DATA,
    "slow": Group.COMPUTE,
    "more communication": Group.COMMUNICATION,
    "idle": Group.IDLE,
    "": None,
    "more work": Group.COMPUTE,
    "slow network": Group.COMMUNICATION,
    "within": None,
}
"""What is injected, and the line that must be named; None: nothing may be said."""
COMPUTE_S: Final = 0.06
STEPS: Final = 175
RANKS: Final = (2, 3, 4)
MORE_OTHERS: Final = 0.10
"""Share of the cores."""


def overhead(repeat: int) -> None:
    """CPU of a step of one rank under DDP: with hooks, without, without once more, interleaved."""
    with WatchedJob(1, JOBS / "overhead_job.py", agent=False, repeat=repeat) as job:
        print(job.outputs(3600)[0], end="")


def ledger(repeat: int) -> None:
    """Seconds of a step by cause, with `no_sync` and with injected sleeps."""
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "no_sync": {"fault": "no sync"},
        "data +20 ms": {"fault": "slow data", "fault_step": 0, "fault_s": 0.02},
        "checkpoint 100 ms in 10 steps": {"fault": "save", "fault_s": 0.1},
        "evaluation 100 ms in 10 steps": {"fault": "evaluate", "fault_s": 0.1},
    }
    for number in range(repeat):
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
        name, kind = (("SIGKILL", "dead rank"), ("SIGSTOP", "stopped rank"))[number % 2]
        victim = random.randrange(4)
        with WatchedJob(4, steps=100_000, compute_s=0.01) as job:
            if job.wait_for("window", 120, rank=victim) is None:
                print(f"{number}: did not start")
                continue
            time.sleep(random.random())
            sent_s = time.time()
            os.kill(job.processes[victim].pid, getattr(signal, name))
            found = job.wait_for("finding", 10, kind=kind)
            first = next(iter(job.events("finding")), None)
        ok = found is not None and found["rank"] == victim and first == found
        right[f"{name} {'right' if ok else 'wrong'}"] += 1
        said = f"{found['rank']} after {found['time_s'] - sent_s:.3f} s" if found else "nobody"
        print(f"{number}: {name} rank {victim}: named {said}", flush=True)
    print(dict(right))


def hangs(repeat: int) -> None:
    """Each kind in turn, four ranks, a random victim; steps of 10 ms, so within 3 s and a poll."""
    right: Counter[str] = Counter()
    for number in range(repeat):
        kind, victim = HANGS[number % len(HANGS)], random.randrange(4)
        fault: dict[str, Any] = {"fault": kind, "fault_rank": victim, "fault_step": 60}
        with WatchedJob(4, steps=100_000, compute_s=0.01, **fault) as job:
            job.wait_for("finding", 150, kind="hung rank")
            found = job.events("finding")
        named = [one["rank"] for one in found]
        right[f"{kind} {'right' if named == [victim] else 'wrong'}"] += 1
        late = f"{found[0]['time_s'] - found[0]['since_s']:.2f} s" if found else "never"
        said = found[0]["evidence"] if found else ""
        print(f"{number}: {kind} rank {victim}: named {named} after {late}: {said}", flush=True)
    print(dict(right))


def stragglers(repeat: int) -> None:
    """Four ranks, steps of 30 ms; one is 5, 10 or 20% slower from step 50 on."""
    right: Counter[str] = Counter()
    for number in range(repeat):
        share, victim = (0.1, 0.2, 0.05)[number % 3], random.randrange(4)
        fault: dict[str, Any] = {"fault": "slow", "fault_step": 50, "fault_s": share}
        with WatchedJob(4, steps=200, compute_s=0.03, fault_rank=victim, **fault) as job:
            job.outputs()
            job.summary()
            found = [one for one in job.events("finding") if one["kind"] == "straggler"]
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
    fault: dict[str, Any] = {"fault": "save, evaluate", "fault_rank": -1, "fault_s": 0.05}
    with WatchedJob(4, steps=1000 * repeat, compute_s=0.02, **fault) as job:
        job.outputs(6 * 3600)
        found = job.summary()
        alarms = job.events("finding")
    for one in alarms:
        print(one["kind"], one["rank"], one["evidence"])
    minutes, false = (time.monotonic() - began_s) / 60, Counter(one["kind"] for one in alarms)
    print(f"{found['steps']} steps of {found['step_s'] * 1e3:.1f} ms, {minutes:.0f} min: {false}")


def agent(repeat: int) -> None:
    """CPU of the agent of four ranks with steps of 20 ms, over `repeat` times 10 s."""
    with WatchedJob(4, steps=100_000, compute_s=0.02) as job:
        job.wait_for("window", 120)
        assert job.agent
        time.sleep(2.0)
        for _ in range(repeat):
            before_s, began_s = cpu_s(job.agent.pid), time.monotonic()
            time.sleep(10.0)
            used = (cpu_s(job.agent.pid) - before_s) / (time.monotonic() - began_s)
            status = Path(f"/proc/{job.agent.pid}/status").read_text()
            memory = next(line.split()[1] for line in status.splitlines() if "VmRSS" in line)
            print(f"{used:.2%} of a core, {int(memory) / 1024:.0f} MiB", flush=True)
        print(f"step {job.events('window')[-1]['step_s'] * 1e3:.1f} ms")
        for one in job.events("finding"):
            print(one["kind"], one["rank"], one["evidence"])


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
                job.fail(kind)
            verdict = "same" if job.outputs()[0].split()[1] == expected else "different"
        same[f"{kind}: {verdict}"] += 1
        print(f"{number}: {kind}: {verdict} weights", flush=True)
    print(dict(same))


def nodes(repeat: int) -> None:
    """A job on three lab hosts (root); the link of one is cut once all train: who is named?"""
    words = (
        "import os, sys; from syncwall.cli import main; "
        "events = '{folder}/' + os.environ['SYNCWALL_HOST'] + '.jsonl'; "
        f"sys.exit(main(['watch', '--events', events, '--', sys.executable, '{SCRIPT}']))"
    )
    variables = {"STEPS": "100000", "COMPUTE_S": "0.02", "FAULT": "none"}
    for number in range(repeat):
        victim, times = (1, 0, 2)[number % HOSTS], list[float]()
        with (
            tempfile.TemporaryDirectory() as folder,
            lab(Topology(hosts=HOSTS, rate_bytes_per_s=25e6), "watch") as hosts,
        ):
            cut = threading.Thread(target=_cut, args=(hosts, Path(folder), victim, times))
            cut.start()
            call = ["-c", words.replace("{folder}", folder)]
            hosts.run(call, time_limit_s=75.0, grace_s=5.0, environment=variables)
            cut.join()
            for host in range(HOSTS):
                found = events_of(Path(folder) / f"h{host}.jsonl") if times else []
                said = [
                    f"{one['event']}: {one['kind']} {one['node'] or one['rank']} after "
                    f"{one['time_s'] - times[0]:.2f} s"
                    for one in found
                    if one["event"] in ("finding", "told")
                ]
                shown = ", ".join(said[:3]) or "nothing"
                print(f"{number}: h{victim} cut off; h{host} says: {shown}", flush=True)


def _cut(hosts: Hosts, folder: Path, victim: int, times: list[float]) -> None:
    """Once the first host has heard of windows of all ranks."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if len({one["rank"] for one in events_of(folder / "h0.jsonl", "window")}) == HOSTS:
            times.append(time.time())
            issue(("ip", "-n", hosts.network.hosts[victim], "link", "set", "eth0", "down"))
            return
        time.sleep(0.2)


_NAMED = (overhead, ledger, deaths, hangs, stragglers, healthy, agent, nodes, failures)
PARTS = {one.__name__: one for one in _NAMED}


def watch(part: Annotated[str, tyro.conf.Positional], repeat: int = 5, seed: int = 20) -> None:
    """What `syncwall watch` reaches on real Gloo jobs, with `syncwall.watch.judges`.

    Parts: overhead (CPU of a step, paired and interleaved), ledger (no_sync, injected sleeps),
    deaths, hangs (five kinds), stragglers, healthy (false alarms), agent (its CPU), nodes (a lab
    host cut off, needs root), failures (of the watcher).
    """
    if part not in PARTS:
        raise SystemExit(f"{part} is none of {', '.join(PARTS)}")
    random.seed(seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # jobs are ended, too
    PARTS[part](repeat)


def lived() -> tuple[Life, float]:
    with tempfile.TemporaryDirectory() as folder:
        file, clocks = Path(folder) / "life.jsonl", Path(folder) / "clocks"
        timed = f'date +%s.%N > {clocks}; "$@"; code=$?; date +%s.%N >> {clocks}; exit $code'
        words = [sys.executable, "-m", "syncwall", "watch", "--life", str(file), "--", "sh", "-c"]
        words += [timed, "sh", sys.executable, "-m", "torch.distributed.run", "--standalone"]
        words += ["--nproc-per-node", "2", "--max-restarts", "3", "--monitor-interval", "0.2"]
        words += [str(JOBS / "restarted_job.py")]
        variables = os.environ | {"FOLDER": folder}
        subprocess.run(words, env=variables, check=True, capture_output=True, timeout=400)
        began_s, ended_s = map(float, clocks.read_text().split())
        return life_of(read_life(file)), ended_s - began_s


def life() -> None:
    """Goodput over three kills and restarts under torchrun.

    Parts of the life must sum to the wall time that is measured around the command, and the steps
    that count must be those of the job.
    """
    found, wall_s = lived()
    for cause, spent_s in found.seconds.items():
        print(f"{cause:16} {duration(spent_s):>10} {spent_s / found.wall_s:7.1%}")
    sum_s = sum(found.seconds.values())
    print(f"{'sum':16} {duration(sum_s):>10}   of {duration(wall_s)}: {sum_s / wall_s - 1:+.2%}")
    print(f"{found.failures} failures, {found.steps} steps count, goodput {found.goodput:.1%}")
    if (rates := rates_of(found)) is not None:
        print(rates.job_keys(), outlook(rates, 10_000))


def watched(ranks: int, output: Path, expect: Path | None, **variables: Any) -> float:
    words = [sys.executable, "-m", "syncwall", "watch", "--json", str(output)]
    words += ["--expect", str(expect)] if expect else []
    words += ["--", sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words += ["--nproc-per-node", str(ranks), str(SCRIPT)]
    given = {"COMPUTE_S": COMPUTE_S, "STEPS": STEPS, "OMP_NUM_THREADS": 1, **variables}
    own = os.environ | {name.upper(): str(value) for name, value in given.items()}
    meter = Meter()
    done = subprocess.run(words, check=False, timeout=300, capture_output=True, text=True, env=own)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    load = MachineLoad.of([meter.spent()])
    return load.before.others if load else 0.0


def injected(kind: str) -> dict[str, Any]:
    """Variables of a fault: 25 to 60% of a step, or 5%, from some step on."""
    if not kind:
        return {}
    share = 0.05 if kind == "within" else random.uniform(0.25, 0.6)
    name = "slow" if kind == "within" else kind
    fault = {"fault": name, "fault_rank": "all", "fault_step": random.randrange(50, 75)}
    return fault | {"fault_s": share if name == "slow" else share * COMPUTE_S}


def judged(found: dict[str, Any], kind: str, fault_step: int) -> tuple[bool, str]:
    slower = FindingKind.SLOWER_THAN_PREDICTED
    said = [one for one in found["findings"] if one["kind"] == slower]
    if FAULTS[kind] is None:
        return not said, "; ".join(one["evidence"] for one in said)
    groups = [one["group"] for one in said]
    late = said[0]["since_step"] - fault_step if said else 0
    text = said[0]["evidence"] if said else "silent"
    return groups == [FAULTS[kind]] and late >= -THRESHOLDS.window, f"{late:+d} steps: {text}"


def expected(repeat: int = 16, seed: int = 20, seconds: float = 3600.0) -> None:
    """Counts how often the injected cause of a run slower than an earlier one is named.

    Real Gloo jobs under `syncwall watch --expect`. A clean run of each size is the expectation of
    the others. Then, by turns, data, computation (two ways), communication (two ways) and the time
    between steps get slower on all ranks from some step on; a clean run and one that is slower by
    less than the interval must stay silent.

    Others who use the cores make steps longer, too: a run in which they used 10% more of the cores
    than in the clean run does not count, whatever was said in it, and both are made again.
    """
    random.seed(seed)
    until_s, right, again = time.monotonic() + seconds, Counter[str](), 0
    clean: dict[int, float] = {}
    """By ranks, the share of others."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "found.json")
        for number in range(repeat):
            kind, ranks = list(FAULTS)[(seed + number) % len(FAULTS)], random.choice(RANKS)
            variables, before = injected(kind), Path(folder, f"{ranks}.json")
            while time.monotonic() < until_s:
                if ranks not in clean:
                    clean[ranks] = watched(ranks, before, None)
                    step_ms = json.loads(before.read_text())["step_s"] * 1e3
                    said = f"{step_ms:.1f} ms expected, others {clean[ranks]:.0%}"
                    print(f"{ranks} ranks: {said}", flush=True)
                others = watched(ranks, output, before, **variables)
                if others > clean[ranks] + MORE_OTHERS:
                    again += 1
                    del clean[ranks]
                    continue
                found, title = json.loads(output.read_text()), kind or "clean"
                ok, said = judged(found, kind, variables.get("fault_step", 0))
                right[f"{title}: {'right' if ok else 'wrong'}"] += 1
                told = f"{found['step_s'] * 1e3:.1f} ms, others {others:.0%}"
                print(f"{title}, {ranks} ranks, {told}: {ok} {said}", flush=True)
                break
    print(dict(right), f"{again} made again")
