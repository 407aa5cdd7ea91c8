"""The numbers of the Job page.

Holds `played` (when a job will be done, and what it costs), `next_changes` (what
to do otherwise), `job_options` (what can be chosen) and `changed_keys`.
"""

from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Final

import numpy as np

from syncwall import catalogue, units
from syncwall.catalogue import CatalogueKind
from syncwall.cause import LEAST_SHARE
from syncwall.describe import Job
from syncwall.describe.base import Description
from syncwall.describe.lookup import failure_rates, prices
from syncwall.job.completion import Completion, JobChange, finish, job_changes
from syncwall.job.job_plan import interval_curve
from syncwall.problems import InputError
from syncwall.records import plain
from syncwall.show.blocks import Table
from syncwall.show.job import (
    bounds,
    change_cells,
    inputs,
    money_words,
    phases,
    saves,
    step_limit,
    stops,
    switched_off,
    time_ledger,
    value_text,
    verdict,
    worth,
)
from syncwall.show.numbers import money, percent, plural, span
from syncwall.show.prediction import assumed
from syncwall.show.write.parts import (
    Markup,
    Part,
    items,
    markup,
    proposal,
    proposals,
    quiet,
    table,
    tag,
    tile,
)
from syncwall.units import Dimension
from syncwall.web.answers.charts import dates_of, finish_chart, interval_chart
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
_HARDLY: Final = 0.8
"""Share of useful time from which on losses are too small to be seen beside it."""


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
    """Finish with its spread, bill, goodput and checkpoints of a job played through many times.

    `html` are parts of the page by their places, `figures` its charts as Plotly takes them.
    """
    completion = _completion(asked)
    prediction = completion.prediction
    record: dict[str, Any] = plain(completion.without_changes)
    answer = record | {
        "stops": stops(completion),
        "saves": saves(completion),
        "off": switched_off(completion),
        "step_verdict": step_limit(completion),
        "assumed": assumed(prediction),
        "inputs": [
            one | {"text": value_text(i)} for one, i in zip(record["inputs"], completion.inputs, strict=True)
        ],
        "gpus": prediction.run.gpus,
        "nodes": prediction.run.nodes,
        "watts_per_gpu": completion.bill.watts_per_gpu,
        "work_s": completion.settled.plan.work_s,
        "step_s": prediction.step_s,
        "fits": completion.fits,
        "finish": histogram(completion),
        "chances": _chances(asked, completion),
        "intervals": _intervals(completion),
    }
    figures = {
        "finish": answer["finish"] and finish_chart(completion, answer["finish"]),
        "interval": answer["intervals"] and interval_chart(answer["intervals"]),
    }
    return answer | {"html": _html(asked, completion, answer), "figures": figures}


def _html(asked: AskedOutcome, completion: Completion, answer: dict[str, Any]) -> dict[str, str]:
    found, rates = answer["finish"], answer["causes_per_day"]
    late = found and found["later_or_never"] > LEAST_SHARE
    (quantiles,) = bounds(completion)
    assert isinstance(quantiles, Table)
    useful = completion.effective
    ledgers: list[Part] = [time_ledger(completion) if found else quiet("No job came to its end.")]
    if found and _HARDLY < useful < 1:
        title = tag("h3", f"The {percent(1 - useful, 1)} that is not training")
        ledgers.append(tag("div", title, time_ledger(completion, is_lost_only=True), class_="losses"))
    return {
        "why": markup(
            f"{completion.phases.steps:,} steps of {span(completion.prediction.step_s)} on "
            f"{completion.prediction.run.gpus:,} GPUs ({answer['step_verdict']}); "
            f"{answer['stops']}"
        ),
        "tiles": _tiles(completion),
        "finish-about": markup(
            f"{completion.job.simulations:,} jobs played through, seed {completion.job.seed}",
            f"; {percent(found['later_or_never'], 1)} end later or never" if late else "",
        ),
        "quantiles": markup(quantiles.only(range(4)), items(money_words(completion))),
        "chances": _chance_words(asked, answer["chances"]),
        "phases": markup(phases(completion)),
        "ledger": markup(ledgers),
        "interval-about": markup(
            "by the renewal formula, with a spare always at hand" if answer["intervals"] else ""
        ),
        "saves": markup(f"{answer['saves']}."),
        "stops": markup(
            ", ".join(f"{cause} {rate:.2g}" for cause, rate in rates.items()),
            " interruptions a day",
        ),
        "inputs": table(replace(inputs(completion), words=1, ends_in_words=2), class_="stacked"),
        "off": markup(f"Not counted, because nothing was stated: {answer['off']}."),
        "assumed": items(answer["assumed"]),
    }


