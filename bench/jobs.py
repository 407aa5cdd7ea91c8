"""How fast jobs are simulated: `python -m bench.jobs` (one core; threads of NumPy are pinned).

10,000 jobs of 54 days on 16,384 GPUs, with the failures of Llama 3 405B and with those of other
clusters, whose rates spread; and the same job with the renewal formula, which it must agree with.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import time  # noqa: E402 - after the threads are pinned
from dataclasses import replace  # noqa: E402

import numpy as np  # noqa: E402

import syncwall as sw  # noqa: E402
from syncwall.cause import Cause  # noqa: E402
from syncwall.job.plan import DAY_S, JobPlan  # noqa: E402
from syncwall.job.renewal import expected_s  # noqa: E402
from syncwall.job.settled import settle  # noqa: E402
from syncwall.job.simulation import simulate  # noqa: E402

COUNT, DAYS = 10_000, 54.0


def llama_3(like: str) -> JobPlan:
    """About 54 days of Llama 3 405B on 16,384 H100."""
    run = sw.Run(
        model="llama-3.1-405b",
        cluster=sw.cluster("meta-24k-h100", nodes=2048),
        layout=sw.Layout(tp=8, pp=16, shard="fsdp", global_batch=2048),
    )
    job = sw.Job(
        run=run,
        steps=100_000,
        failures={"like": like},
        checkpoints={"storage_bytes_per_s": 2e12},
    )
    return replace(settle(job, sw.predict(run)).plan, work_s=0.902 * DAYS * DAY_S)


def timed(what: str, plan: JobPlan) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    outcome = simulate(plan, COUNT)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    low, middle, high = np.quantile(outcome.finish_s / DAY_S, (0.1, 0.5, 0.9))
    effective = outcome.ledger_s[Cause.USEFUL].mean() / outcome.finish_s.mean()
    print(
        f"{what:<36} {wall:6.2f} s ({cpu:.2f} s of one core)   {low:.1f} / {middle:.1f} / "
        f"{high:.1f} days   {outcome.interruptions.mean():,.0f} interruptions   "
        f"{effective:.1%} effective"
    )


def main() -> None:
    print(f"{COUNT:,} jobs of {DAYS:.0f} days on 16,384 GPUs")
    timed("failures of Llama 3 405B", llama_3("llama3-h100"))
    timed("failures of other clusters", llama_3("typical"))
    plain = replace(llama_3("llama3-h100"), step_deviation=0.0, spares=10**6, startup_s=0.0)
    pieces = plain.work_s // plain.interval_s
    plain = replace(plain, work_s=pieces * plain.interval_s)
    exact = expected_s(pieces, plain.interval_s, plain.blocking_s, plain.rate_per_s, plain.down_s)
    mean = simulate(plain, COUNT).finish_s.mean()
    print(f"mean against the renewal formula     {mean / exact - 1:+.4%}")


if __name__ == "__main__":
    main()
