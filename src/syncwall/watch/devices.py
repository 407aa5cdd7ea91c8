"""GPUs of a node: what is known of them, and which fails or is slowed down by heat or power.

Holds `DeviceState` and `Limit`, which `watch.nvml` reads; `judged_devices` with `device_errors` and
`throttled`, pure functions that an agent calls for its own node.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from syncwall.watch.events import Finding, FindingKind
from syncwall.watch.thresholds import THRESHOLDS, Thresholds


class Limit(StrEnum):
    """What holds the clocks of a device down."""

    THERMAL = "heat"
    POWER_BRAKE = "power brake"
    """Of the machine: its power supply asks for it."""
    POWER_CAP = "power limit"
    """Of the device: usual under load."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One GPU of a node."""

    device: int
    """Its number in NVML."""
    node: str = ""
    rank: int | None = None
    """Whose process computes on it; None if NVML does not tell."""
    limited_s: Mapping[Limit, float] = field(default_factory=dict)
    """Since when it is slowed down, by what, since the epoch."""
    temperature_c: float | None = None
    ecc_errors: int | None = None
    """That could not be corrected, since the driver was loaded."""
    new_ecc_errors: int = 0
    """Those of them since it was watched."""
    xids: tuple[int, ...] = ()
    """The latest that the driver told."""
    xid_count: int = 0
    error_s: float | None = None
    """Of its latest error, since the epoch."""


_XIDS: Final = {
    13: "often an error of the program", 31: "often an error of the program",
    43: "often an error of the program", 45: "after another error", 48: "double-bit ECC error",
    63: "a row of memory is remapped", 64: "a row of memory could not be remapped",
    74: "NVLink error", 79: "the GPU has fallen off the bus", 94: "contained ECC error",
    95: "uncontained ECC error",
}  # fmt: skip
"""What NVIDIA's "XID Errors" says of those that are met most."""
_WORDS: Final = {
    Limit.THERMAL: "heat holds its clocks down",
    Limit.POWER_BRAKE: "the machine's power brake holds its clocks down",
    Limit.POWER_CAP: "its power limit holds its clocks down, but not those of most others here",
}


def judged_devices(
    devices: Sequence[DeviceState], now_s: float, limits: Thresholds = THRESHOLDS
) -> tuple[Finding, ...]:
    """All that is wrong with the devices of a node."""
    return (*device_errors(devices, now_s, limits), *throttled(devices, now_s, limits))


def device_errors(
    devices: Iterable[DeviceState], now_s: float, limits: Thresholds = THRESHOLDS
) -> list[Finding]:
    """Devices with an Xid or an error of memory that ECC could not correct, for a while."""
    found = []
    for one in devices:
        if one.error_s is None or now_s - one.error_s > limits.device_error_s:
            continue
        said = [f"{one.new_ecc_errors} uncorrectable ECC errors"] if one.new_ecc_errors else []
        said += [f"Xid {xid} ({_XIDS.get(xid, 'see the kernel log')})" for xid in one.xids]
        found.append(_finding(FindingKind.DEVICE_ERROR, one, one.error_s, ", ".join(said)))
    return found


def throttled(
    devices: Sequence[DeviceState], now_s: float, limits: Thresholds = THRESHOLDS
) -> list[Finding]:
    """Devices that heat or a power brake has slowed down for a while; at the power limit only those
    that are there alone: where most are, a training is as fast as it can be.
    """
    usual = 2 * sum(Limit.POWER_CAP in one.limited_s for one in devices) >= len(devices)
    found = []
    for one in devices:
        for kind, since_s in one.limited_s.items():
            if now_s - since_s < limits.throttled_s or (kind is Limit.POWER_CAP and usual):
                continue
            hot = "" if one.temperature_c is None else f", at {one.temperature_c:.0f} °C"
            said = f"{_WORDS[kind]} for {now_s - since_s:.0f} s{hot}"
            found.append(_finding(FindingKind.THROTTLED, one, since_s, said))
            break
    return found


def _finding(kind: FindingKind, one: DeviceState, since_s: float, said: str) -> Finding:
    told = f"GPU {one.device}: {said}"
    return Finding(kind, one.rank, one.node, since_s, told, device=one.device)
