"""What a fault of the machine costs a run: the same run predicted on both machines.

Holds `slowdown`. `price_for`: what a finding in a NCCL log costs a run, by predicting it on the
machine that NCCL used. The run is taken as it should be; the log says what of its machine was left
idle. Machines are changed by `answer.changed_machine`.
"""

from collections.abc import Callable

from syncwall.answer.changed_machine import with_nics, with_scale_up
from syncwall.answer.prediction import predict
from syncwall.describe import Run
from syncwall.read.nccl_facts import NcclLog


def slowdown(run: Run | None, changed: Run | None) -> float | None:
    """Predicted step of `changed` over that of `run`; None if one of them is not known."""
    if run is None or changed is None:
        return None
    return predict(changed).step_s / predict(run).step_s


def price_for(run: Run) -> Callable[[str, NcclLog], float | None]:
    """Slowdown by key of the finding: socket, rails, p2p-off; None for what is not modelled."""

    def price(key: str, log: NcclLog) -> float | None:
        changed: Run | None = None
        if key == "socket":
            changed = with_nics(run, transport="tcp")
        elif key == "rails" and log.nics and run.cluster.node.nics is not None:
            kept = run.cluster.node.nics.count * len(log.nics_used) // len(log.nics)
            changed = with_nics(run, count=max(kept, 1))
        elif key == "p2p-off" and not any(name.startswith("P2P") for name in log.transports):
            changed = with_scale_up(run, 0.0)
        return slowdown(run, changed)

    return price
