"""One accelerator (or CPU), one kind of link, and what a GPU-hour costs.

All peaks are dense, a multiply-add counts as 2 FLOP, and all rates are one way.
"""

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from syncwall.describe.base import (
    Bytes,
    BytesPerSecond,
    CatalogueEntry,
    Delay,
    Description,
    FlopPerSecond,
    Hertz,
    Positive,
    Provenance,
    SourcedNumber,
    Usd,
    UsdPerGpuHour,
    Watts,
)
from syncwall.describe.choice import Dtype
from syncwall.problems import InputError
from syncwall.units import Dimension

_LATER: Final = ConfigDict(defer_build=True)
_COUNT: TypeAdapter[int] = TypeAdapter(Positive, config=_LATER)
_CLOCK: TypeAdapter[float] = TypeAdapter(Hertz, config=_LATER)


class DeviceMemory(Description):
    """The memory that weights and activations live in (HBM on most accelerators)."""

    size_bytes: Bytes = Field(alias="size")
    """Usable size; makers mean 1e9 bytes by GB here or 2**30, the entry's note says which."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    """Peak rate, reads and writes together."""
    kind: str | None = None
    """For example HBM3."""


class DeviceLinks(Description):
    """The device's own links to its scale-up domain (NVLink, xGMI, ICI, ...)."""

    link: str
    """Name of the link in the catalogue."""
    links: Positive
    """Number of links on one device."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    """All links of one device together, one way."""


class Device(CatalogueEntry):
    """An accelerator."""

    vendor: str
    architecture: str
    released: str | None = None
    """Year or month in which it could first be bought or rented."""
    peak_flop_per_s: dict[Dtype, FlopPerSecond] = Field(alias="peak", min_length=1)
    """Dense peak by number format."""
    memory: DeviceMemory
    scale_up: DeviceLinks | None = None
    """None if the device reaches its neighbours over PCIe only."""
    pcie: str | None = None
    """Name of the link to the host in the catalogue."""
    multiprocessors: Positive | None = None
    """Units that a kernel's tiles are dealt to (SMs, CUs); waves are counted in these."""
    clock_hz: Hertz | None = Field(None, alias="clock")
    """Highest clock of the matrix units, the one that the peak is computed with."""
    l2_bytes: Bytes | None = Field(None, alias="l2")
    """Last-level cache."""
    tdp_w: Watts | None = Field(None, alias="tdp")
    """Highest sustained power of the device as its maker states it."""
    power_limit_w: Watts | None = Field(None, alias="power_limit")
    """Power that it is held to, where that is less; its matrix units then run slower."""
    price_usd: Usd | None = Field(None, alias="price")
    """What one costs to buy, as published; the note says with how much of the machine around it."""
    like: str | None = None
    """Device of the catalogue with the same chip, whose calibration holds; its `base` if it has
    one."""
    achieved_flop_per_s: dict[Dtype, FlopPerSecond] = Field(default_factory=dict, alias="achieved_matmul")
    """Best matrix multiplication ever measured (MAMF), by number format."""

    @property
    def clock_share(self) -> float:
        """Clock of the matrix units under the power limit over that without one.

        The clock under a matrix load goes about as the square root of power; assumed.
        """
        if self.power_limit_w is None or not self.tdp_w:
            return 1.0
        return float(min(self.power_limit_w / self.tdp_w, 1.0) ** 0.5)

    @classmethod
    def varied(cls, base: "Device", changes: dict[str, Any]) -> dict[str, Any]:
        """`changes` of `base` with what follows from them.

        Peaks go with multiprocessors and clock, and the chip stays the same.
        """
        found = {"like": base.like or base.name, **changes}
        faster = 1.0
        for key, reader, before in (
            ("multiprocessors", _COUNT, base.multiprocessors),
            ("clock", _CLOCK, base.clock_hz),
        ):
            if key in changes and before:
                faster *= reader.validate_python(changes[key]) / before
        if "peak" in changes or faster == 1.0:
            return found
        provenance = Provenance(source="syncwall-arithmetic", note=f"{faster:.4g} x that of {base.name}")
        peaks = base.peak_flop_per_s.items()
        peak = {d: SourcedNumber(rate * faster, Dimension.FLOP_PER_S, provenance) for d, rate in peaks}
        return {**found, "peak": peak}

    @property
    def sixteen_bit_flop_per_s(self) -> float:
        """Dense peak in bf16, or in fp16 on devices that have no bf16 (V100)."""
        return self.flop_per_s(Dtype.BF16 if Dtype.BF16 in self.peak_flop_per_s else Dtype.FP16)

    def flop_per_s(self, dtype: Dtype) -> float:
        """Dense peak in `dtype`; InputError if the device has none or nobody states it."""
        if dtype not in self.peak_flop_per_s:
            known = ", ".join(self.peak_flop_per_s)
            raise InputError.of(f"{self.name} has no {dtype} peak; it has {known}")
        return self.peak_flop_per_s[dtype]


class Effective(Description):
    """A rate that was measured over this link."""

    what: str
    """Operation, devices and size, for example "all-reduce busbw, 8 GPUs, 16 GiB, ring"."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    of_bytes_per_s: BytesPerSecond = Field(alias="of")
    """The one-way peak that it is to be compared with (all links used together)."""

    @property
    def fraction(self) -> float:
        """Measured over peak; above 1 where switches add numbers on the way (NVLink SHARP)."""
        return self.rate_bytes_per_s / self.of_bytes_per_s


class Link(CatalogueEntry):
    """A link generation; rates are one way."""

    kind: Literal["scale-up", "pcie", "chip-to-chip", "network"]
    per: str
    """What one `rate` belongs to: a link, a port, 16 lanes, an adapter."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    """Rate of one link, port or slot, one way."""
    lane_bytes_per_s: BytesPerSecond | None = Field(None, alias="lane_rate")
    """Rate of one lane, one way, where the link comes in several widths."""
    lanes: Positive | None = None
    """Lanes of which `rate` is the sum."""
    widths: tuple[Positive, ...] = ()
    """Numbers of lanes that are sold."""
    latency_s: Delay | None = Field(None, alias="latency")
    """Smallest one-way time of an empty message, adapter to adapter, as published."""
    released: str | None = None
    effective: tuple[Effective, ...] = ()
    """What was reached in practice."""


class Switch(CatalogueEntry):
    """One switch; rates are one way."""

    ports: Positive
    """Ports at their full rate."""
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    """One port, one way."""
    most_ports: Positive | None = None
    """Ports if all are split as far as the switch can; None if they cannot be split."""
    released: str | None = None

    def ports_at(self, rate_bytes_per_s: float) -> int:
        """Ports of that rate: whole ports are split evenly; 0 if no port is fast enough."""
        split = int(self.rate_bytes_per_s / rate_bytes_per_s + 1e-9)
        return min(self.ports * split, self.most_ports or self.ports)


class Offer(Description):
    """One published price."""

    device: str
    """Name of the accelerator in the catalogue."""
    price_usd_per_gpu_hour: UsdPerGpuHour = Field(alias="price")
    """Whole node divided by its GPUs, without tax, storage and traffic out."""
    terms: Literal["on-demand", "spot", "reserved"]
    date: str
    """Day on which the price was published (ISO date)."""
    instance: str | None = None
    """The seller's name for the machine."""
    gpus: Positive | None = None
    """GPUs of that machine."""
    cluster: str | None = None
    """Name of the machine in the catalogue."""
    region: str | None = None
    """Where it is that cheap, if the price differs by region."""


class PriceList(CatalogueEntry):
    """Prices of one seller."""

    offers: tuple[Offer, ...]
