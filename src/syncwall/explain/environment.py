"""Environment variables and settings that make training slow.

Holds `check_environment`. Rules with one condition on one variable are in `explain.switches`; here
are those that need more: processors, adapters, a run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from syncwall.answer.prediction import predict
from syncwall.describe import Run
from syncwall.describe.layout import Shard
from syncwall.explain.changed_machine import slowdown, with_nics, with_scale_up
from syncwall.explain.finding import Finding, worst_first
from syncwall.explain.switches import RULES


def check_environment(
    settings: Mapping[str, str],
    *,
    where: str = "environment",
    cpus: int | None = None,
    processes: int | None = None,
    run: Run | None = None,
) -> tuple[Finding, ...]:
    """What in `settings` (variables and DDP's arguments, by name) costs time, the worst first.

    `cpus` and `processes` are those of a host. `run` prices what the model can price.
    """
    found = [
        replace(rule.finding(settings[rule.name], where), slowdown=_price(rule.name, run))
        for rule in RULES
        if rule.name in settings and rule.applies(str(settings[rule.name]).strip())
    ]
    found += _threads(settings, where, cpus, processes)
    found += _buckets(settings, where, run)
    found += _interfaces(settings, where, run)
    return worst_first(found)


def _price(name: str, run: Run | None) -> float | None:
    """Predicted cost of a switch; None where the model has no term for it."""
    if run is None:
        return None
    if name == "NCCL_P2P_DISABLE":
        return slowdown(run, with_scale_up(run, 0.0))
    if name == "NCCL_IB_DISABLE":
        return slowdown(run, with_nics(run, transport="tcp"))
    return None


def _threads(
    settings: Mapping[str, str], where: str, cpus: int | None, processes: int | None
) -> Iterator[Finding]:
    """OMP_NUM_THREADS against the processors of the host."""
    text = str(settings.get("OMP_NUM_THREADS", "")).strip()
    share = cpus // processes if cpus and processes else None
    if not text:
        if share is not None and processes is not None and processes > 1:
            yield Finding(
                "suspect",
                f"OMP_NUM_THREADS is not set, {processes} processes share {cpus} processors",
                "torchrun then sets it to 1, which slows data loading and optimizers on the CPU; "
                "other launchers leave it to OpenMP, and every process starts a thread for each "
                "processor",
                f"export OMP_NUM_THREADS={max(share, 1)} or less, and measure",
                where,
            )
        return
    if not text.isdecimal() or share is None or processes is None:
        return
    if len(text) > 9 or int(text) > max(share, 1):
        yield Finding(
            "wrong",
            f"OMP_NUM_THREADS={text[:9]} for {processes} processes on {cpus} processors",
            "threads of all processes hold up each other and the thread that launches kernels",
            f"export OMP_NUM_THREADS={max(share, 1)} or less",
            where,
        )


def _buckets(settings: Mapping[str, str], where: str, run: Run | None) -> Iterator[Finding]:
    """DDP's bucket size against the number of GPUs."""
    text = str(settings.get("bucket_cap_mb", "")).strip()
    try:
        size = float(text[:20]) if text else 25.0
    except ValueError:
        return
    gpus = run.gpus if run else 0
    stated = "bucket_cap_mb" in settings
    cost = _bucket_cost(run, size)
    if 0 < size < 25 and stated:
        yield Finding(
            "suspect",
            f"DDP's buckets have {size:g} MB, less than the usual 25",
            "every bucket is an all-reduce of its own: small ones pay latency instead of bandwidth",
            "try bucket_cap_mb=100 and compare the exposed communication",
            where,
            cost,
        )
    elif stated and size <= 25 and gpus >= 64:
        yield Finding(
            "note",
            f"DDP's buckets have {size:g} MB on {gpus} GPUs",
            "an all-reduce's latency grows with the ranks while its bucket does not; PyTorch's own "
            "issue 118421 calls 25 MB very small. On Isambard-AI 100 MB did not help, so measure",
            "try bucket_cap_mb=100",
            where,
            cost,
        )


def _bucket_cost(run: Run | None, megabytes: float) -> float | None:
    """Predicted step with buckets of so many MiB over that with 100 MiB; None without DDP."""
    if run is None or run.layout.shard != Shard.DDP or not 0 < megabytes < 1e6:
        return None
    seconds = []
    for size in (megabytes, 100.0):
        layout = run.layout.model_copy(update={"bucket_bytes": size * 2**20})
        seconds.append(predict(run.model_copy(update={"layout": layout})).step_s)
    return seconds[0] / seconds[1]


def _interfaces(settings: Mapping[str, str], where: str, run: Run | None) -> Iterator[Finding]:
    """NCCL_SOCKET_IFNAME and NCCL_IB_HCA that leave nothing fast."""
    names = str(settings.get("NCCL_SOCKET_IFNAME", "")).strip()
    first = names.lstrip("=").split(",")[0]
    if names and not names.startswith("^") and first == "lo" and (run is None or run.nodes > 1):
        yield Finding(
            "wrong",
            f"NCCL_SOCKET_IFNAME={names} names the loopback interface",
            "no other host can be reached through it",
            "name the interface that the other hosts are on, or unset it",
            where,
        )
    elif first.startswith(("docker", "virbr", "veth")):
        yield Finding(
            "wrong",
            f"NCCL_SOCKET_IFNAME={names} names a virtual interface",
            "bootstrap, and all data where NCCL has no RDMA, go through a software bridge",
            "name the interface of the training network, or exclude this one with ^",
            where,
        )
    listed = str(settings.get("NCCL_IB_HCA", "")).strip()
    built = run.cluster.node.nics.count if run and run.cluster.node.nics else None
    named = [name for name in listed.lstrip("=").split(",") if name]
    exact = listed.startswith("=") or all(":" in name for name in named)
    if listed and not listed.startswith("^") and built and exact and len(named) < built:
        yield Finding(
            "wrong",
            f"NCCL_IB_HCA names {len(named)} of {built} adapters",
            "the others stay idle",
            "name all adapters for training, or unset it",
            where,
            slowdown(run, with_nics(run, count=len(named))) if run else None,
        )
