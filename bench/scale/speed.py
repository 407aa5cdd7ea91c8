"""How fast layouts are checked, searched, jobs simulated and shared links solved, on one core."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import syncwall as sw
from syncwall.answer.pricing import Pricing
from syncwall.cause import Cause
from syncwall.describe import lookup
from syncwall.describe.layout import Schedule
from syncwall.describe.rules import broken_rules, possible
from syncwall.job.job_plan import DAY_S, JobPlan, expected_s
from syncwall.job.settled_job import job_plan
from syncwall.job.simulation import simulate_all
from syncwall.network.flows import Usage, fair_rates, place_groups, ring_flows
from syncwall.network.routing import Ends, Routes, drawn
from syncwall.plan.choices import FabricKind
from syncwall.plan.fabric.sized_links import fabric_named
from syncwall.plan.search import search as searched
from syncwall.plan.space import Space, grids
from syncwall.show.layout import layout_words

CALCULON = 11_698_528
"""Configurations of Calculon's space for the question of `search`, at about 110 a second."""
NODES, SEQ, BATCH = 128, 2048, 1536
EVERY: dict[str, Any] = {"overlap_tp": (False, True), "overlap_parameters": (True, False)}
"""Calculon's space has them without what Megatron asks for beside them (sp, overlap_gradients)."""
FLAT_FIELDS = {"shard": 4, "sp": 2, "recompute": 4}
"""Other fields of `predictions` by the number of their values."""
JOBS, DAYS = 10_000, 54.0


