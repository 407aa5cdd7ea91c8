"""What a job costs: money, energy, carbon; rented, and beside it bought.

Holds `Bill`, `Purchase`, `bill_of`, `usual_price` and `usual_owned`. Rates are for one GPU; those of
a device that is bought are its price over the hours of its use, and the electricity of the whole
machine.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median
from typing import Any, Final

import numpy as np

from syncwall.answer.prediction import Prediction
from syncwall.catalogue import BUILT_IN
from syncwall.describe import Cluster, Job, Offer
from syncwall.describe.base import SourcedNumber
from syncwall.describe.job import Owned, Power
from syncwall.describe.lookup import prices
from syncwall.documents import read_document
from syncwall.job import settled_job
from syncwall.job.job_plan import JobPlan
from syncwall.job.settled_job import Input
from syncwall.problems import refuse_unknown
from syncwall.units import Dimension

_HOUR_S = 3600.0
_KWH_J = 3.6e6
_YEAR_HOURS = 365.25 * 24
NOT_COUNTED: Final = "building, staff, interest"
"""Of what is bought; rent has it in its price."""
TERMS: Final = ("on-demand", "reserved", "spot")


@dataclass(frozen=True, slots=True)
class Purchase:
    """What buying one GPU takes."""

    usd: float
    """With its share of the node."""
    years: float
    """Of use."""
    electricity_usd_per_hour: float

    @property
    def hours(self) -> float:
        """Of use."""
        return self.years * _YEAR_HOURS

    @property
    def usd_per_gpu_hour(self) -> float:
        """In use all the time."""
        return self.usd / self.hours + self.electricity_usd_per_hour

    def times(self, seconds: Any) -> Any:
        """How often it is bought for a job of `seconds`: again each time that its years are over."""
        return np.maximum(np.ceil(seconds / _HOUR_S / self.hours - 1e-9), 1.0)

    def paid_usd(self, seconds: Any) -> Any:
        """Share of its price for `seconds` of use, whole prices of a job that outlives it."""
        used = seconds / _HOUR_S / self.hours
        share = np.where(used > 1.0, self.times(seconds), used)
        return share * self.usd + seconds / _HOUR_S * self.electricity_usd_per_hour

    def break_even(self, rent_usd_per_hour: float) -> float | None:
        """Share of its years from which on buying costs less than renting; None if never."""
        saved = rent_usd_per_hour - self.electricity_usd_per_hour
        return self.usd / (self.hours * saved) if saved > 0 else None


@dataclass(frozen=True, slots=True)
class Bill:
    """Rates by which a job is paid for; None where nobody states one."""

    gpus: int
    """Paid for, spares included."""
    usd_per_gpu_hour: float | None
    """Rented; None if no price is known."""
    watts_per_gpu: float | None
    """With its share of the node and of the building."""
    inputs: tuple[Input, ...]
    purchase: Purchase | None = None
    """None if nobody says what a GPU costs to buy, or what it draws."""
    carbon_g_per_kwh: float = 0.0
    """Of CO2 equivalents."""
    prices_usd_per_gpu_hour: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest of what sellers ask for such GPUs, by terms: on-demand, reserved, spot."""

    @property
    def owned_usd_per_gpu_hour(self) -> float | None:
        """If the GPUs are bought: price over hours of use, and electricity."""
        return None if self.purchase is None else self.purchase.usd_per_gpu_hour

    @property
    def capex_usd(self) -> float | None:
        """To buy all GPUs, spares included; None without a price to buy one."""
        return None if self.purchase is None else self.purchase.usd * self.gpus

    @property
    def break_even_utilisation(self) -> float | None:
        """Share of the years of use from which on buying costs less than renting; above 1, never."""
        if self.purchase is None or self.usd_per_gpu_hour is None:
            return None
        return self.purchase.break_even(self.usd_per_gpu_hour)

    def usd(self, seconds: Any) -> Any:
        """Price of `seconds`; None without a price."""
        return self.rent_usd(self.usd_per_gpu_hour, seconds)

    def owned_usd(self, seconds: Any) -> Any:
        """The same of GPUs that are bought; None without a price to buy one."""
        return None if self.purchase is None else self.purchase.paid_usd(seconds) * self.gpus

    def rent_usd(self, each: float | None, seconds: Any) -> Any:
        """Price of `seconds` at `each` US dollars for a GPU-hour."""
        return None if each is None else each * self.gpus * seconds / _HOUR_S

    def carbon_kg(self, seconds: Any) -> Any:
        """CO2 equivalents of the energy of `seconds`; None without the power of the device."""
        joules = self.joules(seconds)
        return None if joules is None else joules / _KWH_J * self.carbon_g_per_kwh / 1000.0

    def joules(self, seconds: Any) -> Any:
        """Energy of `seconds`; None without the power of the device."""
        return None if self.watts_per_gpu is None else self.watts_per_gpu * self.gpus * seconds


