"""What happened on one rank: events as columns, and which of them are communication.

A reader fills it in, whatever the file was; an event costs a few tens of bytes, so that a rank with
a million of them fits into 100 MB.

Newer profilers write the metadata to the kernel itself; for older ones it comes from the host's
annotation or record around the call that launched the kernel.
"""

import re
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np

from syncwall.problems import Problem


class Category(IntEnum):
    """What an event is."""

    OTHER = 0
    KERNEL = 1
    """Computation or communication on the device."""
    COPY = 2
    """Memory copies and fills on the device."""
    OPERATOR = 3
    """An operator of the framework on the host."""
    RUNTIME = 4
    """A call of the device's runtime or driver on the host."""
    ANNOTATION = 5
    """A range that the user or the framework named, on the host."""
    DEVICE_ANNOTATION = 6
    """The same, as the device saw it."""
    PYTHON = 7
    SYNC = 8
    """A wait for the device, with what was waited for."""
    OVERHEAD = 9
    """Work of the profiler itself."""


@dataclass(frozen=True, slots=True)
class TracedCollective:
    """What is known of one communication kernel or call."""

    kind: str
    """all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, send-receive, other."""
    bytes: float | None = None
    """Size as nccl-tests counts it."""
    dtype: str | None = None
    group: str | None = None
    """Name of the process group."""
    ranks: int | None = None
    """Ranks of the group."""
    sequence: int | None = None
    """Number of the collective in its group, the same on all its ranks."""


