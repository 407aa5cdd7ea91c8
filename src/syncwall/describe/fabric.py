"""The network between nodes, as tiers of switches.

Holds `Tier` and `Fabric`. A tier says how far it reaches and how much of a NIC's rate is left when
all nodes send through it at once.
"""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from syncwall.describe.base import Description, Positive


def _ratio(value: Any) -> Any:
    """Read "1:7" and "7:1" as 7: the sides are the rates down to the nodes and up."""
    if isinstance(value, str) and value.count(":") == 1:
        down, up = (float(side) for side in value.split(":"))
        if min(down, up) <= 0:
            raise ValueError("both sides must be above zero")
        return max(down, up) / min(down, up)
    return value


class Tier(Description):
    """One level of switches."""

    name: str
    """For example leaf, spine, core."""
    nodes: Positive | None = None
    """Nodes that reach each other without leaving this tier; None if that is all of them."""
    oversubscription: Annotated[float, BeforeValidator(_ratio), Field(ge=1, le=1e6)] = 1.0
    """Nodes' NIC rate over the rate left for each through this tier; 1 is non-blocking."""


class Fabric(Description):
    """A network of tiers, the nearest to the nodes first."""

    rails: Positive = 1
    """Separate leaf planes: NIC i of every node hangs on rail i; 1 if a node has one leaf."""
    in_network_reduction: bool = False
    """True if the switches can add numbers on the way (InfiniBand SHARP) and NCCL may use it."""
    tiers: tuple[Tier, ...] = (Tier(name="switch"),)

    @model_validator(mode="after")
    def _tiers_grow(self) -> Self:
        reach = [tier.nodes for tier in self.tiers]
        if not reach:
            raise ValueError("a fabric needs at least one tier")
        if any(nodes is None for nodes in reach[:-1]):
            raise ValueError("only the last tier may leave out `nodes`")
        known = [nodes for nodes in reach if nodes is not None]
        if sorted(set(known)) != known:
            raise ValueError("tiers must reach more nodes one after the other")
        return self

    def reach(self) -> float:
        """Nodes that the whole fabric connects; infinity if its last tier is open."""
        last = self.tiers[-1].nodes
        return float("inf") if last is None else float(last)
