"""One key a node in a store of our own: how agents hear of each other.

Holds `Relay`. The agent of the first node keeps the store (a `TCPStore` of torch) and reads all
keys; the others write theirs and read only the first one's. All of it is done by a thread of the
agent, as a store behind a cut network blocks for ever; the agent sees how long ago it last worked.
"""

import threading
import time
from datetime import timedelta
from typing import Any, Final

from syncwall.watch.events import NodeReport, from_json, to_json

_TIMEOUT_S: Final = 5.0
_JOIN_S: Final = 300.0
"""For the first node to come up."""


class Relay:
    """What this node tells, and what it hears."""

    def __init__(
        self, host: str, port: int, node_rank: int, nodes: int, every_s: float = 0.25
    ) -> None:
        self._address, self._node_rank, self._nodes = (host, port), node_rank, nodes
        self._every_s = every_s
        self._own: bytes = b""
        self._texts: dict[int, bytes] = {}
        self._changed_s: dict[int, float] = {}
        self.missing = ""
        """Why there is no relay; empty if there is one."""
        self._reports: dict[int, NodeReport] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="syncwall-relay", daemon=True)
        self._thread.start()

    def tell(self, report: NodeReport) -> None:
        """Put a report where the others find it, soon."""
        self._own = to_json(report)

    def heard(self) -> dict[int, NodeReport]:
        """The latest report of each node that was heard of, this one among them on the first."""
        return dict(self._reports)

    def silent_s(self, node_rank: int) -> float:
        """Since the report of a node changed last."""
        return time.monotonic() - self._changed_s.get(node_rank, time.monotonic())

    def stop(self) -> None:
        """Relay no more; a thread that hangs is left behind."""
        self._end.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            store = self._joined()
            while not self._end.wait(self._every_s):
                self._round(store)
        except Exception as error:  # noqa: BLE001 - whatever a store may raise: nodes judge alone
            self.missing = f"no relay between nodes: {type(error).__name__}: {error}"

    def _joined(self) -> Any:
        from torch.distributed import TCPStore

        host, port = self._address
        keeps = self._node_rank == 0
        store = TCPStore(
            host, port, is_master=keeps, wait_for_workers=False,
            timeout=timedelta(seconds=_JOIN_S),
        )  # fmt: skip
        if keeps:
            for node in range(self._nodes):
                store.compare_set(_key(node), "", "-")
        store.set_timeout(timedelta(seconds=_TIMEOUT_S))
        return store

    def _round(self, store: Any) -> None:
        if self._own:
            store.set(_key(self._node_rank), self._own)
        nodes = range(self._nodes) if self._node_rank == 0 else (0,)
        for node, text in zip(nodes, store.multi_get([_key(one) for one in nodes]), strict=True):
            if text != self._texts.get(node) and text != b"-":
                self._texts[node] = text
                self._reports[node] = from_json(NodeReport, text)
                self._changed_s[node] = time.monotonic()


def _key(node_rank: int) -> str:
    return f"syncwall/node/{node_rank}"
