"""What every link carries in one draw of the hashes, job by job: what a picture of flows shows.

Holds `Carried`. Loads are times: what a link needs over what NICs alone would need, so that the
busiest link has the slow-down itself where all flows are equally long.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from syncwall.network.graph import Floats, Ints, Links, alike


@dataclass(frozen=True)
class Carried:
    """Loads of links."""

    links: Links
    """The network as it is built."""
    routed: Links
    """As flows see it: equal ways are one with adaptive routing, else the same as `links`."""
    loads: Floats
    """Of every job, of every link of `routed`: its time over that of NICs alone."""
    job_of_node: Ints
    """Of every node, the job that has it; -1 if none has."""

    busiest: int | None
    """The link of `routed` that takes longest; None if nobody is slowed down."""

    @cached_property
    def most(self) -> float:
        """The largest load of a link."""
        return float(self.loads.sum(0).max())

    @cached_property
    def _same(self) -> Ints:
        """Of every switch, the one that it is for flows."""
        if self.routed is self.links:
            return np.arange(len(self.links.switches))
        return alike(self.links)

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        """Cables by their ends, as numbers, and in which order."""
        key = self.routed.ends[:, 0] * len(self.links.switches) + self.routed.ends[:, 1]
        order = np.argsort(key, kind="stable")
        return key[order], order

    def nic(self, nic: int) -> int:
        """The busier one of a NIC's two links."""
        out = 2 * nic
        return out if self.loads[:, out].sum() >= self.loads[:, out + 1].sum() else out + 1

    def cable(self, one: int, other: int) -> int | None:
        """The busiest link between two switches, either way; None if there is none."""
        one, other = int(self._same[one]), int(self._same[other])
        key, order = self._sorted
        found: list[int] = []
        for start, end in ((one, other), (other, one)):
            wanted = start * len(self.links.switches) + end
            low, high = np.searchsorted(key, wanted), np.searchsorted(key, wanted, "right")
            found += (2 * self.routed.nics + order[low:high]).tolist()
        return max(found, key=lambda link: self.loads[:, link].sum(), default=None)

    def ends_of_busiest(self) -> tuple[int, ...]:
        """Switches at the ends of the busiest link, the one of a NIC first; empty without one."""
        if self.busiest is None:
            return ()
        if self.busiest < 2 * self.routed.nics:
            return (int(self.routed.switch_of_nic[self.busiest // 2]),)
        start, end = self.routed.ends[self.busiest - 2 * self.routed.nics].tolist()
        return (start, end)
