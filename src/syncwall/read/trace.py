"""What happened on one rank: events as columns.

Holds `Trace`, `Category`, `TracedCollective` and `Step`. A reader fills it in, whatever the file
was; an event costs a few tens of bytes, so that a rank with a million of them fits into 100 MB.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

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
