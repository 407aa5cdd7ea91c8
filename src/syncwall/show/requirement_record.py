"""The network that a run needs, as plain data.

Holds `requirement_record`.
"""

from collections.abc import Sequence
from typing import Any

from syncwall.plan.network.requirement import Requirement
from syncwall.plan.reference import Reference
from syncwall.show.record import record
from syncwall.show.requirement import verdict


def requirement_record(found: Sequence[Requirement], start: Reference) -> dict[str, Any]:
    """The same for `json.dumps`; rates one way, advertised unless named reached."""
    return {
        "verdict": verdict(found),
        "counts": [_count_record(one) for one in found],
        "left_open": start.assumed,
        "layout_searched": start.layout_searched,
        "run": record(start.run),
    }


def _count_record(one: Requirement) -> dict[str, Any]:
    targets = list(one.nic_bytes_per_s)
    return {
        "gpus": one.gpus,
        "step_s": one.step_s,
        "ideal_step_s": one.ideal.step_s,
        "efficiency": one.efficiency,
        "efficiency_at_any_rate": one.ideal.step_s / one.endless_step_s,
        "reached_node_bytes_per_s": one.must_reach_bytes_per_s,
        "node_bytes_per_s": {str(t): one.node_bytes_per_s(t) for t in targets},
        "gpu_bytes_per_s": {str(t): one.gpu_bytes_per_s(t) for t in targets},
        "nic_bytes_per_s": {str(t): rate for t, rate in one.nic_bytes_per_s.items()},
        "nics": {str(t): count for t, count in one.nics.items()},
        "reached": one.reached,
        "scale_up_bytes_per_s": {str(t): rate for t, rate in one.scale_up_bytes_per_s.items()},
        "latency_factor": {
            str(t): None if factor == float("inf") else factor
            for t, factor in one.latency_factor.items()
        },
        "latency_s": one.traffic and one.traffic.start_s,
        "plain_node_bytes_per_s": one.plain and one.plain.node_bytes_per_s,
        "wasted": one.wasted,
        "limits": {"efficiency": one.limits.efficiency, "exposed": one.limits.exposed},
    }
