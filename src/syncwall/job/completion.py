"""When a job will be done, what it will cost, and where its time goes.

Holds `finish`, `finish_all` and `Completion`. `Bill`, `bill_of` and `usual_price`: what a job
costs, in money and in energy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from syncwall.answer.prediction import Prediction, predict
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cause import Cause
from syncwall.describe import Cluster, Job, Offer
from syncwall.describe.lookup import prices
from syncwall.describe.reading import read
from syncwall.job import defaults
from syncwall.job.endless import refuse_endless
from syncwall.job.plan import JobPlan
from syncwall.job.renewal import daly_s, young_s
from syncwall.job.settled import Input, SettledJob, settle
from syncwall.job.simulation import Progress, SimulatedJobs, simulate_all
from syncwall.public import Answer
from syncwall.timeline.ledger import Ledger
from syncwall.units import Dimension

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Bill:
    """Rates by which a job is paid for; None where nobody states one."""

    gpus: int
    """Paid for, spares included."""
    usd_per_gpu_hour: float | None
    watts_per_gpu: float | None
    """With its share of the node and of the building."""
    inputs: tuple[Input, ...]

    def usd(self, seconds: Any) -> Any:
        """Price of `seconds`; None without a price."""
        each = self.usd_per_gpu_hour
        return None if each is None else each * self.gpus * seconds / _HOUR_S

    def joules(self, seconds: Any) -> Any:
        """Energy of `seconds`; None without the power of the device."""
        return None if self.watts_per_gpu is None else self.watts_per_gpu * self.gpus * seconds


def bill_of(job: Job, prediction: Prediction, plan: JobPlan) -> Bill:
    """What a second of `plan` costs."""
    cluster, inputs = prediction.run.cluster, []
    price = job.price_usd_per_gpu_hour
    if price is None:
        usual = usual_price(cluster)
        price, source = usual if usual is not None else (None, "")
        trust = "datasheet"
    else:
        trust, source = "given", ""
    if price is not None:
        inputs.append(Input("price", float(price), Dimension.USD_PER_GPU_HOUR, trust, source))
    watts = _watts(job, cluster, inputs)
    gpus = (plan.nodes + plan.spares) * int(cluster.gpus_per_node)
    return Bill(gpus, None if price is None else float(price), watts, tuple(inputs))


def _watts(job: Job, cluster: Cluster, inputs: list[Input]) -> float | None:
    power, tdp = job.power, cluster.device.tdp_w
    if tdp is None:
        return None
    values = []
    for name, given, usual in (
        ("power over TDP", power.load, defaults.LOAD),
        ("power of the host", power.host, defaults.HOST),
        ("PUE", power.pue, defaults.PUE),
    ):
        trust = "assumed" if given is None else "given"
        values.append(usual if given is None else given)
        inputs.append(Input(name, float(values[-1]), None, trust))
    load, host, pue = values
    return float(tdp) * load * (1.0 + host) * pue


def usual_price(cluster: Cluster) -> tuple[float, str] | None:
    """USD for a GPU-hour on demand and where it is from: of this machine itself, or else the median
    of what sellers ask for its device.
    """
    asked: dict[str, Offer] = {}
    for seller in prices():
        offers = [
            offer
            for offer in seller.offers
            if offer.device == cluster.device.name and offer.terms == "on-demand"
        ]
        newest = max((offer.date for offer in offers), default="")
        now = [offer for offer in offers if offer.date == newest]
        if now:
            asked[seller.name] = min(now, key=lambda offer: offer.price_usd_per_gpu_hour)
    for name, offer in asked.items():
        if offer.cluster == cluster.name:
            return float(offer.price_usd_per_gpu_hour), f"{name}, {offer.date}, on demand"
    if not asked:
        return None
    each = [float(offer.price_usd_per_gpu_hour) for offer in asked.values()]
    newest = max(offer.date for offer in asked.values())
    source = f"median of {len(each)} sellers, ${min(each):.2f} to ${max(each):.2f}, {newest}"
    return median(each), source


QUANTILES = (0.1, 0.5, 0.9)


@takes_catalogue
def finish(
    job: Job | str | Path,
    prediction: Prediction | None = None,
    *,
    progress: Progress | None = None,
    workers: int = 1,
    catalogue: Folders = None,
) -> "Completion":
    """When `job`, described or in a file, will be done.

    `prediction` is that of its run, made here if not given.

    The job is played through `job.simulations` times; the same seed gives the same answer.

    Examples:
        >>> import syncwall as sw
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=16,
        ...              layout=sw.Layout(shard="fsdp", global_batch=512))
        >>> done = sw.finish(sw.Job(run=run, tokens=1e12))
        >>> done
        <Completion llama-3.1-8b on 128 h100-sxm: ... steps in ... days, ...% effective>
        >>> low_s, half_s, high_s = done.finish_s
    """
    job = job if isinstance(job, Job) else read(Path(job), Job)
    prediction = prediction or predict(job.run)
    return finish_all([job], prediction, progress=progress, workers=workers)[0]


def finish_all(
    jobs: Sequence[Job],
    prediction: Prediction,
    *,
    progress: Progress | None = None,
    workers: int = 1,
) -> list["Completion"]:
    """The same for several jobs of one run, which all meet the failures of the first one's seed."""
    settled = [settle(job, prediction) for job in jobs]
    plans, first = [one.plan for one in settled], jobs[0]
    for plan in plans:
        refuse_endless(plan)
    outcomes = simulate_all(
        plans, first.simulations, int(first.seed), workers=workers, progress=progress
    )
    return [
        Completion(job, prediction, one, outcome, bill_of(job, prediction, one.plan))
        for job, one, outcome in zip(jobs, settled, outcomes, strict=True)
    ]