class Timer:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def wall_s(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def cpu_s(self) -> float:
        return time.process_time() - self._cpu


def _peak_kib() -> int:
    """Most memory of this program: `ru_maxrss` also counts that of the process which started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def predictions(count: int = 32_768, chunks: int = 6) -> None:
    """Predictions a second of one core: GPT-3 175B on 1,024 A100 in random layouts, in flat arrays.

    The mean over all chunks, and the quickest of them, in which other work disturbed least.
    """
    model, cluster = sw.model("gpt3-175b"), sw.cluster("dgx-a100", nodes=NODES)
    random, pricing = np.random.default_rng(0), Pricing.on(cluster)
    spent_s: list[float] = []
    for _ in range(chunks):
        powers = {"tp": 4, "pp": 5, "micro_batch": 3}
        columns = {name: 2 ** random.integers(0, most, count) for name, most in powers.items()}
        columns |= {name: random.integers(0, most, count) for name, most in FLAT_FIELDS.items()}
        columns["overlap_gradients"] = random.integers(0, 2, count).astype(bool)
        many = sw.Layout.arrays(**columns, global_batch=np.full(count, BATCH)).resolved(cluster.gpus)
        timer = Timer()
        pricing.step(model, many, SEQ, cluster)
        spent_s.append(timer.cpu_s)
    mean, quickest = count * chunks / sum(spent_s), count / min(spent_s)
    print(f"in arrays of {count:,}   {mean:8,.0f} predictions/s/core   (quickest {quickest:,.0f})")


def layouts(count: int = 1_000_000) -> None:
    """How many layouts a second pass through `Layout` and its rules, in arrays and singly."""
    model, gpus = sw.model("gpt3-175b"), 1024
    random = np.random.default_rng(0)
    powers = {"tp": 5, "pp": 6, "cp": 3, "micro_batch": 4}
    columns = {name: 2 ** random.integers(0, most, count) for name, most in powers.items()}
    columns["virtual_stages"] = random.integers(1, 4, count)
    columns["shard"] = random.integers(0, 4, count)
    columns["schedule"] = random.choice([Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED], count)
    timer = Timer()
    many = sw.Layout.arrays(**columns, global_batch=BATCH).resolved(gpus)
    allowed = possible(model, many, SEQ, gpus)
    arrays_s, timer = timer.wall_s, Timer()
    one = sw.Layout(tp=8, pp=8, global_batch=BATCH)
    for _ in range(1000):
        broken_rules(model, one.resolved(gpus), SEQ, gpus)
    found = f"({allowed.sum():,} of {count:,} possible)"
    print(f"arrays   {count / arrays_s:12,.0f} layouts/s   {found}")
    print(f"singly   {1000 / timer.wall_s:12,.0f} layouts/s")


QUESTIONS = {
    "gpt3-175b": ("dgx-a100", NODES, SEQ, BATCH, EVERY),
    "qwen3-235b-a22b": ("dgx-h200", 32, 4096, 4096, {}),
}
"""By model: machine, nodes, tokens of a sequence, sequences of a step, and what is stated."""


def search(model: str = "gpt3-175b", exhaustive: int = 0) -> None:
    """The whole space of layouts of GPT-3 175B on 1,024 A100, or Qwen3 235B on 256 H200, on one core.

    Beside it the time of pricing the same arrays alone, without rules, memory and bounds. With
    --exhaustive N, N random layouts of the space are predicted one by one and compared.
    """
    machine, nodes, seq, batch, stated = QUESTIONS[model]
    what, cluster = sw.model(model), sw.cluster(machine, nodes=nodes)
    firsts: list[float] = []
    timer = Timer()
    found = searched(
        what,
        cluster,
        seq=seq,
        global_batch=batch,
        pinned=stated,
        better=lambda one: firsts.append(timer.cpu_s),
    )
    best = found.best(1)[0]
    wall_s, cpu_s = timer.wall_s, timer.cpu_s
    print(f"layouts       {found.counted:>12,}   (Calculon's space for GPT-3: {CALCULON:,})")
    print(f"that fit      {found.fitting:>12,}")
    print(f"time          {wall_s:>10.1f} s   ({cpu_s:.1f} s of one core, the first after {firsts[0]:.1f} s)")
    print(f"layouts/s     {found.counted / cpu_s:>12,.0f}")
    print(f"memory        {_peak_kib() / 2**20:>8.2f} GiB")
    print(f"best          {best.step_s:>10.3f} s   {layout_words(best.layout)}")
    space, pricing = Space.of(what, seq, batch, sw.Software(), stated), Pricing.on(cluster)
    pieces = [grid for grid in grids(space, cluster) if np.any(grid.allowed)]
    timer = Timer()
    for grid in pieces:
        np.asarray(pricing.step(what, grid.layouts, seq, cluster).step_s)
    print(f"bare          {timer.cpu_s:>10.1f} s   to price the same arrays: {cpu_s / timer.cpu_s:.2f} times")
    if not exhaustive:
        return
    random, worst = np.random.default_rng(0), 0.0
    for grid in pieces:
        many = pricing.step(what, grid.layouts, seq, cluster)
        seconds = np.broadcast_to(many.step_s, grid.shape)
        places = np.argwhere(np.broadcast_to(grid.allowed, grid.shape))
        for place in random.choice(places, -(-exhaustive // len(pieces))):
            run = sw.Run(model=what, cluster=cluster, seq=seq, layout=grid.layout(place))
            worst = max(worst, abs(seconds[tuple(place)] / sw.predict(run).step_s - 1))
    print(f"singly        {exhaustive:>12,}   largest difference {worst:.1e}")


def llama_3(like: str) -> JobPlan:
    """About 54 days of Llama 3 405B on 16,384 H100, with failures as of `like`."""
    layout = sw.Layout(tp=8, pp=16, shard="fsdp", global_batch=2048)
    cluster = sw.cluster("meta-24k-h100", nodes=2048)
    run = sw.Run(model="llama-3.1-405b", cluster=cluster, layout=layout)
    checkpoints = {"storage_bytes_per_s": 2e12}
    job = sw.Job(run=run, steps=100_000, failures={"like": like}, checkpoints=checkpoints)
    return replace(job_plan(job, sw.predict(run)).plan, work_s=0.902 * DAYS * DAY_S)


def jobs() -> None:
    """How fast jobs are simulated; for one core, set OMP_NUM_THREADS=1.

    10,000 jobs of 54 days on 16,384 GPUs, with the failures of Llama 3 405B and with those of other
    clusters, whose rates spread; and the same job with the renewal formula, which it must agree
    with.
    """
    print(f"{JOBS:,} jobs of {DAYS:.0f} days on 16,384 GPUs")
    for who, like in (("Llama 3 405B", "llama3-h100"), ("other clusters", "typical")):
        plan, timer = llama_3(like), Timer()
        (outcome,) = simulate_all([plan], JOBS)
        spent = f"{timer.wall_s:6.2f} s ({timer.cpu_s:.2f} s of one core)"
        low, middle, high = np.quantile(outcome.finish_s / DAY_S, (0.1, 0.5, 0.9))
        effective = outcome.ledger_s[Cause.USEFUL].mean() / outcome.finish_s.mean()
        print(
            f"{f'failures of {who}':<36} {spent}   {low:.1f} / {middle:.1f} / {high:.1f} days   "
            f"{outcome.interruptions.mean():,.0f} interruptions   {effective:.1%} effective"
        )
    plain = replace(llama_3("llama3-h100"), step_deviation=0.0, spares=10**6, startup_s=0.0)
    pieces = plain.work_s // plain.interval_s
    plain = replace(plain, work_s=pieces * plain.interval_s)
    exact = expected_s(pieces, plain.interval_s, plain.blocking_s, plain.rate_per_s, plain.down_s)
    mean = simulate_all([plain], JOBS)[0].finish_s.mean()
    print(f"mean against the renewal formula     {mean / exact - 1:+.4%}")


def _routes(gpus: int, kind: FabricKind) -> Routes:
    cluster = lookup.cluster("dgx-h100").using(gpus // 8)
    crossed = np.random.default_rng(0).permutation(cluster.nodes)
    return Routes(fabric_named(kind, cluster), "ecmp", Ends.of(cluster, crossed))


def links() -> None:
    """How fast shared links are solved on one core."""

    def told(words: str, spent_s: float, most_s: float) -> None:
        verdict = "ok" if spent_s < most_s else "LATE"
        print(f"{words:55} {spent_s:7.2f} s   at most {most_s} s   {verdict}")

    kinds: dict[int, tuple[FabricKind, int, float]] = {
        1024: ("rail-optimised", 40, 2.0),
        16_384: ("fat-tree-3", 20, 5.0),
    }
    for gpus, (kind, draws, most_s) in kinds.items():
        timer = Timer()
        pairs = ring_flows(place_groups(gpus, gpus // 8, 8, 8))
        drawn(_routes(gpus, kind), pairs, qps=4, draws=draws, seed=0)
        words = f"{gpus:,} GPUs, 4 queue pairs, {draws} draws, with the fabric"
        told(words, timer.cpu_s, most_s)
    routes, pairs = _routes(102_400, "fat-tree-3"), ring_flows(place_groups(102_400, 12_800, 8, 8))
    timer = Timer()
    found = routes.entries(pairs.source, pairs.target, np.random.default_rng(0), 8)
    usage = Usage.of(found.flow // 8, found.link, routes.links.rates)
    rates = fair_rates(usage, batch=0.01)
    told("102,400 GPUs x 8 flows, routes and fair shares", timer.cpu_s, 10)
    slowest = f"slowest flow {rates.min() / 1e9:.2f} GB/s"
    print(f"{'':55} {_peak_kib() / 1e6:7.2f} GB  at most 1 GB   {slowest}")
