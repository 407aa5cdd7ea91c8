"""What a job costs rented and bought, and what it emits."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.job.bill import Purchase, usual_owned, usual_price
from syncwall.job.completion import finish
from syncwall.problems import InputError
from syncwall.show.blocks import Table
from syncwall.show.job import bounds

LAYOUT = sw.Layout(tp=8, shard="fsdp", global_batch=512)
RUN = sw.Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=32, layout=LAYOUT)


def done(**stated: Any) -> Any:
    return finish(sw.Job(run=RUN, tokens=1e11, simulations=100, **stated))


def test_a_gpu_that_is_bought_costs_its_price_over_its_hours_and_its_electricity():
    """$30,000 over 4 years, and 700 W x 0.8 x 1.5 x 1.2 at $0.10 a kWh."""
    owned = {"price": 30_000.0, "years": 4, "electricity": 0.1}
    found = done(owned=owned).bill.owned_usd_per_gpu_hour
    assert found == pytest.approx(30_000 / (4 * 8766) + 1.008 * 0.1)


def test_what_nobody_states_comes_from_the_catalogue_with_its_source():
    bill = done().bill
    assert bill.owned_usd_per_gpu_hour == pytest.approx(38_750 / (5 * 8766) + 1.008 * 0.0806)
    assert bill.owned_usd_per_gpu_hour == usual_owned(sw.cluster("dgx-h100"))
    sources = {one.name: (one.trust, one.source) for one in bill.inputs}
    assert all(sources[name][1] for name in ("years of use", "US dollars for a kWh"))
    assert sources["price to buy a GPU"][0] == "datasheet"


def test_carbon_is_energy_times_that_of_the_region():
    france, world = done(power={"region": "France"}), done()
    assert france.carbon_kg[1] == pytest.approx(france.energy_j[1] / 3.6e6 * 0.044)
    assert world.carbon_kg[1] == pytest.approx(france.carbon_kg[1] * 473 / 44)
    stated = done(power={"carbon": 0.0, "region": "anywhere"})
    assert stated.carbon_kg == (0, 0, 0)


def test_an_unknown_region_is_refused():
    with pytest.raises(InputError, match='unknown region "Frnce"; did you mean "france"'):
        done(power={"region": "Frnce"})


def test_the_bill_is_the_same_in_python_in_a_record_and_in_a_comparison():
    job = done(owned={"years": 3})
    record = job.to_dict()["job"]
    beside = sw.compare(job, job).to_dict()["runs"][0]
    assert tuple(record["owned_cost_usd"]) == job.owned_cost_usd
    assert beside["job"]["carbon_kg"] == record["carbon_kg"]
    assert beside["owned_usd_per_gpu_hour"] == job.bill.owned_usd_per_gpu_hour


def test_a_machine_that_nobody_prices_has_no_bill_of_that_kind():
    assert usual_owned(sw.cluster("gb300-nvl72")) is None
    assert usual_owned(sw.cluster("tpu-v5e")) is None  # no power is known


def test_a_rack_of_gb200_can_be_rented():
    price = usual_price(sw.cluster("gb200-nvl72"))
    assert price == (10.5, "coreweave, 2026-09-20, on demand")


@pytest.mark.parametrize(("more", "key"), [("years", 10), ("price", 80_000.0)])
def test_longer_use_costs_less_and_a_dearer_gpu_more(more, key):
    usual, other = done().owned_cost_usd, done(owned={more: key}).owned_cost_usd
    assert (other[1] > usual[1]) == (more == "price")


def test_capex_and_the_use_from_which_on_buying_pays():
    """$30,000 over 4 years against $2 an hour, electricity free: 30,000 / (4 x 8,766 h x $2) = 43%."""
    job = done(owned={"price": 30_000.0, "years": 4, "electricity": 0.0}, price=2.0)
    assert job.bill.capex_usd == 30_000 * job.bill.gpus
    assert job.bill.break_even_utilisation == pytest.approx(30_000 / (4 * 8766 * 2))
    record = job.to_dict()["job"]
    assert record["capex_usd"] == job.bill.capex_usd
    said = next(block.lines[0] for block in job.view().blocks if getattr(block, "label", "") == "Buy")
    assert "cheaper than rent if used more than 43% of 4 years" in said
    (quantiles,) = bounds(job)
    assert isinstance(quantiles, Table)
    bought = next(row for row in quantiles.rows if row[0] == "cost if bought")
    assert bought[-1] == "share of 4 years; no building, staff, interest"


def test_rent_that_costs_less_than_electricity_is_never_beaten():
    job = done(owned={"price": 30_000.0, "electricity": 9.0}, price=2.0)
    assert job.bill.break_even_utilisation is None


def test_a_job_that_outlives_its_gpus_buys_them_again():
    """3,015 days on GPUs of 5 years: two purchases, not 8.25 / 5 of one."""
    bought = Purchase(43_000.0, 5.0, 0.1)
    day_s = 86400.0
    assert bought.paid_usd(3015 * day_s) == pytest.approx(2 * 43_000 + 3015 * 24 * 0.1)
    assert bought.paid_usd(365.25 * day_s) == pytest.approx(43_000 / 5 + 8766 * 0.1)


def test_prices_of_sellers_stand_beside_the_median():
    job = done()
    (low, high), half_s = job.bill.prices_usd_per_gpu_hour["on-demand"], job.finish_s[1]
    assert low < job.bill.usd_per_gpu_hour < high
    least, most = job.cost_range_usd["on-demand"]
    assert least == pytest.approx(low * job.bill.gpus * half_s / 3600)
    assert least < job.cost_usd[1] < most
    assert job.bill.prices_usd_per_gpu_hour["spot"][0] < low


def test_mi355x_has_the_price_that_oracle_asks():
    assert usual_price(sw.cluster("mi355x-8")) == (8.6, "oci, 2026-09-18")
    assert usual_owned(sw.cluster("mi355x-8")) is None


def test_spares_are_explained():
    line = next(block.lines[0] for block in done().view().blocks if getattr(block, "label", "") == "Spares")
    assert "short of nodes for under 1% of the time" in line
