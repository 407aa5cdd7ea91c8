"""What a job costs rented and bought, and what it emits."""

from typing import Any

import pytest

import syncwall as sw
from syncwall.job.bill import usual_owned, usual_price
from syncwall.job.completion import finish
from syncwall.problems import InputError

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