def _tiles(completion: Completion) -> Markup:
    bill, plan, dates = completion.bill, completion.settled.plan, completion.finish_dates
    low, middle, high = completion.finish_s
    after = f", after {span(middle)}" if dates else " after"
    ends = [f"{one:%Y-%m-%d}" if one else "never" for one in dates or ()]
    ends = ends or [span(low), span(middle), span(high)]
    cost: tuple[str, str, float | None] = ("no price known", "write one in the form", None)
    if completion.cost_usd is not None:
        least, usual, most = completion.cost_usd
        paid = f"{_within(money(least), money(most))}; ${bill.usd_per_gpu_hour:.2f} a GPU-hour"
        cost = (money(usual), paid, usual)
    few, stops_, many = completion.interruptions
    every = span(completion.mean_between_s)
    spare = f"{bill.gpus - completion.prediction.run.gpus:,} of them spare"
    return markup(
        tile(
            "finish",
            f"Done (P50){after}" if dates else "Done after (P50)",
            ends[1],
            _within(ends[0], ends[2]),
            middle,
        ),
        tile(
            "effective",
            "Effective training time",
            percent(completion.effective, 1),
            f"{span(plan.work_s)} undisturbed",
            completion.effective,
        ),
        tile("cost", "Cost (P50)", *cost),
        tile(
            "interruptions",
            "Interruptions",
            f"{stops_:,.0f}",
            f"{_within(f'{few:,.0f}', f'{many:,.0f}')}; one every {every}",
            stops_,
        ),
        tile(
            "gpus",
            "GPUs paid for",
            f"{bill.gpus:,}",
            f"{spare} ({plural(plan.spares, 'node')})",
            bill.gpus,
        ),
    )


def _within(low: str, high: str) -> str:
    return f"80% interval: {low} to {high}"


def _chance_words(asked: AskedOutcome, chances: dict[str, float | None]) -> Markup:
    """How likely it is that what is hoped for comes true."""
    dated = asked.by is not None and asked.by.strip()[4:5] == "-"
    said = {
        "by": f" of the jobs are done {'by' if dated else 'within'} {asked.by}",
        "within": f" are done for at most {asked.within}",
    }
    made = [
        tag(
            "p",
            tag("b", percent(share), class_=_tone(share)),
            said[key],
            data={"chance": key, "value": share},
        )
        for key, share in chances.items()
        if share is not None
    ]
    unknown = asked.within is not None and chances["within"] is None
    return markup(made, quiet("No price is known: write one in the form.") if unknown else None)


def _tone(share: float) -> str | None:
    return "better" if share >= 0.9 else "worse" if share < 0.5 else None


def next_changes(asked: AskedJob) -> dict[str, Any]:
    """Single changes that make it end sooner or cost less, each played through.

    Each with the keys to set (null: leave open).
    """
    completion = _completion(asked)
    useful = [one for one in job_changes(completion) if worth(one)]
    found = [_change(completion.job, one) for one in useful[:_NEXT]]
    none = quiet("No single change of the job helps.")
    html = proposals(list(map(_proposal, useful[:_NEXT], found))) if found else none
    return {"next": found, "html": {"next": html}}


def _proposal(change: JobChange, found: dict[str, Any]) -> Markup:
    gained, _ = change_cells(change)
    usd = change.saved_usd
    words = None if usd is None else f"{'saves' if usd >= 0 else 'costs'} {money(abs(usd))}"
    saved = words and ("; ", tag("span", words, class_="worse" if usd and usd < 0 else "better"))
    beside = f"{percent(change.completion.effective, 1)} effective", saved
    keys = {f"job.{key}": value for key, value in found["keys"].items()}
    return proposal(change.what, gained, beside, keys, gained=found["gained_s"])


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
        "edge_dates": dates_of(completion.job, edges),
    }


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
