"""One kind of link between devices, or from a node to its network.

Holds `Link` and `Effective`, what a published measurement reached on it. `Switch`: a network switch
that fabrics are built of.
"""

from typing import Literal

from pydantic import Field

from syncwall.describe.base import BytesPerSecond, CatalogueEntry, Delay, Description, Positive


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

    def width_bytes_per_s(self, lanes: int) -> float:
        """Rate of a link of this generation with `lanes` lanes."""
        if self.lane_bytes_per_s is None:
            raise ValueError(f"{self.name} comes in one width")
        return self.lane_bytes_per_s * lanes


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
