"""Which events are communication, and what is known of each.

Holds `communication_of`. Newer profilers write the metadata to the kernel itself; for older ones it
comes from the host's annotation or record around the call that launched the kernel.
`is_communication`, `collective_kind`, `dtype_bytes` and `HOST_CALLS`: what collective a name stands
for: of a kernel, of a call, of a recorded operation.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from syncwall.read.trace import Category, Trace, TracedCollective

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
