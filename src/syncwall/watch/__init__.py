"""Watching a run while it trains: marks, the agent of a node, judges.

Two lines watch a training without `syncwall watch`: `syncwall.watch.start(expect="run.yaml")`
before models are made, and `syncwall.watch.tell(loss=..., tokens=...)` for what a loop knows.
"""

from syncwall.watch.attach import start as start
from syncwall.watch.attach import stop as stop
from syncwall.watch.attach import tell as tell
from syncwall.watch.spikes import on_decision as on_decision
