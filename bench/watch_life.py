"""Goodput over three kills and restarts under torchrun: `python -m bench.watch_life`.

Parts of the life must sum to the wall time that is measured around the command, and the steps that
count must be those of the job. Holds `lived`, which a test calls, too.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from syncwall.show.numbers import duration
from syncwall.watch.life import Life, life_of, outlook, rates_of, read_life

ROOT = Path(__file__).parents[1]
JOB = ROOT / "tests" / "watch" / "jobs" / "restarted_job.py"


def lived() -> tuple[Life, float]:
    """The life of the job, and the wall time of the command as a shell measures it."""
    with tempfile.TemporaryDirectory() as folder:
        life = Path(folder) / "life.jsonl"
        clocks = Path(folder) / "clocks"
        timed = f'date +%s.%N > {clocks}; "$@"; code=$?; date +%s.%N >> {clocks}; exit $code'
        words = [
            sys.executable, "-m", "syncwall", "watch", "--life", str(life), "--",
            "sh", "-c", timed, "sh", sys.executable, "-m", "torch.distributed.run",
            "--nproc-per-node", "2", "--max-restarts", "3", "--monitor-interval", "0.2",
            "--standalone", str(JOB),
        ]  # fmt: skip
        subprocess.run(
            words,
            env={**os.environ, "FOLDER": folder},
            check=True,
            capture_output=True,
            timeout=400,
        )
        began_s, ended_s = map(float, clocks.read_text().split())
        return life_of(read_life(life)), ended_s - began_s


def main() -> None:
    life, wall_s = lived()
    for cause, spent_s in life.seconds.items():
        print(f"{cause:16} {duration(spent_s):>10} {spent_s / life.wall_s:7.1%}")
    whole_s = sum(life.seconds.values())
    print(
        f"{'sum':16} {duration(whole_s):>10}   of {duration(wall_s)}: {whole_s / wall_s - 1:+.2%}"
    )
    print(f"{life.failures} failures, {life.steps} steps count, goodput {life.goodput:.1%}")
    rates = rates_of(life)
    if rates is not None:
        print(rates.job_keys(), outlook(rates, 10_000))


if __name__ == "__main__":
    main()
