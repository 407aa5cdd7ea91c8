"""The GPUs of a node as NVML sees them: errors of memory and driver, and clocks that are held down.

Holds `Devices`, whose thread reads them every few seconds: a driver that hangs must not hang the
agent. Needs `nvidia-ml-py` and a driver; without them there are no devices.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from syncwall.watch.devices import DeviceState, Limit

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
            self.missing = "errors and throttling of GPUs are not read: pip install 'syncwall[gpu]'"

    def states(self, ranks: Mapping[int, tuple[int, str]]) -> tuple[DeviceState, ...]:
        """As they were read last; `ranks` and their nodes are by process id."""
        node = next((node for _, node in ranks.values()), "")
        found = []
        for one in self._devices:
            rank = next((ranks[pid][0] for pid in one.pids if pid in ranks), None)
            found.append(replace(one.state, node=node, rank=rank))
        return tuple(found)

    def stop(self) -> None:
        """Read no more."""
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
                nvml.nvmlDeviceRegisterEvents(
                    one.handle, nvml.nvmlEventTypeXidCriticalError, events
                )
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
            devices[at].state = replace(
                state, xids=xids, xid_count=state.xid_count + 1, error_s=time.time()
            )

    def _read(self, one: _Device) -> None:
        nvml, now_s = self._nvml, time.time()
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
            one.state, ecc_errors=errors, new_ecc_errors=new,
            error_s=now_s if is_newer else one.state.error_s,
        )  # fmt: skip


def _installed() -> ModuleType | None:
    try:
        import pynvml
    except ImportError:
        return None
    found: ModuleType = pynvml
    return found
