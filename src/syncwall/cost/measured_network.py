"""Communication priced by what collectives took on the very machine.

Holds `MeasuredNetwork`.
"""

import numpy as np

from syncwall.cost.communication import Network
from syncwall.cost.measured import CollectiveTable
from syncwall.cost.path import paths
from syncwall.describe import Cluster, Layout
from syncwall.work.number import Number
from syncwall.work.operations import Collective, Transfer


class MeasuredNetwork:
    """Measured tables for groups that stand as the measured ones did; `otherwise` for the rest."""

    def __init__(
        self,
        tables: tuple[CollectiveTable, ...],
        layout: Layout,
        cluster: Cluster,
        otherwise: Network,
    ) -> None:
        self._tables = tables
        self._paths = paths(layout, cluster)
        self._otherwise = otherwise

    def collective_seconds(self, collective: Collective) -> Number:
        """Time of all calls; zero for one rank or no bytes."""
        found = self._otherwise.collective_seconds(collective)
        path = self._paths[collective.axis]
        size = collective.bytes / collective.calls
        for table in self._tables:
            if table.kind == collective.kind:
                same = (path.ranks == table.ranks) & (path.nodes == table.nodes) & (size > 0)
                if np.any(same):
                    all_s = table.seconds(size) * collective.calls * collective.share
                    found = np.where(same, all_s, found)
        return found

    def transfer_seconds(self, transfer: Transfer) -> Number:
        """A message to the next stage."""
        return self._otherwise.transfer_seconds(transfer)
