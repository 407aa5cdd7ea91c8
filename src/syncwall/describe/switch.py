"""A network switch that fabrics are built of.

Holds `Switch`.
"""

from pydantic import Field

from syncwall.describe.base import BytesPerSecond, Entry, Positive


class Switch(Entry):
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
