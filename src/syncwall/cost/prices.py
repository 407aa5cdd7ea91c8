"""The price of any operation on one machine.

Holds `Prices`.
"""

from typing import Any

from syncwall.cost.calibration import Calibration
from syncwall.cost.communication import Network
from syncwall.cost.compute import attention_seconds, elementwise_seconds, gemm_seconds
from syncwall.describe.device import Device
from syncwall.describe.software import Software
from syncwall.work.block import What
from syncwall.work.operations import Attention, Collective, Elementwise, Gemm


class Prices:
    """Seconds of operations on a device and a network; equal operations are priced once."""

    def __init__(
        self, device: Device, network: Network, fit: Calibration, software: Software
    ) -> None:
        self._device = device
        self._software = software
        self._network = network
        self.fit = fit
        self._known: dict[int, tuple[What, Any]] = {}

    @property
    def host_s(self) -> float:
        """Host time to issue one operation."""
        eager = self._software.kernels == "eager"
        return self.fit.host.per_operation_s * (self.fit.elementwise.eager if eager else 1.0)

    def seconds(self, what: What) -> Any:
        """Time of `what` if nothing else runs."""
        known = self._known.get(id(what))
        if known is None:
            known = (what, self._priced(what))
            self._known[id(what)] = known
        return known[1]

    def _priced(self, what: What) -> Any:
        if isinstance(what, Gemm):
            return gemm_seconds(what, self._device, self.fit.gemm)
        if isinstance(what, Attention):
            return attention_seconds(what, self._device, self.fit.attention, self._software)
        if isinstance(what, Elementwise):
            return elementwise_seconds(what, self._device, self.fit.elementwise, self._software)
        if isinstance(what, Collective):
            return self._network.collective_seconds(what)
        return self._network.transfer_seconds(what)
