"""The price of any operation on one machine.

Holds `Prices`.
"""

import numpy as np

from syncwall.cost.calibration import Calibration
from syncwall.cost.communication import Network
from syncwall.cost.compute import attention_seconds, elementwise_seconds, gemm_seconds
from syncwall.cost.corrections import Corrections
from syncwall.cost.software import Setting
from syncwall.describe.device import Device
from syncwall.work.block import What
from syncwall.work.number import Number
from syncwall.work.operations import Attention, Collective, Elementwise, Gemm


class Prices:
    """Seconds of operations on a device and a network; equal operations are priced once."""

    def __init__(
        self,
        device: Device,
        network: Network,
        fit: Calibration,
        setting: Setting,
        host_s: Number = 0.0,
    ) -> None:
        self._device = device
        self._network = network
        self.setting = setting
        self.fit = fit
        self.host_s = host_s
        """Host time to issue one operation."""
        issued = setting.software.graphs == "none"
        self.host_wait_s = setting.framework.host.per_wait_s * issued
        """Host time lost by reading a number from the device."""
        self._corrections = Corrections(device, fit, setting)
        self._known: dict[int, tuple[What, Number]] = {}

    def seconds(self, what: What) -> Number:
        """Time of `what` if nothing else runs."""
        known = self._known.get(id(what))
        if known is None:
            known = (what, _plain(self._priced(what)))
            self._known[id(what)] = known
        return known[1]

    def accumulation_s(self, parameters: Number) -> Number:
        """Time to add the gradients of one micro batch to those of the others."""
        moved = self.setting.framework.accumulation_bytes * parameters
        return moved / (self._device.memory.rate_bytes_per_s * self.fit.elementwise.efficiency)

    def _priced(self, what: What) -> Number:
        if isinstance(what, Gemm):
            said = gemm_seconds(what, self._device, self.fit.gemm)
            return said * self._corrections.gemm(what)
        if isinstance(what, Attention):
            said = attention_seconds(what, self._device, self.fit.attention, self.setting)
            return said * self._corrections.attention(what)
        if isinstance(what, Elementwise):
            said = elementwise_seconds(what, self._device, self.fit.elementwise, self.setting)
            return said * self._corrections.elementwise(what)
        if isinstance(what, Collective):
            return self._network.collective_seconds(what)
        return self._network.transfer_seconds(what)


def _plain(seconds: Number) -> Number:
    """One number as Python's own, with which everything after goes twice as fast."""
    return seconds if isinstance(seconds, np.ndarray) and seconds.ndim else float(seconds)
