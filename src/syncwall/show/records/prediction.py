"""A prediction as plain data: seconds, bytes, FLOP.

Holds `PredictRecord` with `prediction_record`, `StepRecord` with `step_record`; `StartRecord` with
`start_record`, of plans that start from a run; `LayoutFields` and `RunFields`.
"""

from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import TypedDict

from syncwall.answer.contention import UNPROVEN, Contention
from syncwall.answer.gap import gap_of
from syncwall.answer.improvements import Improvement
from syncwall.answer.interval import Neighbour
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import mfu_convention
from syncwall.answer.settled import Chosen
from syncwall.answer.verdict import Verdict
from syncwall.cause import Cause
from syncwall.describe import Layout, Run
from syncwall.network import Routing
from syncwall.show.records.description import record as described
from syncwall.show.records.gap import GapRecord, gap_record
from syncwall.show.records.interface import DescribedAs, record
from syncwall.show.records.job import JobRecord
from syncwall.show.words.prediction import assumed

if TYPE_CHECKING:  # a prediction needs no plan
    from syncwall.plan.reference import Reference

LayoutFields = Annotated[dict[str, Any], DescribedAs(Layout)]
"""A layout in which nothing is open."""
_NUMBER = {"type": "integer"}
_ORIGINS = {"type": "object", "description": "Origin of each sourced number, by its dotted path."}
RunFields = Annotated[
    dict[str, Any], DescribedAs(Run, gpus=_NUMBER, tokens_per_step=_NUMBER, provenance=_ORIGINS)
]
"""A run in which nothing is open, with the source of every number."""


@record
class ChangeRecord(TypedDict):
    """A single change that helps."""

    change: str
    """In words."""
    gained_s: float
    """Seconds that it takes off the step."""
    memory_bytes: float
    """Bytes that it adds to the fullest GPU; negative if it takes some away."""
    layout: dict[str, Any]
    """Fields of the layout to set."""
    also: dict[str, Any]
    """Fields left open that would then be chosen otherwise."""
    nodes: int
    """Nodes of the changed run."""


@record
class StepRecord(TypedDict):
    """What is to be expected of a training step."""

    verdict: Verdict
    """What limits the run."""
    step_s: float
    """Median of the time of a step."""
    step_interval_s: tuple[float, float]
    """P10 and P90 of it."""
    extrapolating: bool
    """True if nothing like this run was validated."""
    nearest_validated_run: Neighbour | None
    """The published run most like this one."""
    known_runs: int
    """Measured runs of the same cluster that the prices are anchored to."""
    knobs: dict[str, float]
    """What these runs made of the prices, as factors."""
    left_open: dict[str, str]
    """What the run leaves open, and the value chosen for it."""
    chosen: list[Chosen]
    """The same with the reason."""
    calibrated_by: list[str]
    """Files measured on the machine itself."""
    tokens_per_s_per_gpu: float
    """Tokens a second of each GPU."""
    mfu: float
    """Model FLOPs utilization, a fraction."""
    hfu: float
    """Hardware FLOPs utilization: with what is computed twice."""
    mfu_convention: str
    """Which FLOPs are counted, over which peak."""
    fits: bool
    """True if the fullest GPU has enough memory."""
    memory_bytes: float
    """Of the fullest GPU."""
    memory_interval_bytes: tuple[float, float]
    """P10 and P90 of it."""
    fits_probability: float
    """How likely it fits."""
    memory_by_cause_bytes: dict[str, float]
    """What the memory is used for."""
    host_memory_bytes: float
    """What offloading moves to the memory of each host."""
    ledger_s: dict[Cause, float]
    """Seconds by cause; they add up to the step."""
    exposed_s: float
    """Seconds that wait for communication."""
    model_flops: float
    """Of one step, over all GPUs."""
    tokens: float
    """Of one step."""


