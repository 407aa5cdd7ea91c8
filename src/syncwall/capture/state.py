"""What the recorder, its modes and its shims share. Holds `State`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from syncwall.capture.places import Batch, Places
from syncwall.capture.recorded_operations import OperationMode
from syncwall.capture.routing import Routing, local
from syncwall.capture.storages import Storages
from syncwall.capture.tape import Tape, TapeStreams
from syncwall.work.program import NoteKind, ShardedUnit


@dataclass
class RecordingState:
    """One recording, as long as it runs."""

    world_size: int
    rank: int
    ranks_per_node: int
    tape: Tape
    places: Places
    storages: Storages
    streams: TapeStreams
    fake: FakeTensorMode
    mode: OperationMode
    batch: Batch
    routing: Routing = field(init=False)
    devices: Any = None
    """The mode that translates devices."""
    poses: bool = False
    """The program has asked for CUDA: what it makes without naming a device is on the host."""
    compiled: bool = False
    """The program asks for `torch.compile`."""
    sharded: list[Any] = field(default_factory=list)
    """Parameters of FSDP."""
    buffers: dict[int, ShardedUnit] = field(default_factory=dict)
    """What FSDP gathers and reduces, by the number of the storage."""
    handed_on: dict[int, Any] = field(default_factory=dict)
    """Descriptions of the tensors that pipeline stages hand to the next, by stage."""
    received: dict[int, Any] = field(default_factory=dict)
    """What stages of this rank expect from other ranks, by the stage that sends it."""
    sent: set[int] = field(default_factory=set)
    """Stages of this rank that hand something on to another one."""
    pipeline: tuple[int, ...] = ()
    """Ranks that this one shares a pipeline with, itself among them."""
    evaluated: dict[tuple[Any, ...], tuple[int, Any]] = field(default_factory=dict)
    """Calls of models before the first step, without gradients: how often, and what they gave."""
    works: dict[int, tuple[Any, list[int]]] = field(default_factory=dict)
    """Work that process groups returned, and the calls that it stands for, by its identity."""
    coalesced_from: int = 0
    """Communication that had been issued when collectives began to be coalesced."""
    after_step: Callable[[object], None] = lambda _: None
    """Called with each optimizer that has made a step."""

    def __post_init__(self) -> None:
        self.routing = Routing(self.storages)
        self.mode.constants.is_routed = lambda mask: self.routing.share(mask) is not None

    def on_device(self, tensor: torch.Tensor) -> None:
        """Tell that a tensor is on the device, whatever it looked like."""
        number = self.storages.known(local(tensor))
        if number is not None:
            self.storages.host.discard(number)

    def host_waits(self, name: str, calls: set[int]) -> None:
        """Write down that the host waits for some calls."""
        if not self.tape.pauses:
            self.tape.add_host_wait(name, calls, *self.places.now())

    def made_up(self, name: str) -> None:
        """Note that a value was made up that only real data would give."""
        if not self.tape.pauses:
            self.tape.note(NoteKind.PLACEHOLDER, name, self.places.now()[1])
