"""The price of any operation on one machine, host and stalls included.

A prediction is the time of a run in which nothing goes wrong; of several layouts that are predicted
alike, the one that stalls less often is the better choice. How often is data of a framework, fitted
by bench/fit/stalls.py; most have none.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from syncwall.cost.calibration import Calibration
from syncwall.cost.communication import Network, ring_start_seconds
from syncwall.cost.compute import (
    attention_seconds,
    convolution_seconds,
    elementwise_seconds,
    gemm_seconds,
    kernel_seconds,
    scan_seconds,
    unfused_cost,
)
from syncwall.cost.corrections import Corrections
from syncwall.cost.framework_costs import AS_CATALOGUED, Knobs, ResolvedSoftware
from syncwall.cost.path import host_link_bytes_per_s
from syncwall.describe import Cluster, Layout
from syncwall.describe.device import Device
from syncwall.describe.software import Framework, Stalls
from syncwall.work.block import AnyTask
from syncwall.work.number import Number, anywhere, where
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Group,
    Kernel,
    Message,
    Offload,
    Scan,
    Transfer,
)

HOST_BYTES_PER_S = 17e9
"""Memory traffic of the host's processor for one device while all eight of a node update at once:
fitted to the two shortest runs with CPU Adam of ml-engineering. ZeRO-Offload (Ren 2021, table 5)
updates a billion parameters in 0.22 s, an eighth of which is 18 GB/s."""


def offload_seconds(offload: Offload, device: Device) -> Number:
    """Time of the copy and of what the host does after it."""
    return offload.bytes / host_link_bytes_per_s(device) + offload.host_bytes / HOST_BYTES_PER_S


class Prices:
    """Seconds of operations on a device and a network; equal operations are priced once."""

    def __init__(  # noqa: PLR0913 - a machine, its software and its site
        self,
        device: Device,
        network: Network,
        fit: Calibration,
        setting: ResolvedSoftware,
        host_s: Number = 0.0,
        *,
        gpus_per_node: int = 1,
        knobs: Knobs = AS_CATALOGUED,
    ) -> None:
        self.device = device
        self._network = network
        self._knobs = knobs
        self.setting = setting
        self.fit = fit
        self.host_s = host_s * knobs.host
        """Host time to issue one operation."""
        self.host_kernel_s = setting.host_kernel_s * knobs.host
        """Host time to issue one kernel of a recorded program."""
        self.gpus_per_node = gpus_per_node
        self.host_wait_s = setting.host_wait_s * knobs.host
        """Host time lost by reading a number from the device."""
        self.host_step_s = setting.framework.host.per_step_s * knobs.host
        """Host time at the end of a step."""
        self.host_expert_s = setting.host_expert_s * knobs.host
        """Host time to issue one more multiplication of a group, that of another expert."""
        self.captured = setting.captured
        """Scopes whose operations the host does not issue one by one."""
        self.experts_in_step = setting.expert_kernels == "loop"
        """True if the host reads the tokens of each expert before it issues the expert."""
        self.launch_blocking = setting.software.launch_blocking
        """True if the host issues nothing while the device works."""
        self._accumulating = setting.framework.fused_accumulation
        self._corrections = Corrections(device, fit, setting)
        self._known: dict[int, tuple[AnyTask, Number]] = {}

    def seconds(self, what: AnyTask) -> Number:
        """Time of `what` if nothing else runs."""
        known = self._known.get(id(what))
        if known is None:
            known = (what, _plain(self._priced(what)))
            self._known[id(what)] = known
        return known[1]

    def kernels(self, what: AnyTask) -> float:
        """Kernels that the host issues for `what` without fusion, over those with it."""
        if not isinstance(what, Elementwise) or what.is_fused:
            return 1.0
        return unfused_cost(what, self.fit.elementwise, self.setting).kernels

    def ring_start_s(self, what: AnyTask) -> Number:
        """Time of a ring's steps over the network that computation beside it does not hide."""
        if not isinstance(what, Collective):
            return 0.0
        return _plain(ring_start_seconds(self._network, what) * self._knobs.network)

    def over_nics(self, what: AnyTask) -> Number:
        """1 where a collective leaves its scale-up domain, else 0."""
        place = getattr(self._network, "path", None)
        if place is None or not isinstance(what, Collective):
            return 0.0
        return _plain(1.0 * (place(what.group).domains > 1))

    def accumulation_s(self, parameters: Number) -> Number:
        """Time to add the gradients of one micro batch to those of the others."""
        moved = self.setting.framework.accumulation_bytes * parameters
        rate = self.device.memory.rate_bytes_per_s * self.fit.elementwise.efficiency
        return moved / rate * self._knobs.elementwise

    def _priced(self, what: AnyTask) -> Number:
        return PRICED[type(what)](self, what)

    def _gemm(self, what: Gemm) -> Number:
        return self._gemm_seconds(what) * self._corrections.gemm(what) * self._knobs.gemm

    def _attention(self, what: CoreAttention) -> Number:
        seconds = attention_seconds(what, self.device, self.fit.attention, self.setting)
        return seconds * self._corrections.attention(what) * self._knobs.attention

    def _convolution(self, what: Convolution) -> Number:
        fit = self.fit
        seconds = convolution_seconds(what, self.device, fit.gemm, fit.elementwise)
        return seconds * self._corrections.convolution(what) * self._knobs.gemm

    def _kernel(self, what: Kernel) -> Number:
        seconds = kernel_seconds(what, self.device, self.fit.gemm, self.fit.elementwise)
        return seconds * self._knobs.elementwise

    def _scan(self, what: Scan) -> Number:
        seconds = scan_seconds(what, self.device, self.fit.elementwise)
        return seconds * self._knobs.attention

    def _elementwise(self, what: Elementwise) -> Number:
        seconds = elementwise_seconds(what, self.device, self.fit.elementwise, self.setting)
        return seconds * self._corrections.elementwise(what) * self._knobs.elementwise

    def _collective(self, what: Collective) -> Number:
        return self._network.collective_seconds(what) * self._knobs.network

    def _transfer(self, what: Transfer) -> Number:
        return self._network.transfer_seconds(what) * self._knobs.network

    def _message(self, what: Message) -> Number:
        apart = Group("other", 2, abs(what.sender - what.receiver))
        return self._transfer(Transfer(what.bytes, apart))

    def _offload(self, what: Offload) -> Number:
        return offload_seconds(what, self.device) * self._knobs.host

    def _gemm_seconds(self, gemm: Gemm) -> Number:
        """All multiplications of a group; in a loop each fills the device alone."""
        device, fit, adding = self.device, self.fit.gemm, self._accumulating
        together = gemm_seconds(gemm, device, fit, accumulating=adding)
        if gemm.is_batched or not self.experts_in_step or not anywhere(gemm.count > 1):
            return together
        alone = gemm_seconds(replace(gemm, count=1), device, fit, accumulating=adding)
        return where(gemm.count > 1, alone * gemm.count, together)