@record
class ContentionRecord(TypedDict):
    """A step on shared links beside the same on free ones."""

    fabric: str
    """The fabric, as it was asked for."""
    routing: Routing
    """How flows find their way."""
    qps: int
    """Queue pairs of a connection."""
    draws: int
    """Draws of the hashes; 1 where nothing is drawn."""
    seed: int
    """Of these draws."""
    needed: bool
    """True if shared links change the step at all."""
    free_s: float
    """The step if no link were shared."""
    p50_s: float
    """Median of the step over the draws; the answer itself."""
    p90_s: float
    """P90 of it."""
    busiest_link: str | None
    """The link that slows the median draw most."""
    busiest_link_slower: float
    """How many times longer traffic over it takes than over NICs alone."""
    accuracy: str
    """What is known of it on real fabrics."""


@record
class PredictRecord(StepRecord):
    """A step, what to change, and what it rests on."""

    next: list[ChangeRecord]
    """Single changes that help, the best first."""
    assumed: list[str]
    """What is taken for granted, in words."""
    run: RunFields
    """The run, with what was chosen for what it left open."""
    job: JobRecord | None
    """The whole job, if tokens or steps were given."""
    gap: GapRecord | None
    """What would explain how fast it really was; null if nobody says."""
    contention: ContentionRecord | None
    """What flows that share links do to the step; null without a fabric."""


def step_record(prediction: Prediction) -> StepRecord:
    """What the prediction says of the step itself."""
    interval, site = prediction.interval, prediction.site
    return {
        "verdict": prediction.verdict,
        "step_s": prediction.step_s,
        "step_interval_s": prediction.step_interval_s,
        "extrapolating": interval.extrapolating,
        "nearest_validated_run": interval.nearest,
        "known_runs": len(site.known),
        "knobs": {n: float(x) for n, x in prediction.pricing.knobs.by_name().items()},
        "left_open": prediction.assumed,
        "chosen": list(prediction.chosen),
        "calibrated_by": list(prediction.calibration.measured.sources),
        "tokens_per_s_per_gpu": prediction.tokens_per_s_per_gpu,
        "mfu": prediction.mfu,
        "hfu": prediction.hfu,
        "mfu_convention": mfu_convention(prediction.run.model),
        "fits": prediction.fits,
        "memory_bytes": prediction.memory_bytes,
        "memory_interval_bytes": prediction.room.interval_bytes,
        "fits_probability": prediction.room.probability,
        "memory_by_cause_bytes": prediction.memory.by_cause(),
        "host_memory_bytes": prediction.host_memory_bytes,
        "ledger_s": dict(prediction.ledger),
        "exposed_s": prediction.exposed_s,
        "model_flops": float(prediction.work.model_flops),
        "tokens": float(prediction.work.tokens),
    }


def prediction_record(
    prediction: Prediction, proposals: list[Improvement], job: JobRecord | None = None
) -> PredictRecord:
    """The prediction with its proposals, and the job that it is part of."""
    gap = gap_of(prediction)
    return {
        **step_record(prediction),
        "next": [
            {
                "change": one.change,
                "gained_s": one.gained_s,
                "memory_bytes": one.memory_bytes,
                "layout": dict(one.fields),
                "also": dict(one.also),
                "nodes": one.run.nodes,
            }
            for one in proposals
        ],
        "assumed": assumed(prediction),
        "run": described(prediction.run),
        "job": job,
        "gap": None if gap is None else gap_record(gap),
        "contention": contention_record(prediction.contention) if prediction.contention else None,
    }


def contention_record(found: Contention) -> ContentionRecord:
    """A step on shared links."""
    return {
        "fabric": found.fabric,
        "routing": found.routing,
        "qps": found.qps,
        "draws": found.draws,
        "seed": found.seed,
        "needed": found.needed,
        "free_s": found.free_s,
        "p50_s": found.p50_s,
        "p90_s": found.p90_s,
        "busiest_link": found.busiest or None,
        "busiest_link_slower": found.slower,
        "accuracy": UNPROVEN,
    }


@record
class StartRecord(TypedDict):
    """The run that a plan starts from."""

    left_open: dict[str, str]
    """What nobody stated, and the value taken for it."""
    layout_searched: bool
    """True if the layout was found by search."""
    step_s: float
    """Its predicted step."""
    run: RunFields


def start_record(start: "Reference") -> StartRecord:
    """What a plan starts from."""
    return {
        "left_open": start.assumed,
        "layout_searched": start.layout_searched,
        "step_s": start.prediction.step_s,
        "run": described(start.run),
    }