@dataclass(frozen=True)
class Completion(Answer):
    """What to expect of a job."""

    job: Job
    prediction: Prediction
    settled: SettledJob
    outcome: SimulatedJobs
    bill: Bill

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the answer rests on, each with where it comes from."""
        return (*self.settled.inputs, *self.bill.inputs)

    @cached_property
    def finish_s(self) -> tuple[float, float, float]:
        """P10, P50 and P90 of the time from start to end; infinity for never."""
        return _quantiles(self.outcome.finish_s)

    @property
    def finish_dates(self) -> tuple[datetime | None, ...] | None:
        """The same as dates, if the job says when it starts."""
        start = self.job.start
        return None if start is None else tuple(_date(start, seconds) for seconds in self.finish_s)

    @property
    def interruptions(self) -> tuple[float, float, float]:
        """P10, P50 and P90 of how often the job stops without a plan."""
        return _quantiles(self.outcome.interruptions)

    @property
    def finished_share(self) -> float:
        """Share of the simulated jobs that came to their end."""
        return float(np.mean(self.outcome.finished))

    @cached_property
    def ledger(self) -> Ledger:
        """Mean seconds by cause of the jobs that came to their end; they add up to `mean_s`."""
        done = self.outcome.finished
        if not done.any():
            return Ledger()
        spent = self.outcome.ledger_s.items()
        return Ledger({cause: float(np.mean(seconds[done])) for cause, seconds in spent})

    @property
    def mean_s(self) -> float:
        """Mean time from start to end of the jobs that came to their end."""
        return float(self.ledger.total)

    @property
    def effective(self) -> float:
        """Effective training time ratio: time of steps that count over all time."""
        return float(self.ledger[Cause.USEFUL]) / self.mean_s if self.mean_s else 0.0

    @property
    def cost_usd(self) -> tuple[float, float, float] | None:
        """P10, P50 and P90 of the bill."""
        low, middle, high = map(self.bill.usd, self.finish_s)
        return None if middle is None else (low, middle, high)

    @property
    def energy_j(self) -> tuple[float, float, float] | None:
        """P10, P50 and P90 of the energy."""
        low, middle, high = map(self.bill.joules, self.finish_s)
        return None if middle is None else (low, middle, high)

    @property
    def mean_between_s(self) -> float:
        """Mean time between interruptions, in the steady state."""
        rate = self.settled.plan.rate_per_s
        return 1.0 / rate if rate else float("inf")

    @property
    def young_s(self) -> float:
        """Young's checkpoint interval for this job."""
        return float(young_s(self.settled.plan.blocking_s, self.mean_between_s))

    @property
    def daly_s(self) -> float:
        """Daly's checkpoint interval for this job."""
        return float(daly_s(self.settled.plan.blocking_s, self.mean_between_s))

    def __repr__(self) -> str:
        run, half = self.prediction.run, self.finish_s[1] / 86400.0
        return (
            f"<Completion {run.model.name} on {run.gpus} {run.cluster.device.name}: "
            f"{self.job.total_steps:,} steps in {half:.4g} days, {self.effective:.1%} effective>"
        )


def _quantiles(values: Any) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, QUANTILES, method="inverted_cdf")
    return float(low), float(middle), float(high)


def _date(start: datetime, seconds: float) -> datetime | None:
    try:
        return start + timedelta(seconds=seconds)
    except OverflowError:
        return None
