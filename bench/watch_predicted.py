"""Live runs beside what was expected: `python -m bench.watch_predicted [--repeat N] [--seed N]`.

Real Gloo jobs of two to four ranks under `syncwall watch --expect`. A clean run of each size is the
expectation of the others. Then, by turns, data, computation (two ways), communication (two ways)
and the time between steps get slower on all ranks from some step on; a clean run and one that is
slower by less than the interval must stay silent. Counts how often the injected cause is named.
Others who use the cores make steps longer, too: a run in which they used `MORE_OTHERS` more than in
the clean run does not count, whatever was said in it, and both are made again.
"""

import argparse
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

from bench.watch_jobs import SCRIPT
from syncwall.measure.load import MachineLoad, Meter
from syncwall.watch.events import FindingKind, Group
from syncwall.watch.judges import THRESHOLDS

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
    meter = Meter()
    done = subprocess.run(
        words, check=False, timeout=300, capture_output=True, text=True,
        env={**os.environ, **{name.upper(): str(value) for name, value in given.items()}},
    )  # fmt: skip
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
    fault_s = share if name == "slow" else share * COMPUTE_S
    return {
        "fault": name, "fault_rank": "all", "fault_step": random.randrange(50, 75),
        "fault_s": fault_s,
    }  # fmt: skip


def judged(found: dict[str, Any], kind: str, fault_step: int) -> tuple[bool, str]:
    """Whether what was said is right, and what it was."""
    said = [
        one for one in found["findings"] if one["kind"] == FindingKind.SLOWER_THAN_PREDICTED
    ]  # fmt: skip
    if FAULTS[kind] is None:
        return not said, "; ".join(one["evidence"] for one in said)
    groups = [one["group"] for one in said]
    late = said[0]["since_step"] - fault_step if said else 0
    text = said[0]["evidence"] if said else "silent"
    return groups == [FAULTS[kind]] and late >= -THRESHOLDS.window, f"{late:+d} steps: {text}"


class Bench:
    """Runs, and what came of them."""

    def __init__(self, folder: Path, until_s: float) -> None:
        self._folder, self._until_s = folder, until_s
        self._clean: dict[int, tuple[Path, float]] = {}
        """By ranks, with the share of others."""
        self.right: Counter[str] = Counter()
        self.again = 0

    @property
    def is_over(self) -> bool:
        """True if there is no time left."""
        return time.monotonic() > self._until_s

    def expectation(self, ranks: int) -> tuple[Path, float]:
        """A clean run of so many ranks."""
        if ranks not in self._clean:
            path = self._folder / f"{ranks}.json"
            self._clean[ranks] = path, watched(ranks, path, None)
            step_ms, others = json.loads(path.read_text())["step_s"] * 1e3, self._clean[ranks][1]
            print(f"{ranks} ranks: {step_ms:.1f} ms expected, others {others:.0%}", flush=True)
        return self._clean[ranks]

    def run(self, kind: str, ranks: int) -> None:
        """One of them, until the machine was as in the clean run or the time is over."""
        variables, output = injected(kind), self._folder / "found.json"
        while not self.is_over:
            clean, usual = self.expectation(ranks)
            others = watched(ranks, output, clean, **variables)
            if others <= usual + MORE_OTHERS:
                found = json.loads(output.read_text())
                ok, said = judged(found, kind, variables.get("fault_step", 0))
                self.right[f"{kind or 'clean'}: {'right' if ok else 'wrong'}"] += 1
                told = f"{found['step_s'] * 1e3:.1f} ms, others {others:.0%}"
                print(f"{kind or 'clean'}, {ranks} ranks, {told}: {ok} {said}", flush=True)
                return
            self.again += 1
            del self._clean[ranks]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=16)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3600.0)
    asked = parser.parse_args()
    random.seed(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), time.monotonic() + asked.seconds)
        for number in range(asked.repeat):
            kind = list(FAULTS)[(asked.seed + number) % len(FAULTS)]
            bench.run(kind, random.choice(RANKS))
    print(dict(bench.right), f"{bench.again} made again")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
