"""How often machines fail, as somebody counted it.

Holds `FailureRates` (one study of one cluster) and `FailureCause` (one line of it).
"""

from typing import Annotated, Literal

from pydantic import Field

from syncwall.describe.base import Description, Entry

Part = Literal["gpu", "node", "nic", "switch", "rack", "job"]
Taken = Literal["nothing", "node", "domain", "rack"]


class FailureCause(Description):
    """One reason why a job stops."""

    name: str
    per: Part
    """What there are many of: GPUs, nodes, NICs, leaf switches, racks, or the one job."""
    per_1000_days: Annotated[float, Field(ge=0)]
    """Interruptions that 1,000 of these cause in a day."""
    takes: Taken = "nothing"
    """What must be repaired before it works again; domain: the node, or all nodes of its scale-up
    domain where that is larger."""


class FailureRates(Entry):
    """Rates of failures that stop a job, by cause."""

    causes: tuple[FailureCause, ...] = Field(min_length=1)
    deviation: Annotated[float, Field(ge=0, le=3)] = 0.0
    """Standard deviation of the logarithm of the rates between clusters; 0 if this cluster is
    meant."""
