"""The numbers of the Job page.

Holds `played` (when a job will be done, and what it costs), `next_changes` (what
to do otherwise), `job_options` (what can be chosen) and `changed_keys`.
"""

from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

import numpy as np

from syncwall import catalogue, units
from syncwall.catalogue import CatalogueKind
from syncwall.describe import Job
from syncwall.describe.base import Description
from syncwall.describe.lookup import failure_rates, prices
from syncwall.job.completion import Completion, JobChange, finish, job_changes
from syncwall.job.plan import interval_curve
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.job import saves, step_limit, stops, switched_off, value_text, verdict, worth
from syncwall.show.prediction import assumed
from syncwall.units import Dimension
from syncwall.web.questions import AskedJob, AskedOutcome


def changed_keys(before: Description, after: Description) -> dict[str, Any]:
    """Keys of a job file that make the one of the other; null where nothing is stated any more."""
    found: dict[str, Any] = {}
    for name, field in type(after).model_fields.items():
        old, new, key = getattr(before, name), getattr(after, name), field.alias or name
        if isinstance(new, Description) and isinstance(old, type(new)):
            if not isinstance(after, Job) or name != "run":
                inner = changed_keys(old, new)
                found |= {f"{key}.{part}": text for part, text in inner.items()}
        elif old != new:
            found[key] = _written(name, new)
    return found


def _written(name: str, value: Any) -> Any:
    """A value as a file writes it: with its unit."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if name.endswith("_bytes_per_s"):
        return units.format(float(value), Dimension.BYTES_PER_S)
    if name.endswith("_s"):
        return units.format(float(value), Dimension.SECONDS)
    return value


@cache
def job_options() -> dict[str, Any]:
    """Studies of failures and prices of the catalogue."""
    studies = [failure_rates(name) for name in catalogue.names(CatalogueKind.FAILURE)]
    return {
        "failures": [
            {
                "name": one.name,
                "title": one.title or one.name,
                "note": one.note,
                "source": (one.provenance or {}).get("source"),
                "causes": [cause.name for cause in one.causes],
            }
            for one in studies
        ],
        "prices": [
            {
                "seller": seller.title or seller.name,
                "device": offer.device,
                "cluster": offer.cluster,
                "usd_per_gpu_hour": float(offer.price_usd_per_gpu_hour),
                "terms": offer.terms,
                "date": offer.date,
            }
            for seller in prices()
            for offer in seller.offers
        ],
    }


MOST_SIMULATIONS: Final = 10_000
"""Of one job, while others wait."""
BINS: Final = 60
_TAIL: Final = 0.995
"""Share of the jobs that the histogram shows; the last ones may come very late."""
_NEXT: Final = 6


def _chances(asked: AskedOutcome, completion: Completion) -> dict[str, float | None]:
    """Shares of the jobs that are done by then, and for no more than that."""
    return {
        "by": None if asked.by is None else completion.chance_by(_seconds(asked.by, completion)),
        "within": None if asked.within is None else completion.chance_within(_sum(asked.within)),
    }


def _seconds(by: str, completion: Completion) -> float:
    """From the start to a moment that is a date or a time."""
    start = completion.job.start
    try:
        moment = datetime.fromisoformat(by.strip())
    except ValueError:
        return _parsed("by", by, Dimension.SECONDS)
    if start is None:
        raise InputError.of("state when the job starts, or write for example 90 days", key="by")
    if moment.tzinfo is None or start.tzinfo is None:
        moment, start = moment.replace(tzinfo=None), start.replace(tzinfo=None)
    return (moment - start).total_seconds()


def _sum(within: str) -> float:
    return _parsed("within", within if "$" in within else f"${within}", Dimension.USD)


def _parsed(key: str, text: str, dimension: Dimension) -> float:
    try:
        return units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(str(error), key=key) from None


def played(asked: AskedOutcome) -> dict[str, Any]:
    """Finish with its spread, bill, goodput and checkpoints of a job played through many times."""
    completion = _completion(asked)
    prediction = completion.prediction
    record: dict[str, Any] = plain(completion.without_changes)
    return record | {
        "stops": stops(completion),
        "saves": saves(completion),
        "off": switched_off(completion),
        "gpus": prediction.run.gpus,
        "nodes": prediction.run.nodes,
        "watts_per_gpu": completion.bill.watts_per_gpu,
        "work_s": completion.settled.plan.work_s,
        "step_s": prediction.step_s,
        "step_verdict": step_limit(completion),
        "fits": completion.fits,
        "finish": histogram(completion),
        "chances": _chances(asked, completion),
        "intervals": _intervals(completion),
        "inputs": [
            one | {"text": value_text(i)} for one, i in zip(record["inputs"], completion.inputs, strict=True)
        ],
        "assumed": assumed(prediction),
    }


def next_changes(asked: AskedJob) -> dict[str, Any]:
    """Single changes that make it end sooner or cost less, each played through.

    Each with the keys to set (null: leave open).
    """
    completion = _completion(asked)
    useful = [one for one in job_changes(completion) if worth(one)]
    return {"next": [_change(completion.job, one) for one in useful[:_NEXT]]}


def _completion(asked: AskedJob) -> Completion:
    job = asked.described()
    if job.simulations > MOST_SIMULATIONS:
        raise InputError.of(f"at most {MOST_SIMULATIONS:,} here", key="simulations")
    return finish(job)


def histogram(completion: Completion) -> dict[str, Any] | None:
    """Shares of the jobs by when they are done; None if none is."""
    outcome = completion.outcome
    done = np.sort(outcome.finish_s[outcome.finished])
    if not len(done):
        return None
    last = float(np.quantile(done, _TAIL, method="inverted_cdf"))
    margin = 1e-3 * last if last == done[0] else 0.0  # all alike: one bar of some width
    counts, edges = np.histogram(done, BINS, (float(done[0]) - margin, last + margin))
    shares = counts / len(outcome.finish_s)
    return {
        "edges_s": [float(edge) for edge in edges],
        "shares": [float(share) for share in shares],
        "done_by": [float(share) for share in np.cumsum(shares)],
        "later_or_never": max(0.0, 1.0 - float(shares.sum())),
        "edge_dates": _dates(completion.job, edges),
    }


def _dates(job: Job, seconds: Any) -> list[str] | None:
    """The same as dates, if the job says when it starts and the calendar goes so far."""
    if job.start is None:
        return None
    try:
        return [(job.start + timedelta(seconds=float(one))).isoformat() for one in seconds]
    except OverflowError:
        return None


def _intervals(completion: Completion) -> dict[str, Any] | None:
    settled = completion.settled
    plan, best_s = settled.plan, settled.best_interval_s
    curve = interval_curve(plan, best_s)
    if curve is None:
        return None
    marked = {"chosen": plan.interval_s, "best": best_s}
    return {
        "interval_s": [float(one) for one in curve.interval_s],
        "share": [float(one) for one in curve.share],
        "work_s": plan.run_s,
        **{
            name: {"interval_s": float(one), "share": float(curve.share_at(one))}
            for name, one in marked.items()
        },
    }


def _change(before: Job, change: JobChange) -> dict[str, Any]:
    return {
        "change": change.what,
        "gained_s": change.gained_s if abs(change.gained_s) < float("inf") else None,
        "saved_usd": change.saved_usd,
        "effective_training_time": change.completion.effective,
        "verdict": verdict(change.completion),
        "keys": changed_keys(before, change.completion.job),
    }
