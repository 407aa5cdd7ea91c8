import json
from datetime import datetime
from typing import Any

import numpy as np
import pytest

import syncwall as sw
from syncwall.cause import Cause
from syncwall.job import settled_job
from syncwall.job.bill import usual_price
from syncwall.job.completion import finish, job_changes
from syncwall.job.job_plan import DAY_S
from syncwall.job.settled_job import job_plan

RUN = sw.Run(
    model="llama-3.1-8b",
    cluster=sw.cluster("dgx-h100", nodes=64),
    layout=sw.Layout(shard="fsdp", global_batch=1024),
)
PREDICTION = sw.predict(RUN)
RACKS = sw.Run(
    model="llama-3.1-70b",
    cluster=sw.cluster("gb200-nvl72", nodes=72),
    layout=sw.Layout(tp=4, shard="fsdp", global_batch=576),
)


def job(**fields: Any) -> sw.Job:
    return sw.Job(run=RUN, **({"tokens": 2e12, "simulations": 300} | fields))


def test_tokens_alone_are_enough():
    done = finish(job(), PREDICTION)
    low, middle, high = done.finish_s
    assert low < middle < high
    assert middle > done.job.total_steps * PREDICTION.step_s * 0.98
    assert 0.9 < done.effective < 1
    assert done.cost_usd is not None
    assert done.energy_j is not None
    assert {i.trust for i in done.inputs} >= {"assumed", "computed", "fitted"}


@pytest.mark.parametrize("nodes", [1, 2])
def test_one_step_ends_however_long_its_checkpoint_takes(nodes):
    """One token is one step, whose checkpoint takes many times as long: no reason to give it up."""
    run = sw.Run(
        model="llama-3.1-8b", cluster="dgx-h100", nodes=nodes, layout=sw.Layout(shard="fsdp", global_batch=16)
    )
    done = finish(sw.Job(run=run, tokens=1, simulations=200))
    assert done.settled.plan.blocking_s > 5 * done.settled.plan.work_s
    assert done.finished_share == 1
    assert "1 step," in str(done.view().blocks)


def test_the_mean_ledger_adds_up_to_the_mean():
    done = finish(job(), PREDICTION)
    assert done.ledger.total == pytest.approx(float(np.mean(done.outcome.finish_s)), rel=1e-12)


def test_without_failures_only_the_step_is_uncertain():
    done = finish(job(failures={"per_1000_node_days": 0.0}), PREDICTION)
    assert done.finish_s[1] == pytest.approx(done.settled.plan.work_s, rel=0.02)
    assert done.interruptions == (0, 0, 0)
    assert done.finish_s[2] / done.finish_s[1] == pytest.approx(
        PREDICTION.step_interval_s[1] / PREDICTION.step_s, rel=0.03
    )


def test_a_checkpoint_has_weights_and_optimizer_states():
    """BLOOM-176B: 2.3 TB (ml-engineering, fault tolerance); 14 bytes a parameter are 2.47 TB."""
    run = sw.Run(
        model="bloom-176b",
        cluster=sw.cluster("dgx-a100", nodes=48),
        layout=sw.Layout(tp=4, pp=12, shard="zero1", global_batch=2048),
        seq=2048,
    )
    size = job_plan(sw.Job(run=run, steps=10), sw.predict(run)).checkpoint_bytes
    assert size == pytest.approx(2.3e12, rel=0.1)


def test_dates_follow_the_start():
    done = finish(job(start=datetime(2026, 12, 1)), PREDICTION)
    assert done.finish_dates is not None
    first = done.finish_dates[0]
    assert first is not None
    assert (first - datetime(2026, 12, 1)).total_seconds() == pytest.approx(done.finish_s[0])


def test_spares_are_paid_too():
    few, many = (finish(job(spare_nodes=n, price_usd_per_gpu_hour=2.0), PREDICTION) for n in (1, 9))
    assert many.bill.gpus - few.bill.gpus == 64
    assert few.cost_usd is not None
    hours = few.finish_s[1] / 3600
    assert few.cost_usd[1] == pytest.approx(2.0 * 65 * 8 * hours)


def test_energy_is_power_times_time():
    power = {"load": 0.5, "host": 0.0, "pue": 1.0}
    done = finish(job(power=power, spare_nodes=0), PREDICTION)
    assert done.energy_j is not None
    assert done.energy_j[1] == pytest.approx(350.0 * 512 * done.finish_s[1])


def test_the_price_of_the_machine_itself_comes_first():
    own = usual_price(sw.cluster("oci-h100"))
    assert own is not None
    assert own[0] == 10.0
    assert own[1].startswith("oci")
    usual = usual_price(sw.cluster("dgx-h100"))
    assert usual is not None
    assert 3 < usual[0] < 10


