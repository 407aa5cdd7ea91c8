"""Live runs beside what was expected: real Gloo jobs under `syncwall watch --expect`.

A clean run of each size is the expectation of the others. Then, by turns, data, computation (two
ways), communication (two ways) and the time between steps get slower on all ranks from some step
on; a clean run and one that is slower by less than the interval must stay silent.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench.scale.watched_job import SCRIPT
from syncwall.measure.load import MachineLoad, Meter
from syncwall.watch.events import FindingKind, Group
from syncwall.watch.thresholds import THRESHOLDS

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


def watched(ranks: int, output: Path, expect: Path | None, **variables: Any) -> float:
    """Run a job under `syncwall watch`; share of the cores that others used meanwhile."""
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
    """Counts how often the injected cause of a slower run is named.

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
