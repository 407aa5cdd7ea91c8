"""Inputs of on-call cases that are drawn by formula: tables, links, traces, dumps and logs.

Holds `MAKERS`: by name, a function that writes its input into a folder and returns what to give
to `explain`. What is a fault in them acts on times and lines, not through the rules that judge.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import syncwall as sw
from syncwall.cost.calibration import calibration
from syncwall.cost.compute import gemm_alone_seconds
from syncwall.measure.kernel_times import KernelRow, TimedKernel
from syncwall.read.trace import Trace
from syncwall.work.operations import Gemm
from tests.explain.benchmarks import samples
from tests.explain.stragglers.operation_tables import Shape, written
from tests.explain.traces import job
from tests.read import nccl_samples

KINDS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
}
LATENCY_BYTES = 64 * 2**10


def table(
    folder: Path,
    *,
    cluster: str,
    ranks: int = 8,
    nodes: int = 1,
    collective: str = "all_reduce",
    times: float = 1.0,
    rate_times: float = 1.0,
    add_us: float = 0.0,
    cap_gb_per_s: float = 0.0,
    spikes: tuple[int, ...] = (),
    noise: float = 0.02,
    seed: int = 0,
    device: str = samples.H100,
    from_to: tuple[int, int] = (10, 34),
    wrong_from: int = 0,
    wrong_side: str = "both",
    told: bool = True,
    name: str = "table.txt",
) -> Path:
    """What nccl-tests prints: the machine's times with noise, and then slower in one way.

    `times` acts on all sizes, `rate_times` on what is above the latency, `cap_gb_per_s` is the most
    bus bandwidth, `spikes` are powers of two that take three times as long, `wrong_from` is the
    power from which results are wrong.
    """
    sizes = tuple(2.0**power for power in range(*from_to))
    known = KINDS.get(collective)
    factor = (2.0 if collective == "all_reduce" else 1.0) * (ranks - 1) / ranks
    if known is None:
        seconds = 2e-5 + np.array(sizes) / 12e9
    else:
        seconds = samples.seconds_on(cluster, ranks, nodes, known, sizes)  # type: ignore[arg-type]
    if cap_gb_per_s:
        seconds = np.maximum(seconds, seconds[0] + np.array(sizes) * factor / cap_gb_per_s / 1e9)
    seconds = seconds[0] + (seconds - seconds[0]) * rate_times
    seconds = (seconds * times + add_us * 1e-6) * np.exp(
        noise * np.random.default_rng(seed).standard_normal(len(sizes))
    )
    for power in spikes:
        seconds[sizes.index(2.0**power)] *= 3
    text = samples.nccl_tests(
        seconds, ranks=ranks, nodes=nodes, sizes=sizes, device=device, collective=collective, told=told
    )
    lines = text.split("\n")
    if wrong_from:
        lines = [_wrong(line, 2**wrong_from, wrong_side) for line in lines]
    path = folder / name
    path.write_text("\n".join(lines))
    return path


def _wrong(line: str, least: int, side: str) -> str:
    cells = line.split()
    if "Out of bounds" in line:
        return "# Out of bounds values : 36 FAILED"
    if not cells or not cells[0].isdecimal() or int(cells[0]) < least:
        return line
    cells[-1] = "12"
    if side == "both":
        cells[-5] = "12"
    return " ".join(cells)


def published(folder: Path, *, collective: str, ranks: int, nodes: int, device: str, rows: str) -> Path:
    """A table that somebody published: `rows` are sizes in bytes and times in µs."""
    pairs = [row.split() for row in rows.split(",")]
    sizes, seconds = zip(*((float(size), float(us) * 1e-6) for size, us in pairs), strict=True)
    path = folder / "table.txt"
    text = samples.nccl_tests(
        seconds, ranks=ranks, nodes=nodes, sizes=sizes, device=device, collective=collective
    )
    path.write_text(text)
    return path


def iperf3(folder: Path, *, gbit_per_s: float, streams: int = 8, again: int = 0) -> Path:
    path = folder / "iperf3.json"
    path.write_text(samples.iperf3_json(gbit_per_s, streams, again))
    return path


def perftest(folder: Path, *, gbit_per_s: list[float], first: int = 0) -> Path:
    """One output of ib_write_bw an adapter."""
    for number, rate in enumerate(gbit_per_s, first):
        text = samples.perftest(rate, device=f"mlx5_{number}")
        (folder / f"ib{number}.txt").write_text(text)
    return folder if len(gbit_per_s) > 1 else folder / f"ib{first}.txt"


def links(
    folder: Path, *, ratio: float = 1.0, host: str = "", told: bool = False, noise: float = 0.0, seed: int = 0
) -> Path:
    """A result of `measure links` over ranks 0 and 1 of host a, 2 and 3 of host b."""
    hosts, rng, rows = "aabb", np.random.default_rng(seed), []
    for source in range(4):
        for target in range(4):
            if source == target:
                continue
            slow = ratio if host and hosts[source] == host else 1.0
            rate = (50e9 if hosts[source] != hosts[target] else 380e9) * slow
            rate *= float(np.exp(noise * rng.standard_normal()))
            spread = {"p10": 0.98 * rate, "p90": 1.02 * rate, "latency_s": 8e-6}
            rows.append({"source": source, "target": target, "rate_bytes_per_s": rate, **spread})
    found = {"host": host, "ranks": [2, 3], "where": "between hosts", "way": "sending", "ratio": ratio}
    found |= {"sure": 1.0, "slower": 9, "compared": 9, "what": f"host {host}: slow"}
    path = folder / "links.json"
    path.write_text(samples.result("links", {"rows": rows, "suspects": [found] if told else []}))
    return path


def matmul(
    folder: Path, *, times: float = 1.0, cluster: str = "dgx-h100", device: str = samples.H100
) -> Path:
    chip = sw.cluster(cluster).device
    shapes = [Gemm(m, 8192, k) for m in (4096, 8192, 16384) for k in (4096, 8192)]
    rows = [
        KernelRow.of(
            TimedKernel("gemm", shape, 2),
            [times * float(gemm_alone_seconds(shape, chip, calibration(chip).gemm))] * 5,
        ).model_dump(mode="json")
        for shape in shapes
    ]
    path = folder / "matmul.json"
    path.write_text(samples.result("matmul", {"rows": rows}, device=device))
    return path


def traces(
    folder: Path, *, only: tuple[int, ...] = (), sleeping: dict[int, float] | None = None, **what: Any
) -> Path:
    """Traces of ranks in a folder; `sleeping` is time of a step in which a rank does nothing."""
    what |= {"collecting": what.get("collecting", {}) | (sleeping or {})}
    what["size_bytes"] = float(what.get("size_bytes", 1e7))
    for trace in job.Job(**what).traces():
        if only and trace.rank not in only:
            continue
        asleep = sleeping is not None and trace.rank in sleeping
        job.written(silent(trace) if asleep else trace, folder / f"rank{trace.rank}.json.gz")
    return folder if len(only) != 1 else folder / f"rank{only[0]}.json.gz"


def silent(trace: Trace) -> Trace:
    """Without its garbage collection: nothing is recorded in that time."""
    keep = trace.name != job.COLLECTION
    place = np.cumsum(keep) - 1
    columns = ("name", "category", "start_ns", "duration_ns", "thread", "stream", "correlation")
    met = {int(place[number]): one for number, one in trace.collectives.items()}
    return replace(trace, collectives=met, **{name: getattr(trace, name)[keep] for name in columns})


def dumps(
    folder: Path,
    *,
    counts: dict[int, int],
    members: int,
    state: str = "scheduled",
    last: dict[int, dict[str, Any]] | None = None,
) -> Path:
    """Flight-recorder dumps: so many collectives of each rank, `last` changes the last of a rank."""
    most = max(counts.values())
    for rank, count in counts.items():
        change = (last or {}).get(rank, {})
        now = state if count == most else "completed"
        dump = nccl_samples.flight(rank, count, state=now, **change)
        dump["pg_config"] = {"0": {"name": "0", "ranks": str(list(range(members)))}}
        (folder / f"trace_rank_{rank}.json").write_text(json.dumps(dump))
    return folder


LINES = {
    "torchtitan": (
        "[rank0]:[titan] {when} - root - INFO - step: {step:2}  loss: {loss:8.4f}  memory: "
        "{gib:.2f}GiB({share:.2f}%)  tps: {tokens:,.0f}  tflops: {tflops:.2f}  mfu: 40.00%"
    ),
    "nanoGPT": "iter {step}: loss {loss:.4f}, time {ms:.2f}ms, mfu 31.20%",
    "Megatron-LM": (
        " [{when}] iteration {step:8}/ 500000 | consumed samples: {samples:12} | elapsed time per iteration "
        "(ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f} | learning rate: 1.500000E-04 | "
        "global batch size:   256 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.410 | number of "
        "skipped iterations:   0 | number of nan iterations:   0 |"
    ),
}


def log(
    folder: Path,
    *,
    framework: str = "torchtitan",
    steps: int = 300,
    step_s: float = 1.5,
    noise: float = 0.01,
    seed: int = 0,
    slower_from: int = 0,
    times: float = 1.0,
    drift: float = 1.0,
    every: int = 0,
    every_times: float = 1.0,
    stall_at: int = 0,
    stall_times: float = 20.0,
    nan_from: int = 0,
    loss_jump_at: int = 0,
    flat: bool = False,
    grows_gib: float = 0.0,
) -> Path:
    """A training log: a series of step times and losses in the lines of a framework."""
    rng, count = np.random.default_rng(seed), np.arange(1, steps + 1)
    seconds = step_s * np.exp(noise * rng.standard_normal(steps)) * drift ** (count / steps)
    seconds[count >= (slower_from or steps + 1)] *= times
    if every:
        seconds[count % every == 0] *= every_times
    seconds[count == stall_at] *= stall_times
    loss = 2.0 + 8.0 * np.exp(-count / 60) + 0.02 * rng.standard_normal(steps)
    loss = np.full(steps, 11.05) + 0.001 * rng.standard_normal(steps) if flat else loss
    if loss_jump_at:
        loss[count >= loss_jump_at] += 4.0 * np.exp(-(count[count >= loss_jump_at] - loss_jump_at) / 20)
    loss[count >= (nan_from or steps + 1)] = np.nan
    memory = 40.0 + grows_gib * count / steps
    begin, lines = datetime(2026, 3, 1, tzinfo=UTC), []
    for step, end, took, value, gib in zip(count, np.cumsum(seconds), seconds, loss, memory, strict=True):
        when = f"{begin + timedelta(seconds=float(end)):%Y-%m-%d %H:%M:%S,%f}"[:-3]
        shown = {"when": when, "step": step, "loss": value, "gib": gib, "share": gib / 0.8}
        shown |= {"tokens": 8192 / took, "tflops": 500 / took, "ms": 1e3 * took, "samples": 256 * step}
        lines.append(LINES[framework].format(**shown))
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def nccl_log(folder: Path, **what: Any) -> Path:
    path = folder / "nccl.log"
    path.write_text(nccl_samples.nccl_log(**what))
    return path


def nsys(folder: Path, **what: Any) -> Path:
    path = folder / "nsys.txt"
    path.write_text(nccl_samples.nsys(**what))
    return path


def operations(
    folder: Path, *, dp: int = 2, stages: int = 2, slow: tuple[int, int] | None = None, times: float = 1.0
) -> Path:
    """A table of operations; the worker at (dp rank, stage), or a whole stage (-1), is slower."""

    def seconds(kind: str, rank: int, stage: int, *_: int) -> float:
        takes = {"forward-compute": 1.0, "backward-compute": 2.0, "optimizer": 0.5}.get(kind, 0.0)
        hit = slow is not None and stage == slow[1] and slow[0] in (rank, -1)
        return takes * (times if hit and kind.endswith("compute") else 1.0)

    return written(folder / "operations.csv", Shape(dp, stages, 4, 5), seconds)


def together(folder: Path, **parts: dict[str, Any]) -> Path:
    """Several inputs in one folder."""
    for name, what in parts.items():
        inside = folder / name
        inside.mkdir()
        MAKERS[name](inside, **what)
    return folder


MAKERS: dict[str, Callable[..., Path]] = {
    one.__name__: one
    for one in (
        table,
        published,
        iperf3,
        perftest,
        links,
        matmul,
        traces,
        dumps,
        log,
        nccl_log,
        nsys,
        operations,
        together,
    )
}
