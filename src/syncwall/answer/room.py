"""How sure it is that a run fits.

Holds `Room`: the interval of the memory that a run takes and the probability that the device has as
much. What differs from run to run is the allocator's fragments, kernels that keep more or less than
is usual, and workspaces.
"""

from dataclasses import dataclass
from math import log
from statistics import NormalDist

from syncwall.answer.interval import Z80
from syncwall.describe import Device

LOW, HIGH = 0.88, 1.20
"""P10 and P90 of measured over predicted memory: the calibration half of the ultra-scale playbook,
BLOOM's and ml-engineering's runs, each source with the same weight."""


@dataclass(frozen=True, slots=True)
class Room:
    """The memory of one run beside that of its device."""

    memory_bytes: float
    """As predicted: the median."""
    size_bytes: float
    """What the device has."""

    @classmethod
    def on(cls, device: Device, memory_bytes: float) -> "Room":
        """The room that so many bytes have on `device`."""
        return cls(memory_bytes, float(device.memory.size_bytes))

    @property
    def interval_bytes(self) -> tuple[float, float]:
        """P10 and P90."""
        return LOW * self.memory_bytes, HIGH * self.memory_bytes

    @property
    def probability(self) -> float:
        """How likely it fits: two halves of a normal distribution of the logarithm."""
        away = log(self.size_bytes / self.memory_bytes)
        spread = log(HIGH) if away > 0 else -log(LOW)
        return NormalDist(0.0, spread / Z80).cdf(away)


def may_fit(memory_bytes: float, device: Device) -> bool:
    """True unless even the P10 of a run's memory is more than the device has."""
    return Room.on(device, memory_bytes).interval_bytes[0] <= float(device.memory.size_bytes)
