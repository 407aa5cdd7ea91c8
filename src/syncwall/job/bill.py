"""What a job costs, in money and in energy.

Holds `Bill`, `bill_of` and `usual_price`.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

from syncwall.answer.prediction import Prediction
from syncwall.describe import Cluster, Job, Offer
from syncwall.describe.lookup import prices
from syncwall.job import defaults
from syncwall.job.plan import Plan
from syncwall.job.settled import Input
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


def bill_of(job: Job, prediction: Prediction, plan: Plan) -> Bill:
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
    said, tdp = job.power, cluster.device.tdp_w
    if tdp is None:
        return None
    values = []
    for name, given, usual in (
        ("power over TDP", said.load, defaults.LOAD),
        ("power of the host", said.host, defaults.HOST),
        ("PUE", said.pue, defaults.PUE),
    ):
        trust = "assumed" if given is None else "given"
        values.append(usual if given is None else given)
        inputs.append(Input(name, float(values[-1]), None, trust))
    load, host, pue = values
    return float(tdp) * load * (1.0 + host) * pue


def usual_price(cluster: Cluster) -> tuple[float, str] | None:
    """USD for a GPU-hour on demand and where it is from: of this very machine, or else the median
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
