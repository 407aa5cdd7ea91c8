"""What one node writes into the store of the agents in a round, and what it reads there.

Holds `Exchange`. Every node has a key. Up to 512 nodes, the first one reads all of them. Of more
nodes, the first of each group reads those of its group and tells the first one in one key what is
to be said of them; where that key stays the same, the first node reads those of the group itself.
The others read the first one's.
"""

import time
from collections.abc import Iterable
from typing import Any, Final, Generic

from syncwall.watch.events import GroupReport, NodeReport, Plain, from_json, to_json
from syncwall.watch.groups import brief, group_size, merged
from syncwall.watch.thresholds import THRESHOLDS, Thresholds

_NOTHING: Final = b"-"
"""In keys that nobody has written yet: to read one that is missing would block."""


class Exchange:
    """One node among all."""

    def __init__(self, node_rank: int, nodes: int, limits: Thresholds = THRESHOLDS) -> None:
        self._node_rank, self._nodes, self._limits = node_rank, nodes, limits
        self._size = group_size(nodes)
        self._groups = range(1, -(-nodes // self._size))
        """Those with a leader: the first node itself reads the nodes of its group."""
        self._own: NodeReport | None = None
        self._number = 0
        self._of_nodes = _Keys(NodeReport, "node")
        self._of_groups = _Keys(GroupReport, "group")
        self.heard: dict[int, tuple[NodeReport, float]] = {}
        """Latest report of each node that was heard of, and when it changed (`time.monotonic`)."""

    @property
    def is_large(self) -> bool:
        """True if the nodes are in groups."""
        return bool(self._groups)

    def tell(self, report: NodeReport) -> None:
        """Put a report where the next round finds it."""
        self._own = brief(report, self._limits) if self.is_large else report

    def open(self, store: Any) -> None:
        """The first node makes all keys."""
        self._of_nodes.make(store, range(self._nodes))
        self._of_groups.make(store, self._groups)

    def round(self, store: Any) -> None:
        """Write and read once."""
        if self._own is not None:
            self._of_nodes.write(store, self._node_rank, self._own)
        group, place = divmod(self._node_rank, self._size)
        if self._node_rank == 0:
            self._judge_reads(store)
        elif place == 0:
            self._lead(store, group)
        else:
            self.heard = self._of_nodes.read(store, (0,))

    def _members(self, group: int) -> range:
        return range(group * self._size, min((group + 1) * self._size, self._nodes))

    def _judge_reads(self, store: Any) -> None:
        """Groups by their leaders, and the nodes of those whose leader says nothing."""
        late_s = time.monotonic() - self._limits.node_silent_s / 2
        groups = self._of_groups.read(store, self._groups)
        fresh = {group: one for group, one in groups.items() if one[1] >= late_s}
        alone = [group for group in (0, *self._groups) if group not in fresh]
        heard = self._of_nodes.read(store, (n for group in alone for n in self._members(group)))
        for group in groups.keys() - fresh:
            leader = group * self._size
            if leader in heard:  # both of its keys stay the same
                heard[leader] = heard[leader][0], groups[group][1]
        for told, changed_s in fresh.values():
            for one in told.nodes:
                heard[one.node_rank] = one, changed_s - told.silent_s.get(one.node_rank, 0.0)
        self.heard = heard

    def _lead(self, store: Any, group: int) -> None:
        """Tell the first node of this group, and hear of the first node."""
        found = self._of_nodes.read(store, (0, *self._members(group)))
        now_s = time.monotonic()
        self.heard = {0: found.pop(0)} if 0 in found else {}
        reports = {node: one for node, (one, _) in found.items()}
        silent_s = {node: now_s - changed_s for node, (_, changed_s) in found.items()}
        self._number += 1
        told = merged(self._number, reports, silent_s, self._limits)
        self._of_groups.write(store, group, told)


class _Keys(Generic[Plain]):
    """Keys of one kind, as they were read last."""

    def __init__(self, kind: type[Plain], name: str) -> None:
        self._kind, self._name = kind, name
        self._texts: dict[int, bytes] = {}
        self._found: dict[int, tuple[Plain, float]] = {}

    def _key(self, number: int) -> str:
        return f"syncwall/{self._name}/{number}"

    def make(self, store: Any, numbers: Iterable[int]) -> None:
        """Keys that hold nothing yet."""
        for number in numbers:
            store.compare_set(self._key(number), "", _NOTHING.decode())

    def write(self, store: Any, number: int, value: Plain) -> None:
        """Write one of them."""
        store.set(self._key(number), to_json(value))

    def read(self, store: Any, numbers: Iterable[int]) -> dict[int, tuple[Plain, float]]:
        """Those of them that somebody has written, each with the time of its last change."""
        asked = list(numbers)
        texts = store.multi_get([self._key(one) for one in asked]) if asked else []
        for number, text in zip(asked, texts, strict=True):
            if text not in (self._texts.get(number), _NOTHING):
                self._texts[number] = text
                self._found[number] = from_json(self._kind, text), time.monotonic()
        return {number: self._found[number] for number in asked if number in self._found}
