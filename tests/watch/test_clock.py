"""With a device that runs behind, steps show what the device did; nothing ever waits for it."""

from syncwall.cause import Cause
from syncwall.watch.rings import MOST_PENDING, DeviceMarks, DeviceTime, MarkKind, Ring, RingReader
from syncwall.watch.steps import StepMaker


class Device:
    """Comes to each event a while after the one before."""

    def __init__(self) -> None:
        self.queue: list[Event] = []
        self.now_ms = 0.0

    def passes(self, ms: float) -> None:
        """It comes to all events, then works so long."""
        for event in self.queue:
            event.at_ms = self.now_ms
        self.queue.clear()
        self.now_ms += ms


class Event:
    made = 0

    def __init__(self, device: Device) -> None:
        self.device = device
        self.at_ms: float | None = None
        Event.made += 1

    def record(self) -> None:
        self.at_ms = None
        self.device.queue.append(self)

    def query(self) -> bool:
        return self.at_ms is not None

    def elapsed_time(self, other: "Event") -> float:
        assert self.at_ms is not None
        assert other.at_ms is not None
        return other.at_ms - self.at_ms


STEP = [
    (MarkKind.DATA_BEGIN, 1),
    (MarkKind.DATA_END, 2),
    (MarkKind.BACKWARD_BEGIN, 30),
    (MarkKind.LAST_GRADIENT, 60),
    (MarkKind.BACKWARD_END, 15),
    (MarkKind.OPTIMIZER_BEGIN, 1),
    (MarkKind.OPTIMIZER_END, 6),
]
"""Kinds, with the milliseconds of the device before each."""


def test_steps_are_the_devices(tmp_path):
    ring, device = Ring(tmp_path / "rank-0.ring", 0, slots=1024), Device()
    marks = DeviceMarks(ring.mark, lambda: Event(device))
    device.passes(0)
    Event.made = 0
    for _ in range(20):
        for kind, ms in STEP:
            device.passes(ms)
            marks.mark(kind, 0.0, int(kind == MarkKind.OPTIMIZER_END))
    maker = StepMaker(0)
    found = list(maker.take(DeviceTime().take(RingReader(ring.path).read())))
    assert len(found) >= 16
    last = {cause: round(seconds * 1e3) for cause, seconds in found[-1].seconds.items()}
    assert last[Cause.EXPOSED_DP] == 15
    assert last[Cause.BACKWARD] == 60
    assert round(found[-1].step_s * 1e3) == 115
    assert Event.made < 12  # they are used again


def test_a_device_that_stands_still_is_not_waited_for(tmp_path):
    ring, device = Ring(tmp_path / "rank-0.ring", 0, slots=4096), Device()
    marks = DeviceMarks(ring.mark, lambda: Event(device))
    for _ in range(2 * MOST_PENDING):
        marks.mark(MarkKind.DATA_BEGIN)
    assert len(device.queue) == MOST_PENDING + 1
    assert not list(DeviceTime().take(RingReader(ring.path).read()))