def test_one_gpu_of_a_rack_takes_its_tray_unless_the_rack_is_said():
    assert job_plan(sw.Job(run=RACKS, steps=1000), sw.predict(RACKS)).domain_nodes == 1
    rack = sw.Job(run=RACKS, steps=1000, failures={"domain_gpus": 72})
    whole = job_plan(rack, sw.predict(RACKS))
    assert whole.domain_nodes == 18
    assert whole.plan.spares % 18 == 0


def test_smaller_domains_need_fewer_spares():
    whole: dict[str, Any] = {"domain_gpus": 72}
    job = sw.Job(run=RACKS, tokens=3e12, simulations=200, price_usd_per_gpu_hour=5.0, failures=whole)
    done = finish(job)
    found = {change.what: change for change in job_changes(done)}
    smaller = next(change for what, change in found.items() if "domain_gpus" in what)
    assert smaller.completion.settled.plan.spares < done.settled.plan.spares
    assert smaller.saved_usd is not None
    assert smaller.saved_usd > 0


def test_what_goes_along_with_the_work_is_counted():
    parts: dict[str, Any] = {
        "evaluation": {"every": 100, "time_s": 60.0},
        "data_stall": 0.03,
        "stragglers": {"per_1000_node_days": 5.0, "slowdown": 1.3, "time_s": 4000.0},
        "maintenance": {"every_s": 7 * DAY_S, "time_s": 3600.0},
        "spikes": {"per_1000_steps": 0.1, "rollback": 100},
    }
    plan = job_plan(job(**parts), PREDICTION).plan
    assert plan.beside[Cause.EVALUATION] == pytest.approx(60 / (100 * PREDICTION.step_s))
    assert plan.beside[Cause.DATA_LOADING] == 0.03
    present = 1 - np.exp(-5 / 1000 * 64 * 4000 / DAY_S)
    assert plan.beside[Cause.STRAGGLERS] == pytest.approx(0.3 * present)
    assert plan.beside[Cause.MAINTENANCE] > 3600 / (7 * DAY_S)
    assert plan.causes[-1].rollback_s == pytest.approx(100 * PREDICTION.step_s)
    assert finish(job(**parts), PREDICTION).finish_s[1] > finish(job(), PREDICTION).finish_s[1]


def test_the_best_interval_is_in_whole_steps_and_near_young():
    done = finish(job(), PREDICTION)
    steps = done.settled.best_interval_s / PREDICTION.step_s
    assert steps == pytest.approx(round(steps))
    assert done.settled.best_interval_s == pytest.approx(done.young_s, rel=0.05)
    assert done.settled.best_interval_s == pytest.approx(done.daly_s, rel=0.01)


def test_changes_are_computed_again_and_sorted():
    done = finish(job(checkpoints={"interval_s": 6 * 3600.0}), PREDICTION)
    found = job_changes(done)
    assert [c.gained_s for c in found] == sorted((c.gained_s for c in found), reverse=True)
    best = next(c for c in found if c.what == "checkpoints.interval best")
    assert best.completion.settled.plan.interval_s < 6 * 3600
    assert best.gained_s > 0
    quick = next(c for c in found if c.what.startswith("failures.detection"))
    assert quick.completion.settled.plan.detection_s == settled_job.QUICK_DETECTION_S


def test_what_was_measured_goes_before_what_is_predicted_and_can_be_changed():
    known = {"step_s": 3.0, "checkpoint_s": 20.0, "restart_s": 90.0}
    done = finish(job(measured=known), PREDICTION)
    plan = done.settled.plan
    assert plan.work_s == 3.0 * done.job.total_steps
    assert (plan.step_deviation, plan.detection_s) == (0.0, 0.0)
    assert (plan.blocking_s, plan.restart_s, plan.startup_s) == (20.0, 90.0, 90.0)
    plans = {one.what: one.completion.settled.plan for one in job_changes(done)}
    assert plans["storage 4 times as fast"].blocking_s == pytest.approx(5.0)
    assert plans["restart in half the time"].restart_s == 45.0
    assert plans["checkpoints.blocking false"].blocking_s < 5.0
    assert all(one.work_s == plan.work_s for one in plans.values())


def test_without_failures_nothing_is_proposed():
    assert job_changes(finish(job(failures={"per_1000_node_days": 0.0}), PREDICTION)) == []


def test_a_job_that_cannot_finish_says_so_and_is_still_json():
    done = finish(job(failures={"per_1000_node_days": 40_000.0}), PREDICTION)
    assert done.finish_s[1] == float("inf")
    assert done.finished_share == 0
    assert json.loads(json.dumps(done.to_dict()))["job"]["finish_s"] == [None, None, None]


def test_the_public_name_predicts_by_itself():
    assert sw.finish(job()).finish_s == finish(job(), PREDICTION).finish_s
