import pytest

import syncwall as sw
from syncwall.describe.job import FailureCause, FailureRates
from syncwall.job.job_plan import DAY_S
from syncwall.job.settled_job import FailureUnits, _poisson_quantile, failure_causes, job_plan


def rates(**cause: object) -> FailureRates:
    return FailureRates(causes=(FailureCause.model_validate({"name": "it", **cause}),))


@pytest.mark.parametrize(
    ("per", "many"),
    [("gpu", 800), ("node", 100), ("nic", 800), ("rack", 25), ("switch", 8 * 4), ("job", 1)],
)
def test_rates_are_those_of_all_parts_together(per, many):
    fabric = sw.Fabric(rails=8, tiers=(sw.Tier(name="leaf", nodes=32), sw.Tier(name="spine")))
    cluster = sw.cluster("dgx-h100", nodes=100).model_copy(update={"fabric": fabric})
    machine = FailureUnits.of(sw.Failures(), cluster)
    (cause,) = failure_causes(rates(per=per, per_1000_days=10), machine)
    assert cause.per_s * DAY_S == pytest.approx(10 / 1000 * many)


@pytest.mark.parametrize(
    ("name", "nodes", "takes", "taken"),
    [
        ("dgx-h100", 100, "nothing", 0),
        ("dgx-h100", 100, "node", 1),
        ("dgx-h100", 100, "domain", 1),
        ("dgx-h100", 100, "rack", 4),
        ("dgx-h100", 2, "rack", 2),
        ("gb200-nvl72", 90, "node", 1),
        ("gb200-nvl72", 90, "domain", 1),
        ("gb200-nvl72", 90, "rack", 18),
    ],
)
def test_what_a_failure_takes_away(name, nodes, takes, taken):
    machine = FailureUnits.of(sw.Failures(), sw.cluster(name, nodes=nodes))
    (cause,) = failure_causes(rates(per="node", per_1000_days=1, takes=takes), machine)
    assert cause.nodes == taken


def test_how_much_fails_together_can_be_said():
    said = sw.Failures(domain_gpus=16, rack_nodes=8)
    machine = FailureUnits.of(said, sw.cluster("dgx-h100", nodes=64))
    assert (machine.domain_nodes, machine.rack_nodes) == (2, 8)


def spares(**failures: object) -> int:
    layout = sw.Layout(tp=2, sp=True, shard="fsdp", global_batch=2304)
    run = sw.Run(model="llama-3.1-70b", cluster=sw.cluster("gb200-nvl72", nodes=288), layout=layout)
    job = sw.Job(run=run, tokens=1e12, failures=sw.Failures(**failures))
    return job_plan(job, sw.predict(run)).plan.spares


def test_sixteen_racks_keep_two_of_eighteen_trays_in_reserve():
    """As CoreWeave asks of workloads on its GB200; it was 90 nodes when a GPU cost its rack."""
    assert spares() == 2 * 16 == spares(domain_gpus=4)
    assert spares(domain_gpus=72) == 90


@pytest.mark.parametrize(("mean", "number"), [(0.0, 0), (0.005, 0), (0.1, 1), (1.0, 4), (100.0, 124)])
def test_poisson_quantiles(mean, number):
    """Tables of the Poisson distribution, 99%."""
    assert _poisson_quantile(mean, 0.99) == number


def test_large_poisson_quantiles_are_nearly_normal():
    assert _poisson_quantile(1000.0, 0.99) == pytest.approx(_poisson_quantile(1000.1, 0.99), abs=2)
