"""The best layouts as plain data: seconds, bytes.

Holds `LayoutsRecord` and `layouts_record`.
"""

from typing_extensions import TypedDict

from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.plan.answer import Plan
from syncwall.plan.choices import Objective
from syncwall.show.records.interface import plain, record
from syncwall.show.records.prediction import LayoutFields
from syncwall.show.words.layouts import setting_bought, verdict


@record
class LayoutRecord(TypedDict):
    """A layout and what is predicted for it."""

    gpus: int
    global_batch: int
    """Sequences of one step."""
    layout: LayoutFields
    step_s: float
    """Median of the time of a step."""
    step_interval_s: tuple[float, float]
    """P10 and P90 of it."""
    tokens_per_s_per_gpu: float
    """Tokens a second of each GPU."""
    mfu: float
    """Model FLOPs utilization, a fraction."""
    hfu: float
    """Hardware FLOPs utilization: with what is computed twice."""
    fits: bool
    """True if the fullest GPU has enough memory."""
    memory_bytes: float
    """Of the fullest GPU."""
    ledger_s: dict[Cause, float]
    """Seconds by cause; they add up to the step."""
    exposed_s: float
    """Seconds that wait for communication."""
    gpu_hours_per_billion_tokens: float
    usd_per_billion_tokens: float | None
    """Null if no price is stated."""


@record
class PointRecord(TypedDict):
    """A layout that no other beats in time, memory and GPUs at once."""

    gpus: int
    step_s: float
    memory_bytes: float
    """Of the fullest GPU."""
    layout: LayoutFields


@record
class OptionRecord(TypedDict):
    """A field of the best layout, changed."""

    change: str
    """In words."""
    gained_s: float
    """Seconds that it takes off the step."""
    fits: bool


@record
class TunedRecord(TypedDict):
    """The best other value of a setting of the best layout, against its default."""

    setting: str
    said: str
    """In words."""
    fields: dict[str, float | bool]
    """Fields of the layout that have it."""
    gained_s: float
    """Seconds that it takes off the step."""
    memory_bytes: float
    """Memory that it needs more."""
    fits: bool
    taken: bool
    """True if the best layout has it."""


@record
class LayoutsRecord(TypedDict):
    """The best layouts, and what stands beside them."""

    verdict: str
    """In one line."""
    objective: Objective
    """What is best: the shortest step, the fewest GPU-hours, or the fewest GPUs."""
    layouts_possible: int
    layouts_fitting: int
    best: list[LayoutRecord]
    """The best first; empty if none fits."""
    yours: LayoutRecord | None
    """The layout that was stated, if one was."""
    front: list[PointRecord]
    """What less memory or fewer GPUs cost in time, the quickest first."""
    tuned: list[TunedRecord]
    """What buckets of DDP, or units, resharding and prefetch of FSDP buy in the best layout."""
    not_searched: list[OptionRecord]
    """What each field that is not searched would bring to the best layout."""
    other_batch: LayoutRecord | None
    """The best layout with a batch that more numbers of replicas can share."""
    least_memory_bytes: float | None
    """Of the layout that needs least; null if none is possible."""
    settings: str | None
    """The best layout as settings of a framework, if they were asked for."""


def layouts_record(plan: Plan, settings: str = "") -> LayoutsRecord:
    """The plan; `settings` give its best layout."""
    nearest = plan.found.smallest
    return {
        "verdict": verdict(plan),
        "objective": plan.objective,
        "layouts_possible": plan.found.counted,
        "layouts_fitting": plan.found.fitting,
        "best": [_layout(plan, one.prediction) for one in plan.best],
        "yours": _layout(plan, plan.now) if plan.now else None,
        "front": [
            {
                "gpus": point.gpus,
                "step_s": point.step_s,
                "memory_bytes": point.memory_bytes,
                "layout": plain(point.layout()),
            }
            for point in plan.found.front
        ],
        "tuned": _tuned(plan),
        "not_searched": [
            {"change": one.change, "gained_s": one.gained_s, "fits": one.fits}
            for one in plan.not_searched
        ],
        "other_batch": _layout(plan, plan.other.best) if plan.other else None,
        "least_memory_bytes": nearest.memory_bytes if nearest else None,
        "settings": settings or None,
    }


def _tuned(plan: Plan) -> list[TunedRecord]:
    return [
        {
            "setting": one.name,
            "said": setting_bought(one, plan.best[0].step_s),
            "fields": dict(one.fields),
            "gained_s": one.gained_s,
            "memory_bytes": one.memory_bytes,
            "fits": one.fits,
            "taken": one.taken,
        }
        for one in (plan.best[0].tuned if plan.best else ())
    ]


def _layout(plan: Plan, found: Prediction) -> LayoutRecord:
    hours, price = plan.gpu_hours(found), plan.price_usd_per_gpu_hour
    return {
        "gpus": found.run.gpus,
        "global_batch": int(found.run.layout.global_batch or 1),
        "layout": plain(found.run.layout),
        "step_s": found.step_s,
        "step_interval_s": found.step_interval_s,
        "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
        "mfu": found.mfu,
        "hfu": found.hfu,
        "fits": found.fits,
        "memory_bytes": found.memory_bytes,
        "ledger_s": dict(found.ledger),
        "exposed_s": found.exposed_s,
        "gpu_hours_per_billion_tokens": hours,
        "usd_per_billion_tokens": None if price is None else hours * price,
    }