def bill_of(job: Job, prediction: Prediction, plan: JobPlan) -> Bill:
    """What a second of `plan` costs."""
    cluster, inputs = prediction.cluster, []
    price = job.price_usd_per_gpu_hour
    if price is None:
        usual = usual_price(cluster)
        price, source = usual if usual is not None else (None, "")
        trust = "datasheet"
    else:
        trust, source = "given", ""
    if price is not None:
        inputs.append(Input("price", float(price), Dimension.USD_PER_GPU_HOUR, trust, source))
    watts = _watts(job.power, cluster, inputs)
    purchase = _purchase(job.owned, cluster, watts, inputs)
    carbon = _carbon(job.power, inputs)
    gpus = (plan.nodes + plan.spares) * int(cluster.gpus_per_node)
    rented = None if price is None else float(price)
    ranges = {terms: _range(each) for terms in TERMS if (each := _asked(cluster, terms))}
    return Bill(gpus, rented, watts, tuple(inputs), purchase, carbon, ranges)


def usual_owned(cluster: Cluster) -> float | None:
    """USD for a GPU-hour of GPUs that are bought, where nobody says anything of the bill."""
    found = _purchase(Owned(), cluster, _watts(Power(), cluster, []), [])
    return None if found is None else found.usd_per_gpu_hour


def _purchase(owned: Owned, cluster: Cluster, watts: float | None, inputs: list[Input]) -> Purchase | None:
    known, table = cluster.device.price_usd, _electricity()
    price = known if owned.price_usd is None else owned.price_usd
    if price is None or watts is None:
        return None
    trust, source = "given", ""
    if isinstance(known, SourcedNumber) and owned.price_usd is None:
        trust, source = str(known.provenance.trust), known.provenance.note or ""
    inputs.append(Input("price to buy a GPU", float(price), Dimension.USD, trust, source))
    years = _taken(inputs, "years of use", owned.years, table["years"], table["years_source"])
    usual = table["usd_per_kwh"], table["usd_per_kwh_source"]
    kwh = _taken(inputs, "US dollars for a kWh", owned.electricity_usd_per_kwh, *usual)
    return Purchase(float(price), years, watts / 1000.0 * kwh)


def _carbon(power: Power, inputs: list[Input]) -> float:
    table = _electricity()
    region = (power.region or "world").strip().lower().replace(" ", "-")
    known = table["g_per_kwh"]
    if power.carbon_g_per_kwh is None:
        refuse_unknown(region, known, f'unknown region "{power.region}"')
    grams, year = known.get(region, (0, 0))
    source = f"{region} {year}: {table['g_per_kwh_source']}"
    return _taken(inputs, "grams of CO2 for a kWh", power.carbon_g_per_kwh, grams, source)


def _taken(inputs: list[Input], name: str, given: float | None, usual: float, source: str) -> float:
    value = float(usual if given is None else given)
    trust, source = ("datasheet", source) if given is None else ("given", "")
    inputs.append(Input(name, value, None, trust, source))
    return value


@lru_cache(maxsize=1)
def _electricity() -> dict[str, Any]:
    table: dict[str, Any] = read_document(BUILT_IN / "tuning" / "electricity.yaml").value
    return table


def _watts(power: Power, cluster: Cluster, inputs: list[Input]) -> float | None:
    tdp = cluster.device.tdp_w
    if tdp is None:
        return None
    values = []
    for name, given, usual in (
        ("power over TDP", power.load, settled_job.LOAD),
        ("power of the host", power.host, settled_job.HOST),
        ("PUE", power.pue, settled_job.PUE),
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
    asked = _asked(cluster, "on-demand")
    for name, offer in asked.items():
        if offer.cluster == cluster.name:
            return float(offer.price_usd_per_gpu_hour), f"{name}, {offer.date}, on demand"
    if not asked:
        return None
    low, high = _range(asked)
    newest = max(offer.date for offer in asked.values())
    several = f"median of {len(asked)} sellers, ${low:.2f} to ${high:.2f}"
    source = f"{several if len(asked) > 1 else next(iter(asked))}, {newest}"
    return median(float(offer.price_usd_per_gpu_hour) for offer in asked.values()), source


def _asked(cluster: Cluster, terms: str) -> dict[str, Offer]:
    """The cheapest newest offer of each seller for the device of `cluster`."""
    found: dict[str, Offer] = {}
    for seller in prices():
        alike = (one for one in seller.offers if one.device == cluster.device.name and one.terms == terms)
        offers = sorted(alike, key=lambda one: one.price_usd_per_gpu_hour)
        if offers:
            found[seller.name] = max(offers, key=lambda one: one.date)
    return found


def _range(asked: dict[str, Offer]) -> tuple[float, float]:
    each = [float(offer.price_usd_per_gpu_hour) for offer in asked.values()]
    return min(each), max(each)
