"""Settings of two days: versions, environment, NICs and choices of NCCL that files tell of.

Holds `SettingChange`, `settings_of` and `changed_settings`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncwall.explain.benchmarks import MeasuredFile
from syncwall.explain.traces.job_traces import JobTraces
from syncwall.explain.training_log import settings_of_log
from syncwall.read.detect import FileKind
from syncwall.read.nccl_facts import NcclLog
from syncwall.read.nccl_tests import NcclTests

_OF_TRACES: Final = ("schemaVersion", "events", "groups", "trace_id", "traceName")
"""Facts of a trace that are no settings."""
_ITS_OWN: Final = ("CUDA_VISIBLE_DEVICES", "NCCL_DEBUG", "NCCL_DEBUG_FILE")
"""Variables that differ without meaning."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting; None where a day has none."""

    name: str
    before: str | None
    now: str | None


def settings_of(read: Mapping[str, Sequence[Any]], traces: JobTraces | None) -> dict[str, str]:
    """What files say of how the job was set up."""
    found: dict[str, str] = {}
    for one in read.get(FileKind.MEASURED, ()):
        found.update(_of_measured(one.what))
    for one in read.get(FileKind.NCCL_TESTS, ()):
        found.update(_of_tests(one.what))
    for one in read.get(FileKind.NCCL_LOG, ()):
        found.update(_of_log(one.what))
    for one in read.get(FileKind.TRAINING_LOG, ()):
        found.update(settings_of_log(one.what))
    if traces is not None:
        found.update(_of_trace(traces))
    return {name: value for name, value in found.items() if name not in _ITS_OWN}


def changed_settings(now: Mapping[str, str], before: Mapping[str, str]) -> tuple[SettingChange, ...]:
    """Those that differ; of what only one day's files tell, environment variables."""
    found = []
    for name in dict.fromkeys([*before, *now]):
        one, other = before.get(name), now.get(name)
        told = (one is not None and other is not None) or (name.isupper() and _both(now, before))
        if one != other and told:
            found.append(SettingChange(name, one, other))
    return tuple(found)


def _both(now: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """True if both days' files show an environment at all, so that a missing variable is unset."""
    return all(any(name.isupper() or name == "NCCL" for name in day) for day in (now, before))


def _of_trace(job: JobTraces) -> Iterator[tuple[str, str]]:
    if job.world_size is not None:
        yield "ranks", str(job.world_size)
    if job.device:
        yield "device", job.device
    for name, value in job.facts.items():
        if name not in _OF_TRACES and isinstance(value, str | int | float):
            yield name, str(value)[:120]


def _of_log(log: NcclLog) -> Iterator[tuple[str, str]]:
    values = {
        "NCCL": log.version,
        "CUDA": log.cuda,
        "network plugin": log.plugin,
        "network": log.network,
        "provider": log.provider,
        "between nodes": log.inter_node,
        "GPUDirect": _yes(log.gdr),
        "NVLS": _yes(log.nvls),
        "NICs used": str(len(log.nics_used)) if log.nics else None,
        "ways": ", ".join(sorted(log.transports)) or None,
    }
    world = log.world
    if world is not None:
        values |= {"channels": str(world.coll_channels) if world.coll_channels else None}
    yield from ((name, str(value)) for name, value in values.items() if value is not None)
    for name, variable in log.environment.items():
        yield name, variable.value[:120]
    for one in log.selections:
        yield (
            f"NCCL's choice for {one.collective} of {one.bytes} B",
            f"{one.algorithm}/{one.protocol}",
        )


def _of_tests(run: NcclTests) -> Iterator[tuple[str, str]]:
    if run.nccl_version:
        yield "NCCL", run.nccl_version
    if run.devices:
        yield "device", run.devices[0].name
    yield from run.environment.items()


def _of_measured(found: MeasuredFile) -> Iterator[tuple[str, str]]:
    if found.result is None:
        return
    yield "backend", found.result.job.backend
    for host in found.result.hosts[:1]:
        yield from host.packages.items()
        yield from host.environment.items()
        for nic in host.nics:
            if nic.mbit_per_s is not None:
                yield f"rate of {nic.name}", f"{nic.mbit_per_s} Mb/s"


def _yes(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"
