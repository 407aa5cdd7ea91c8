"""GPUs through a stand-in for NVML: what is read, and what is found in it."""

# ruff: noqa: N802, N815 - the names are NVML's

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from syncwall.watch.devices import Devices, DeviceState, Limit, judged_devices
from syncwall.watch.events import FindingKind
from syncwall.watch.exporters import metrics
from syncwall.watch.summary import Recent
from tests.watch import lives

NOW_S = 1e9


class NotSupportedError(Exception):
    """As `pynvml.NVMLError`."""


class Nvml(ModuleType):
    """Two devices; the second has no ECC. Handles are "gpu0" and "gpu1"."""

    NVMLError = NotSupportedError
    NVML_TEMPERATURE_GPU, NVML_VOLATILE_ECC, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 0, 1
    nvmlEventTypeXidCriticalError = 8

    def __init__(self):
        super().__init__("pynvml")
        self.reasons = {"gpu0": 0, "gpu1": 0}
        self.ecc = 2
        self.events: list[SimpleNamespace] = []
        self.registered: list[tuple[str, int]] = []
        self.is_down = False

    def nvmlInit(self):
        pass

    def nvmlShutdown(self):
        self.is_down = True

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return f"gpu{index}"

    def nvmlDeviceGetIndex(self, handle):
        return int(handle[-1])

    def nvmlEventSetCreate(self):
        return "events"

    def nvmlDeviceRegisterEvents(self, handle, types, events):
        assert events == "events"
        self.registered.append((handle, types))

    def nvmlEventSetWait_v2(self, events, timeout_ms):
        assert (events, timeout_ms) == ("events", 0)
        if not self.events:
            raise NotSupportedError("timeout")
        return self.events.pop(0)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.reasons[handle]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 88

    def nvmlDeviceGetTotalEccErrors(self, handle, kind, counter):
        if handle == "gpu1" or (kind, counter) != (1, 0):
            raise NotSupportedError("no ECC")
        return self.ecc

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=4711)] if handle == "gpu1" else []


RANKS = {4711: (9, "node-b")}


@pytest.fixture
def nvml():
    return Nvml()


@pytest.fixture
def devices(nvml):
    made = Devices(nvml, every_s=0.01)
    until(lambda: made.states(RANKS))
    yield made
    made.stop()
    until(lambda: nvml.is_down)


def until(holds, limit_s=10.0):
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_devices_that_are_well(devices, nvml):
    first, second = devices.states(RANKS)
    assert first == DeviceState(0, "node-b", None, {}, 88.0, ecc_errors=2)
    assert second == DeviceState(1, "node-b", 9, {}, 88.0)
    assert nvml.registered == [("gpu0", 8), ("gpu1", 8)]
    assert not judged_devices((first, second), time.time())


def test_errors_are_found_with_device_rank_and_node(devices, nvml):
    nvml.events.append(SimpleNamespace(device="gpu1", eventType=8, eventData=79))
    nvml.ecc = 5
    until(lambda: len(judged_devices(devices.states(RANKS), time.time())) == 2)
    memory, bus = judged_devices(devices.states(RANKS), time.time())
    assert (memory.kind, memory.device) == (FindingKind.DEVICE_ERROR, 0)
    assert memory.evidence == "GPU 0: 3 uncorrectable ECC errors"
    assert (bus.rank, bus.node, bus.device) == (9, "node-b", 1)
    assert bus.evidence == "GPU 1: Xid 79 (the GPU has fallen off the bus)"
    assert not judged_devices(devices.states(RANKS), time.time() + 3600)


def test_clocks_that_are_held_down_are_known_by_their_reason(devices, nvml):
    nvml.reasons = {"gpu0": 0x1 | 0x40, "gpu1": 0x4 | 0x80}
    until(lambda: all(one.limited_s for one in devices.states(RANKS)))
    first, second = (set(one.limited_s) for one in devices.states(RANKS))
    assert (first, second) == ({Limit.THERMAL}, {Limit.POWER_BRAKE, Limit.POWER_CAP})
    nvml.reasons = {"gpu0": 0, "gpu1": 0}
    until(lambda: not any(one.limited_s for one in devices.states(RANKS)))


def test_heat_is_found_after_a_while():
    hot = DeviceState(3, "a", 5, {Limit.THERMAL: NOW_S}, 91.0)
    assert not judged_devices((hot,), NOW_S + 10)
    (found,) = judged_devices((hot,), NOW_S + 20)
    assert (found.kind, found.rank, found.since_s) == (FindingKind.THROTTLED, 5, NOW_S)
    assert found.evidence == "GPU 3: heat holds its clocks down for 20 s, at 91 °C"


@pytest.mark.parametrize(("capped", "named"), [(1, [0]), (2, []), (4, [])])
def test_the_power_limit_is_usual_unless_one_device_is_there_alone(capped, named):
    limited = {Limit.POWER_CAP: NOW_S}
    four = [DeviceState(n, "a", n, limited if n < capped else {}) for n in range(4)]
    assert [one.device for one in judged_devices(four, NOW_S + 60)] == named


def test_figures_of_devices():
    recent = Recent()
    live = lives.live()
    hot = DeviceState(1, "node-a", 1, {Limit.THERMAL: 1.0}, 90.0, 4, 1, (48, 79), 2)
    recent.round(type(live)(live.now_s, live.reports, (), (), (), devices=(hot,)))
    found = {
        (one.figure.name, labels.get("by")): number
        for one in metrics(recent)
        for labels, number in one.values
        if labels.get("device") == "1"
    }
    assert found == {
        ("syncwall_device_ecc_errors", None): 4,
        ("syncwall_device_xid_errors", None): 2,
        ("syncwall_device_limited", "heat"): 1,
        ("syncwall_device_limited", "power brake"): 0,
        ("syncwall_device_limited", "power limit"): 0,
    }


def test_without_nvml_there_are_no_devices(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert (Devices().states({}), Devices().missing) == ((), "")
    driver = tmp_path / "version"
    driver.touch()
    monkeypatch.setattr("syncwall.watch.devices._DRIVER", driver)
    assert "pip install nvidia-ml-py" in Devices().missing
