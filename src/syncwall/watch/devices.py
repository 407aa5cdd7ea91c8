"""GPUs of a node: read through NVML, and which fails or is slowed down by heat or power.

Holds `DeviceState` and `Limit`; `judged_devices` with `device_errors` and `throttled`, pure
functions that an agent calls for its own node; and `Devices`, whose thread reads NVML every few
seconds: a driver that hangs must not hang the agent. Needs `nvidia-ml-py` and a driver; without
them there are no devices.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from syncwall.watch.events import Finding, FindingKind
from syncwall.watch.judges import THRESHOLDS, Thresholds
from syncwall.watch.rings import clock_s


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
    13: "often an error of the program",
    31: "often an error of the program",
    43: "often an error of the program",
    45: "after another error",
    48: "double-bit ECC error",
    63: "a row of memory is remapped",
    64: "a row of memory could not be remapped",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    94: "contained ECC error",
    95: "uncontained ECC error",
}
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


def throttled(devices: Sequence[DeviceState], now_s: float, limits: Thresholds = THRESHOLDS) -> list[Finding]:
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


_EVERY_S: Final = 5.0
_DRIVER: Final = Path("/proc/driver/nvidia/version")
_BITS: Final = {
    Limit.POWER_CAP: 0x4,  # nvmlClocksEventReasonSwPowerCap
    Limit.THERMAL: 0x20 | 0x40,  # ...SwThermalSlowdown, ...ThrottleReasonHwThermalSlowdown
    Limit.POWER_BRAKE: 0x80,  # ...ThrottleReasonHwPowerBrakeSlowdown
}
"""Of nvmlDeviceGetCurrentClocksEventReasons, which older versions call ThrottleReasons."""
_XIDS_KEPT: Final = 8


@dataclass(slots=True)
class _Device:
    """One GPU between two readings."""

    handle: Any
    state: DeviceState
    pids: frozenset[int] = field(default_factory=frozenset)
    first_errors: int | None = None
    """Of its memory, when it was read first."""


class Devices:
    """All GPUs of this machine."""

    def __init__(self, nvml: ModuleType | None = None, every_s: float = _EVERY_S) -> None:
        """`nvml` is the module `pynvml`, if not the one that is installed."""
        self.missing = ""
        """Why nothing is read, where there are devices."""
        self._every_s = every_s
        self._devices: list[_Device] = []
        self._end = threading.Event()
        self._nvml: Any = nvml or _installed()
        if self._nvml is not None:
            threading.Thread(target=self._run, name="syncwall-nvml", daemon=True).start()
        elif _DRIVER.exists():
            self.missing = "errors and throttling of GPUs are not read: pip install nvidia-ml-py"

    def states(self, ranks: Mapping[int, tuple[int, str]]) -> tuple[DeviceState, ...]:
        """As they were read last; `ranks` and their nodes are by process id."""
        node = next((node for _, node in ranks.values()), "")
        found = []
        for one in self._devices:
            rank = next((ranks[pid][0] for pid in one.pids if pid in ranks), None)
            found.append(replace(one.state, node=node, rank=rank))
        return tuple(found)

    def stop(self) -> None:
        """Stop reading."""
        self._end.set()

    def _run(self) -> None:
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
            devices = [_Device(handle, DeviceState(n)) for n, handle in enumerate(handles)]
            events = self._registered(devices)
            while True:
                for one in devices:
                    self._read(one)
                self._take_events(events, devices)
                self._devices = devices
                if self._end.wait(self._every_s):
                    break
            nvml.nvmlShutdown()
        except nvml.NVMLError as error:
            if _DRIVER.exists():
                self.missing = f"errors and throttling of GPUs are not read: {error}"

    def _registered(self, devices: list[_Device]) -> Any:
        """A set of events that Xids of these devices come to."""
        nvml = self._nvml
        events = nvml.nvmlEventSetCreate()
        for one in devices:
            with suppress(nvml.NVMLError):  # not all of them have events
                nvml.nvmlDeviceRegisterEvents(one.handle, nvml.nvmlEventTypeXidCriticalError, events)
        return events

    def _take_events(self, events: Any, devices: list[_Device]) -> None:
        nvml = self._nvml
        for _ in range(_XIDS_KEPT * len(devices)):
            try:
                event = nvml.nvmlEventSetWait_v2(events, 0)
                at = nvml.nvmlDeviceGetIndex(event.device)
            except nvml.NVMLError:  # a timeout: there are no more
                return
            state = devices[at].state
            xids = (*state.xids, int(event.eventData))[-_XIDS_KEPT:]
            devices[at].state = replace(state, xids=xids, xid_count=state.xid_count + 1, error_s=clock_s())

    def _read(self, one: _Device) -> None:
        nvml, now_s = self._nvml, clock_s()
        with suppress(nvml.NVMLError):
            reasons = self._clock_reasons(one.handle)
            held = {kind for kind, bits in _BITS.items() if reasons & bits}
            before = one.state.limited_s
            limited_s = {kind: before.get(kind, now_s) for kind in Limit if kind in held}
            one.state = replace(one.state, limited_s=limited_s)
        with suppress(nvml.NVMLError):
            degrees = nvml.nvmlDeviceGetTemperature(one.handle, nvml.NVML_TEMPERATURE_GPU)
            one.state = replace(one.state, temperature_c=float(degrees))
        with suppress(nvml.NVMLError):
            self._count_errors(one, now_s)
        with suppress(nvml.NVMLError):
            running = nvml.nvmlDeviceGetComputeRunningProcesses(one.handle)
            one.pids = frozenset(process.pid for process in running)

    def _clock_reasons(self, handle: Any) -> int:
        newer = getattr(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        found: int = (newer or self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(handle)
        return found

    def _count_errors(self, one: _Device, now_s: float) -> None:
        """Those that ECC could not correct, since the driver was loaded."""
        nvml = self._nvml
        errors = nvml.nvmlDeviceGetTotalEccErrors(
            one.handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        )
        if one.first_errors is None:
            one.first_errors = errors
        new = errors - one.first_errors
        is_newer = new > one.state.new_ecc_errors
        one.state = replace(
            one.state,
            ecc_errors=errors,
            new_ecc_errors=new,
            error_s=now_s if is_newer else one.state.error_s,
        )


def _installed() -> ModuleType | None:
    try:
        import pynvml
    except ImportError:
        return None
    found: ModuleType = pynvml
    return found
