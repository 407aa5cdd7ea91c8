"""Communication priced by what collectives took on the machine itself.

Holds `MeasuredNetwork`.
"""

import numpy as np

from syncwall.cost.communication import Network, ring_start_seconds
from syncwall.cost.measured import CollectiveTable
from syncwall.cost.path import Path, path
from syncwall.describe import Cluster
from syncwall.work.number import Number
from syncwall.work.operations import Collective, Group, Transfer


class MeasuredNetwork:
    """Measured tables for groups that stand as the measured ones did; `otherwise` for the rest.

    `today` is `otherwise` on the wires that were measured: if they are no longer the same, measured
    times change as the formulas' do.
    """

    def __init__(
        self,
        tables: tuple[CollectiveTable, ...],
        cluster: Cluster,
        otherwise: Network,
        today: Network,
    ) -> None:
        self._tables = tables
        self._cluster = cluster
        self._otherwise = otherwise
        self._today = today

    def collective_seconds(self, collective: Collective) -> Number:
        """Time of all calls; zero for one rank or no bytes."""
        found = formula = self._otherwise.collective_seconds(collective)
        where = path(collective.group, self._cluster)
        size = collective.bytes / collective.calls
        for table in self._tables:
            if table.kind == collective.kind:
                same = (where.ranks == table.ranks) & (where.nodes == table.nodes) & (size > 0)
                if np.any(same):
                    all_s = table.seconds(size) * collective.calls * collective.share
                    found = np.where(same, all_s * self._changed(collective, formula), found)
        return found

    def ring_start_seconds(self, collective: Collective) -> Number:
        """What does not depend on the size, as the formulas have it."""
        return ring_start_seconds(self._otherwise, collective)

    def path(self, group: Group) -> Path:
        """Where the ranks of `group` stand on this machine."""
        return path(group, self._cluster)

    def transfer_seconds(self, transfer: Transfer) -> Number:
        """A message to the next stage."""
        return self._otherwise.transfer_seconds(transfer)

    def _changed(self, collective: Collective, formula_s: Number) -> Number:
        """Time on these wires over that on those that were measured."""
        if self._today is self._otherwise:
            return 1.0
        before_s = self._today.collective_seconds(collective)
        return np.where(before_s > 0, formula_s / np.maximum(before_s, 1e-300), 1.0)
