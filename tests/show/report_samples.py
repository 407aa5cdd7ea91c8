"""Made-up results for the report: a lab of several places and rates, one of each measurement."""

import json
from pathlib import Path
from typing import Any

from syncwall.lab.closed_loop import Forecast
from syncwall.lab.experiment import LabJob
from syncwall.lab.experiment_run import LabRecord
from syncwall.lab.virtual_network import Topology
from syncwall.measure.kernel_times import Times
from syncwall.measure.result import Host, JobFacts, Result, ResultKind

PLACES = ((1, 2), (2, 1), (1, 4), (2, 2), (4, 1))
RATES = (12.5e6, 31.25e6, 125e6)


def times(median_s: float, spread: float = 0.05) -> dict[str, Any]:
    """Of trials that vary by `spread`."""
    low, high = median_s * (1 - spread), median_s * (1 + spread)
    return Times.of([low, low, median_s, high, high]).model_dump()


def result(
    kind: ResultKind, data: dict[str, Any], hosts: tuple[str, ...] = ("h0", "h1"), **more: Any
) -> Result:
    """A result of a job on `hosts`."""
    found = tuple(
        Host(
            name=name,
            system="Linux 6.1",
            cpu="Some CPU",
            cores=2,
            memory_bytes=8 * 10**9,
            packages={"torch": "2.9"},
            environment={"OMP_NUM_THREADS": "1"},
        )
        for name in dict.fromkeys(hosts)
    )
    job = JobFacts(backend="gloo", device="cpu", hosts=hosts)
    made = "2026-01-01T00:00:00+00:00"
    return Result(kind=kind, made_at=made, job=job, hosts=found, data=data, **more)


def step_data(compute_s: float, exposed_s: float, ranks: int = 2) -> dict[str, Any]:
    """A step of compute, waiting and an optimizer of 10 ms."""
    ledger = {
        "forward": compute_s / 3,
        "backward": compute_s / 1.5,
        "exposed DP": exposed_s,
        "optimizer": 0.01,
    }
    total = sum(ledger.values())
    return {
        "times": times(total),
        "ledger_s": ledger,
        "tokens_per_s": 1024 / total,
        "ranks": [
            {"rank": r, "host": f"h{r}", "busy_s": compute_s, "ledger_s": ledger} for r in range(ranks)
        ],
        "model_flop_per_s": 5e9,
        "matmul_flop_per_s": 5e10,
    }


def collectives_data(ranks: int, rate: float) -> dict[str, Any]:
    """An all-reduce over sizes that reaches `rate`."""
    sizes = [2**power for power in range(14, 25, 2)]
    return {
        "rows": [
            {
                "kind": kind,
                "bytes": size,
                "ranks": ranks,
                "hosts": 2,
                "dtype": "float32",
                "times": times(200e-6 + 2 * size / rate * (ranks - 1) / ranks),
            }
            for kind in ("all-reduce", "all-gather")
            for size in sizes
        ]
    }


def links_data(ranks: int = 4) -> dict[str, Any]:
    """Every pair at 1 GB/s, rank 2 slower."""
    return {
        "rows": [
            {"source": a, "target": b, "rate_bytes_per_s": rate, "p10": rate, "p90": rate, "latency_s": 30e-6}
            for a in range(ranks)
            for b in range(ranks)
            if a != b
            for rate in [4e8 if 2 in (a, b) else 1e9]
        ],
        "suspects": [],
        "size_bytes": 2**22,
        "repeats": 9,
    }


def matmul_data() -> dict[str, Any]:
    """A multiplication, an attention and a copy."""
    gemm = {"m": 512.0, "n": 1024.0, "k": 256.0, "dtype": "fp32", "is_weight_gradient": False}
    attention = {
        "batch": 4.0,
        "heads": 4.0,
        "length": 128.0,
        "head_dim": 64.0,
        "kv_heads": 4.0,
        "is_backward": False,
    }
    rows: list[tuple[str, str, dict[str, Any], float, float]] = [
        ("mlp up", "gemm", gemm, 5e10, 4e9),
        ("attention", "attention", attention, 2e10, 2e9),
        ("norm", "elementwise", {"kind": "norm", "bytes": 1e6}, 0.0, 6e9),
    ]
    return {
        "rows": [
            {
                "name": name,
                "operation": operation,
                "shape": shape,
                "times": times(1e-3),
                "flop_per_s": flops,
                "bytes_per_s": moved,
            }
            for name, operation, shape, flops, moved in rows
        ],
        "beside": {"bytes": 8388608, "alone_s": 0.02, "beside_s": 0.03, "lost_s": 0.004, "meeting_s": 0.001},
    }


def lab_records(*, predicted: bool = True, off: float = 0.04) -> list[LabRecord]:
    """A step and collectives at every place and rate."""
    records = []
    for hosts, workers in PLACES:
        for rate in RATES if hosts > 1 else RATES[:1]:
            topology = Topology(hosts=hosts, workers=workers, rate_bytes_per_s=rate)
            names = tuple(f"h{rank // workers}" for rank in range(topology.world))
            busbw = rate if hosts > 1 else 4e8
            found = result("collectives", collectives_data(topology.world, busbw), names)
            job = LabJob(measure="collectives", flags={"kinds": "all-reduce,all-gather"})
            records.append(LabRecord(topology=topology, job=job, seconds=3.0, result=found))
            for model, shard, size in (("tiny-5m", "ddp", 1.0), ("tiny-15m", "fsdp", 3.0)):
                exposed_s = size * (2e7 / busbw) * hosts**0.5
                compute_s = 0.2 * size
                data = step_data(compute_s, exposed_s, topology.world)
                total = data["times"]["median_s"]
                ledger = {"GEMM": compute_s, "exposed DP": exposed_s + off * total, "optimizer": 0.01}
                forecast = Forecast(step_s=total * (1 + off), ledger_s=ledger)
                job = LabJob(measure="step", flags={"model": model, "shard": shard, "steps": 8})
                records.append(
                    LabRecord(
                        topology=topology,
                        job=job,
                        seconds=9.0,
                        result=result("step", data, names),
                        predicted=forecast.model_dump() if predicted else None,
                    )
                )
    return records


def lab_result(records: list[LabRecord], **asked: Any) -> Result:
    """A lab that wrote `records`."""
    experiment = {"name": "made-up", "title": "Made-up steps", "question": "Why?", **asked}
    dumped = [record.model_dump(mode="json") for record in records]
    return result("lab", {"experiment": experiment, "records": dumped}, ("vm",))


def written(path: Path, found: Result | dict[str, Any]) -> Path:
    """`found` as the file at `path`."""
    value = found.model_dump(mode="json") if isinstance(found, Result) else found
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path
