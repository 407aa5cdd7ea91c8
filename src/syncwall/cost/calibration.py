"""What real devices and networks reach of their peaks: data, with source and trust.

Holds `Calibration` with its parts, and `calibration`, which finds the one of a device. A device
without its own takes the generic one, whose numbers are marked as assumed.
"""

import os
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from syncwall.catalogue import VARIABLE, Kind, names
from syncwall.describe.base import BytesPerSecond, Description, Entry, Seconds
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.describe.names import load
from syncwall.describe.provenance import Figure, Provenance, Trust
from syncwall.units import Dimension

_GLOO_RATE = Figure(
    0.9e9,
    Dimension.BYTES_PER_S,
    Provenance(Trust.MEASURED, "scale-ops-net-1", note="all-reduce busbw on two nodes, 0.86"),
)
Fraction = Annotated[float, Field(gt=0, le=1.5)]


class GemmFit(Description):
    """Matrix multiplication: seconds from shape.

    t = (t_compute^4 + t_memory^4)^(1/4) + launch, with t_compute = FLOP / (peak x efficiency x
    in_training) x (1 + half_depth / k) x waves; see docs/explanation/compute.md.
    """

    efficiency: Fraction
    """Of the dense peak, for large shapes and a kernel alone."""
    in_training: Fraction
    """The same inside a training step over alone: other layouts, clocks under load."""
    half_depth: Annotated[float, Field(ge=0)]
    """Contracted length at which half of the time is start-up."""
    wave_cost: Annotated[float, Field(ge=0, le=1)]
    """How much an incomplete last wave of tiles costs: 0 nothing, 1 as much as a full one."""
    tile_m: int
    tile_n: int
    launch_s: Seconds = Field(alias="launch")
    memory_efficiency: Fraction
    weight_gradient: Fraction = 0.955
    """Speed of a weight gradient over that of the forward multiplication."""
    low_precision: dict[Dtype, Fraction] = Field(default_factory=dict)
    """Share of the higher peak of a narrow format that training reaches over that of bf16."""
    misaligned: Fraction = 0.48
    """Speed where a dimension is no multiple of 8."""


class AttentionFit(Description):
    """Attention: efficiency x s / (s + half_length) of the dense peak, by kernel."""

    flash_3: Fraction = Field(alias="flash-3")
    flash_2: Fraction = Field(alias="flash-2")
    half_length: Annotated[float, Field(ge=0)]
    backward: Fraction
    """Efficiency backward over forward."""
    context: Fraction = 0.7
    """Efficiency on a part of the sequence (context parallel) over the whole."""
    head_overhead: Annotated[float, Field(ge=0)] = 32.0
    """Speed goes as d / (d + this), 1 from heads of 128 dimensions on; assumed."""
    misaligned: Fraction = 0.25
    """Speed where the dimensions of a head are no multiple of 8; assumed."""
    unfused_score_bytes: Annotated[float, Field(gt=0)] = 15.0
    """Memory traffic for one score where softmax, mask and dropout are kernels of their own."""


class ElementwiseFit(Description):
    """Memory-bound work."""

    efficiency: Fraction
    """Of the memory rate."""
    traffic: Annotated[float, Field(gt=0)]
    """Traffic of real fused kernels over that of perfectly fused ones."""
    eager: Annotated[float, Field(ge=1)] = 3.0
    """Traffic, kernels and host time without fusion over with it."""
    launch_s: Seconds = Field(alias="launch")


class NetworkFit(Description):
    """Communication."""

    scale_up: Fraction
    """Reached rate inside a domain over NCCL's own prediction."""
    nic: Fraction
    """Of the NICs' line rate, for two domains."""
    nic_per_doubling: Annotated[float, Field(ge=0, lt=0.1)]
    """Line rate lost with every doubling of domains."""
    shared_nic: Fraction = 0.75
    """NIC rate left where several GPUs share one and some reach it through the host; assumed."""
    tcp: Fraction = 0.6
    """Of the line rate, over sockets; published: 52 % of 25 Gb/s, 80 % of 100 Gb/s."""
    gloo_bytes_per_s: BytesPerSecond = Field(_GLOO_RATE, alias="gloo")
    """Bus rate of Gloo, whose CPUs add the numbers, whatever the wire."""
    latency: Annotated[float, Field(gt=0)]
    """Latency over NCCL's own prediction."""
    contention: Annotated[float, Field(ge=1)]
    """Slowdown of computation while communication runs beside it."""


class HostFit(Description):
    """The process that launches kernels, and the differences between ranks."""

    per_operation_s: Seconds = Field(alias="per_operation")
    """Host time to issue one operation of `work` (a few kernels), when nothing is waited for."""
    jitter: Annotated[float, Field(ge=0, lt=0.5)] = 0.003
    """Standard deviation of a rank's step time over its mean."""


class Calibration(Entry):
    """What one device reaches."""

    device: str | None = None
    gemm: GemmFit
    attention: AttentionFit
    elementwise: ElementwiseFit
    network: NetworkFit
    host: HostFit


def calibration(device: Device) -> Calibration:
    """The calibration of `device`, or the generic one."""
    return _calibration(device.name, os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=64)
def _calibration(name: str, directories: str) -> Calibration:
    """Read once for each device and each setting of the user's catalogue directories."""
    return load(
        Kind.CALIBRATION, Calibration, name if name in names(Kind.CALIBRATION) else "generic"
    )