PRICED: Final[dict[type, Callable[[Prices, Any], Number]]] = {
    Gemm: Prices._gemm,
    CoreAttention: Prices._attention,
    Convolution: Prices._convolution,
    Elementwise: Prices._elementwise,
    Kernel: Prices._kernel,
    Scan: Prices._scan,
    Collective: Prices._collective,
    Transfer: Prices._transfer,
    Message: Prices._message,
    Offload: Prices._offload,
}
"""What prices each type of operation. Who builds a `Work` of operations of a type of their own adds
its price here."""


def _plain(seconds: Number) -> Number:
    """One number as Python's own, with which everything after goes twice as fast."""
    return seconds if isinstance(seconds, np.ndarray) and seconds.ndim else float(seconds)


def expected_slowdown(family: Framework, layout: Layout, cluster: Cluster) -> Number:
    """Expected over predicted step time of resolved layouts, 1 inside a node.

    The expectation is that of the logarithm, so that a rare run that takes twenty times as long
    does not outweigh all others.
    """
    several = layout.gpus > cluster.gpus_per_node
    plain = _expected(family.stalls, layout.gpus)
    pipelined = _expected(family.pipeline_stalls, layout.gpus)
    return np.where(several, np.where(layout.pp > 1, pipelined, plain), 1.0)


def probability(stalls: Stalls, gpus: Number) -> Number:
    """Share of runs on `gpus` GPUs that stall: logistic in the logarithm of the GPUs."""
    odds = stalls.per_doubling * np.log2(gpus / stalls.half_at_gpus)
    return 1.0 / (1.0 + np.exp(-odds))


def _expected(stalls: Stalls | None, gpus: Number) -> Number:
    if stalls is None:
        return 1.0
    return stalls.slowdown ** probability(stalls, gpus)
