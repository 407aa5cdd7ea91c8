"""How one site differs from the catalogue, by kind of work.

Holds `Knobs`: what clocks, cooling, builds and neighbours of a site do to the price of everything
of one kind, in every layout alike.
"""

from dataclasses import dataclass, fields
from typing import Final

from syncwall.work.number import Number


@dataclass(frozen=True, slots=True)
class Knobs:
    """Time at the site over that which the catalogue gives; 1 is as the catalogue says."""

    gemm: Number = 1.0
    """Matrix multiplications."""
    attention: Number = 1.0
    elementwise: Number = 1.0
    """Memory-bound kernels, the optimizer, adding up gradients."""
    network: Number = 1.0
    """Collectives and messages, whether anything waits for them or not."""
    host: Number = 1.0
    """Issuing operations, waiting for numbers of the device, copies to the host and what it
    computes, the end of a step."""

    def by_name(self) -> dict[str, Number]:
        """Every knob by its name."""
        return {name: getattr(self, name) for name in KNOBS}


KNOBS: Final = tuple(one.name for one in fields(Knobs))
AS_CATALOGUED: Final = Knobs()