@dataclass(frozen=True, slots=True)
class Step:
    """One training step on the host's clock."""

    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Trace:
    """Events of one rank, in order of their start; times in nanoseconds from `base_ns`."""

    source: str
    """The file."""
    names: list[str]
    """Every different name once."""
    name: Any
    """Of each event, as index into `names` (int32)."""
    category: Any
    """`Category` of each (int8)."""
    start_ns: Any
    duration_ns: Any
    """int64."""
    thread: Any
    """Of each event: a number for its process and thread (int32)."""
    stream: Any
    """Device stream of each (int32); -1 on the host."""
    correlation: Any
    """Joins a device event with the runtime call that launched it (int64); 0 if none."""
    collectives: dict[int, TracedCollective] = field(default_factory=dict)
    """What is known of communication, by index of the event."""
    steps: tuple[Step, ...] = ()
    """As the profiler marked them; empty if it did not."""
    base_ns: int = 0
    """Time of day at which times are 0."""
    rank: int | None = None
    rank_from: str = ""
    """What the rank was taken from where the trace does not say it: "name" or "order" of its file."""
    world_size: int | None = None
    device: str | None = None
    """Name of the accelerator."""
    host: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """What else the file says: versions, backend, environment."""
    problems: tuple[Problem, ...] = ()
    """What of the file could not be read."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Any:
        """End of each event."""
        return self.start_ns + self.duration_ns


_KINDS = (
    (re.compile(r"all_?to_?all|deep_?ep|internode::|intranode::", re.IGNORECASE), "all-to-all"),
    (re.compile(r"reduce_?scatter|cross_device_reduce_scatter", re.IGNORECASE), "reduce-scatter"),
    (
        re.compile(r"all_?reduce|cross_device_reduce|multimem.{0,60}reduce", re.IGNORECASE),
        "all-reduce",
    ),
    (re.compile(r"all_?gather|allgather", re.IGNORECASE), "all-gather"),
    (
        re.compile(r"send_?recv|(^|[^a-z])(i?send|i?recv)([^a-z]|$)|send_receive", re.IGNORECASE),
        "send-receive",
    ),
    (re.compile(r"broadcast", re.IGNORECASE), "broadcast"),
    (re.compile(r"barrier", re.IGNORECASE), "barrier"),
)
_COMMUNICATION = re.compile(
    r"^(?:void )?(?:nccl|rccl|msccl|mscclpp)|nccl(?:Dev)?Kernel|nvshmem|deep_ep|cross_device_reduce"
    r"|^(?:gloo|nccl|mpi|ucc|c10d|xccl|hccl):|oneccl|one_?shot_all_?reduce|two_?shot_all_?reduce"
    r"|ep::int(?:er|ra)node::"
    r"|multimem_all|symm_mem|all_?gather_into|ub_?comm|userbuffers_",
    re.IGNORECASE,
)
HOST_CALLS = ("gloo:", "mpi:", "ucc:")
"""How annotations begin that last as long as a collective on the host does."""
_BYTES = {
    **dict.fromkeys(("double", "long", "float64", "int64", "complexfloat"), 8),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8"), 1),
}


def is_communication(name: str) -> bool:
    """Whether a kernel or a call of this name moves data between ranks."""
    return _COMMUNICATION.search(name) is not None


def collective_kind(name: str) -> str:
    """One of `Collective.kind`."""
    for pattern, kind in _KINDS:
        if pattern.search(name):
            return kind
    return "other"


def dtype_bytes(name: str) -> int | None:
    """Bytes of an element of a type as PyTorch names it ("Float", "c10::BFloat16"), if known."""
    plain = name.lower().removeprefix("c10::").removeprefix("torch.")
    if plain.startswith("float8"):
        return 1
    return _BYTES.get(plain)


_RECORD = "record_param_comms"


def communication_of(trace: Trace) -> dict[int, TracedCollective]:
    """Collectives by event: kernels on the device and calls on the host.

    The host's own records (`record_param_comms`) are left out; they have told what they know.
    """
    named = np.array([is_communication(name) for name in trace.names], bool)
    record = np.array([name == _RECORD for name in trace.names], bool)
    known = trace.collectives
    wanted = named[trace.name] & (trace.category != Category.DEVICE_ANNOTATION)
    wanted &= (trace.category != Category.PYTHON) & (trace.category != Category.RUNTIME)
    described = [i for i, c in known.items() if trace.category[i] == Category.KERNEL]
    wanted[described] = True
    events = np.flatnonzero(wanted)
    calls = np.flatnonzero(
        (named | record)[trace.name] & (trace.category != Category.KERNEL) & (trace.stream < 0)
    )
    around = _around(trace, events, calls)
    found = {}
    for event, outer in zip(events.tolist(), around, strict=True):
        own = known.get(event)
        plain = TracedCollective(collective_kind(trace.names[trace.name[event]]))
        found[event] = own or _merged(trace, plain, outer, known)
    return {event: c for event, c in found.items() if c.kind != "wait"}


def _merged(
    trace: Trace, plain: TracedCollective, outer: list[int], known: dict[int, TracedCollective]
) -> TracedCollective:
    """What the calls around say, over what the name says."""
    for call in outer:
        told = known.get(call)
        if told is not None and told.kind != "wait":
            return told
    for call in outer:
        kind = collective_kind(trace.names[trace.name[call]])
        if kind != "other" and plain.kind in ("send-receive", "other"):
            return replace(plain, kind=kind)
    return plain


def _around(trace: Trace, events: Any, calls: Any) -> list[list[int]]:
    """Of each event, the calls that contain its launch, innermost first."""
    launch = launches(trace)[events]
    host = np.where(trace.stream[events] < 0, events, launch)
    found: list[list[int]] = []
    ends, starts, threads = trace.end_ns, trace.start_ns, trace.thread
    begins = starts[calls]
    for own, at in zip(events.tolist(), host.tolist(), strict=True):
        if at < 0 or not len(calls):
            found.append([])
            continue
        last = int(np.searchsorted(begins, starts[at], side="right"))
        near = calls[max(0, last - 64) : last][::-1]
        inside = (threads[near] == threads[at]) & (ends[near] >= ends[at])
        found.append([int(c) for c in near[inside & (near != own)]])
    return found


def launches(trace: Trace) -> Any:
    """Of each event, the runtime call that launched it, as its index; -1 if unknown."""
    result = np.full(len(trace), -1, np.int64)
    calls = np.flatnonzero((trace.category == Category.RUNTIME) & (trace.correlation != 0))
    device = np.flatnonzero((trace.stream >= 0) & (trace.correlation != 0))
    if not len(calls) or not len(device):
        return result
    calls = calls[np.argsort(trace.correlation[calls], kind="stable")]
    numbers = trace.correlation[calls]
    at = np.searchsorted(numbers, trace.correlation[device])
    at = np.minimum(at, len(calls) - 1)
    same = numbers[at] == trace.correlation[device]
    result[device[same]] = calls[at[same]]
    return result
