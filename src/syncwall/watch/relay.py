"""The thread with which an agent hears of the others, through a store of their own.

Holds `Relay` and `room_for`. The agent of the first node keeps the store (a `TCPStore` of torch).
All of it is done by a thread of the agent, as a store behind a cut network blocks for ever; the
agent sees how long ago it last worked.
"""

import resource
import threading
import time
from datetime import timedelta
from typing import Any, Final

from syncwall.watch.events import NodeReport
from syncwall.watch.exchange import Exchange
from syncwall.watch.thresholds import THRESHOLDS, Thresholds

_TIMEOUT_S: Final = 5.0
_JOIN_S: Final = 300.0
"""For the first node to come up."""
_SAID: Final = 200
"""Characters of an error: a store names every key that it did not find."""
_FILES: Final = 256
"""That an agent may open beside the connections of the others."""
_LARGE_EVERY_S: Final = 1.0
"""Between two rounds of a job whose nodes are in groups."""


class Relay:
    """What this node tells, and what it hears."""

    def __init__(
        self, host: str, port: int, node_rank: int, nodes: int, limits: Thresholds = THRESHOLDS
    ) -> None:
        self._address, self._keeps, self._nodes = (host, port), node_rank == 0, nodes
        self._exchange = Exchange(node_rank, nodes, limits)
        self._every_s = _LARGE_EVERY_S if self._exchange.is_large else limits.poll_s
        self.missing = ""
        """Why there is no relay, or not for all; empty if there is one."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="syncwall-relay", daemon=True)
        self._thread.start()

    def tell(self, report: NodeReport) -> None:
        """Put a report where the others find it, soon."""
        self._exchange.tell(report)

    def heard(self) -> dict[int, tuple[NodeReport, float]]:
        """The latest report of each node that was heard of, and how long it has been silent."""
        now_s = time.monotonic()
        return {
            node: (one, now_s - changed_s)
            for node, (one, changed_s) in self._exchange.heard.items()
        }

    def stop(self) -> None:
        """Relay no more; a thread that hangs is left behind."""
        self._end.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            store = self._joined()
        except Exception as error:  # noqa: BLE001 - whatever a store may raise: nodes judge alone
            self.missing = _no_relay(error)
            return
        crowded, wait_s = self.missing, self._every_s
        while not self._end.wait(wait_s):
            try:
                self._exchange.round(store)
                self.missing, wait_s = crowded, self._every_s
            except Exception as error:  # noqa: BLE001 - the store may answer again
                self.missing, wait_s = _no_relay(error), _TIMEOUT_S

    def _joined(self) -> Any:
        from torch.distributed import TCPStore

        host, port = self._address
        if self._keeps:
            self.missing = room_for(self._nodes)
        store = TCPStore(
            host, port, is_master=self._keeps, wait_for_workers=False,
            timeout=timedelta(seconds=_JOIN_S),
        )  # fmt: skip
        if self._keeps:
            self._exchange.open(store)
        store.set_timeout(timedelta(seconds=_TIMEOUT_S))
        return store


def _no_relay(error: Exception) -> str:
    said = str(error).partition("\n")[0]
    return f"no relay between nodes: {type(error).__name__}: {said[:_SAID]}"


def room_for(nodes: int) -> str:
    """Let this process have a connection for each node; why not all of them, if so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nodes + _FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most == wanted:
        return ""
    return f"the relay has room for {most - _FILES} of {nodes} nodes: raise ulimit -Hn to {wanted}"
