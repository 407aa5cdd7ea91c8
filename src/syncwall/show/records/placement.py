"""A placement as plain data, in SI units.

Holds `PlacementRecord` with `placement_record`.
"""

from typing_extensions import TypedDict

from syncwall.answer.contention import UNPROVEN
from syncwall.network import Routing
from syncwall.plan.placement.found import JobAt, PlacementAnswer, PlacementChange
from syncwall.show.records.interface import record
from syncwall.show.words.placement import verdict


@record
class JobAtRecord(TypedDict):
    """A job on certain nodes."""

    nodes: list[str]
    """In the order of ranks."""
    leaf_groups: int
    slower_p50: float
    """Times longer that its traffic takes than over NICs alone, over the draws."""
    slower_p90: float
    step_p50_s: float
    step_p90_s: float


@record
class PlacedJobRecord(TypedDict):
    """A job as it stands and as it should."""

    name: str
    axis: str | None
    """The axis whose traffic is priced; null if nothing leaves a scale-up domain."""
    free_step_s: float
    """The step if no link were shared."""
    least_leaf_groups: int
    """That so many nodes need."""
    given: JobAtRecord
    found: JobAtRecord


@record
class PlacementRecord(TypedDict):
    """Several jobs on one fabric."""

    verdict: str
    """In one line."""
    change: PlacementChange
    """What is to be changed: nothing, the order of ranks, or nodes too."""
    given_slower: float
    """Mean of the median slow-downs, weighted with nodes."""
    found_slower: float
    given_busiest_link: str | None
    """The fullest link of the median draw; null if no job is slowed down."""
    found_busiest_link: str | None
    fabric: str
    """As it was asked for."""
    routing: Routing
    qps: int
    """Queue pairs of a connection."""
    draws: int
    """Of the hashes; 1 where nothing is drawn."""
    seed: int
    leaf_groups: int
    free_nodes: int
    given_free_together: int
    """Free nodes of the leaf group that has most of them."""
    found_free_together: int
    accuracy: str
    """What is known of it on real fabrics."""
    jobs: list[PlacedJobRecord]


def placement_record(answer: PlacementAnswer) -> PlacementRecord:
    """The whole answer."""
    return {
        "verdict": verdict(answer),
        "change": answer.change,
        "given_slower": answer.given_slower,
        "found_slower": answer.found_slower,
        "given_busiest_link": answer.given_busiest or None,
        "found_busiest_link": answer.found_busiest or None,
        "fabric": answer.fabric,
        "routing": answer.routing,
        "qps": answer.qps,
        "draws": answer.draws,
        "seed": answer.seed,
        "leaf_groups": answer.groups.count,
        "free_nodes": answer.free_nodes,
        "given_free_together": answer.given_free_together,
        "found_free_together": answer.found_free_together,
        "accuracy": UNPROVEN,
        "jobs": [
            {
                "name": job.name,
                "axis": job.axis or None,
                "free_step_s": job.free_s,
                "least_leaf_groups": job.least_groups,
                "given": _at(answer, job.given),
                "found": _at(answer, job.found),
            }
            for job in answer.jobs
        ],
    }


def _at(answer: PlacementAnswer, at: JobAt) -> JobAtRecord:
    return {
        "nodes": answer.names(at.nodes),
        "leaf_groups": at.groups,
        "slower_p50": at.slower_p50,
        "slower_p90": at.slower_p90,
        "step_p50_s": at.step_p50_s,
        "step_p90_s": at.step_p90_s,
    }
