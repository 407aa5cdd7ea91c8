"""The numbers of the Job page.

Holds `played` (when a job will be done, and what it costs) and `next_changes` (what to do
otherwise).
"""

from datetime import timedelta
from typing import Any, Final

import numpy as np

from syncwall.answer import predict
from syncwall.describe import Job
from syncwall.job.changes import Change, changes, tried
from syncwall.job.completion import Completion, finish
from syncwall.job.intervals import interval_curve
from syncwall.job.settled import settle
from syncwall.show.job import job_record, saves, stops, switched_off, value_text, verdict, worth
from syncwall.show.prediction import assumed
from syncwall.web.answers.job_bounds import refuse_endless, refuse_unreal
from syncwall.web.answers.job_keys import changed_keys
from syncwall.web.asked import AskedJob

BINS: Final = 60
_TAIL: Final = 0.995
"""Share of the jobs that the histogram shows; the last ones may come very late."""
_NEXT: Final = 6


def played(asked: AskedJob) -> dict[str, Any]:
    """Verdict, finish, bill, goodput, checkpoints, and what all rests on."""
    completion = _completion(asked)
    prediction = completion.prediction
    record = job_record(completion, [])
    del record["next"]  # asked for by itself
    return record | {
        "stops": stops(completion),
        "saves": saves(completion),
        "off": switched_off(completion),
        "gpus": prediction.run.gpus,
        "nodes": prediction.run.nodes,
        "usd_per_gpu_hour": completion.bill.usd_per_gpu_hour,
        "watts_per_gpu": completion.bill.watts_per_gpu,
        "work_s": completion.settled.plan.work_s,
        "step_s": prediction.step_s,
        "step_verdict": prediction.verdict,
        "fits": prediction.fits,
        "finish": histogram(completion),
        "intervals": _intervals(completion),
        "inputs": [
            one | {"text": value_text(i)}
            for one, i in zip(record["inputs"], completion.inputs, strict=True)
        ],
        "assumed": assumed(prediction),
    }


def next_changes(asked: AskedJob) -> dict[str, Any]:
    """Single changes that help, each played through, with the keys to set (null: leave open)."""
    completion = _completion(asked)
    for _, other in tried(completion):
        refuse_endless(settle(other, completion.prediction).plan)
    useful = [one for one in changes(completion) if worth(one)]
    return {"next": [_change(completion.job, one) for one in useful[:_NEXT]]}


def _completion(asked: AskedJob) -> Completion:
    job = asked.described()
    refuse_unreal(job)
    prediction = predict(job.run)
    refuse_endless(settle(job, prediction).plan)
    return finish(job, prediction)


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


def _change(before: Job, change: Change) -> dict[str, Any]:
    return {
        "change": change.what,
        "gained_s": change.gained_s if abs(change.gained_s) < float("inf") else None,
        "saved_usd": change.saved_usd,
        "effective_training_time": change.completion.effective,
        "verdict": verdict(change.completion),
        "keys": changed_keys(before, change.completion.job),
    }
