from typing import Any

import pytest

from syncwall.cause import Cause
from syncwall.cost.measured import MachineMeasurements
from syncwall.lab.closed_loop import calibration_jobs, forecast_of, step_settings
from syncwall.lab.comparison import LabComparison, predicted_steps
from syncwall.lab.experiment import LabJob
from syncwall.lab.experiment_run import LabRecord
from syncwall.lab.virtual_network import Topology
from syncwall.measure.result import Result
from syncwall.problems import InputError


def job(shard: str = "ddp", **flags: Any) -> LabJob:
    return LabJob(measure="step", flags={"model": "tiny-5m", "shard": shard, **flags})


def measured(**updates: Any) -> MachineMeasurements:
    gemm = [{"m": 512.0, "n": 512.0, "k": 256.0, "dtype": "fp32", "seconds": 0.002}]
    norm = [{"kind": "norm", "bytes": 1e6, "seconds": 0.0004}]
    tables = [
        {"kind": kind, "ranks": 4, "nodes": nodes, "points": [[1e6, 0.1 * nodes]]}
        for kind in ("all-reduce", "all-gather", "reduce-scatter")
        for nodes in (1, 2, 4)
    ]
    base = {"gemm": gemm, "elementwise": norm, "collectives": tables}
    return MachineMeasurements.model_validate(base | updates)


def record(place: str, measured_s: float, predicted_s: float, *, spread: float = 0.01) -> LabRecord:
    hosts, workers = map(int, place.split("x"))
    low, high = (measured_s * (1 + way * spread) for way in (-1, 1))
    times = {
        "median_s": measured_s,
        "mean_s": measured_s,
        "p10_s": low,
        "p90_s": high,
        "worst_s": high,
        "trials": 5,
    }
    data = {
        "times": times,
        "ledger_s": {"forward": measured_s},
        "ranks": [],
        "tokens_per_s": 1.0,
        "model_flop_per_s": 1.0,
        "matmul_flop_per_s": 1.0,
    }
    facts = {"backend": "gloo", "device": "cpu", "hosts": ["h0"]}
    result = {"kind": "step", "job": facts, "hosts": [], "data": data}
    return LabRecord(
        topology=Topology(hosts=hosts, workers=workers, rate_bytes_per_s=12.5e6),
        job=job(),
        seconds=1.0,
        result=Result.model_validate(result),
        predicted={"step_s": predicted_s, "ledger_s": {"GEMM": predicted_s}},
    )


def table(*rows: tuple[str, float, float]) -> LabComparison:
    return predicted_steps([record(*row) for row in rows])


def test_errors_and_the_worst():
    found = table(("1x4", 1.0, 1.1), ("2x2", 2.0, 1.6))
    assert found.mean_error == pytest.approx(0.15)
    assert found.worst.place == "2x2"
    assert found.rows[0].ledgers()["compute"] == (1.0, 1.1)


def test_the_order_of_places_is_checked_with_the_place_that_has_no_links():
    right = table(("1x4", 1.0, 1.1), ("2x2", 2.0, 2.2), ("4x1", 3.0, 3.1)).orders()
    assert [order.is_right for order in right] == [True]
    wrong = table(("1x4", 1.0, 1.1), ("2x2", 2.0, 3.2), ("4x1", 3.0, 3.1)).orders()
    assert [order.is_right for order in wrong] == [False]


def test_places_whose_steps_overlap_may_come_in_either_order():
    rows = [record("2x2", 1.00, 1.02, spread=0.05), record("4x1", 1.01, 1.00, spread=0.05)]
    (order,) = predicted_steps(rows).orders()
    assert order.predicted == ("4x1", "2x2")
    assert order.is_right


def test_places_closer_than_two_runs_of_one_are_a_tie():
    rows = [record("2x2", 1.00, 1.02, spread=0.001), record("4x1", 1.03, 1.00, spread=0.001)]
    assert [order.is_right for order in predicted_steps(rows).orders()] == [True]
    rows[1] = record("4x1", 1.06, 1.00, spread=0.001)
    assert [order.is_right for order in predicted_steps(rows).orders()] == [False]


def test_slower_links_are_predicted_slower():
    steps = [
        forecast_of(job(shard), Topology(hosts=hosts, workers=4 // hosts), measured()).step_s
        for shard in ("ddp", "fsdp")
        for hosts in (1, 2, 4)
    ]
    assert steps[0] < steps[1] < steps[2]
    assert steps[3] < steps[4] < steps[5]


def test_fsdp_on_cpus_waits_for_every_collective():
    """Two gathers and a scatter of six parts, each with a message of its own."""
    point = [[1.0, 1.0], [1e12, 1.0000001]]  # a second each, whatever the size
    tables = [
        {"kind": kind, "ranks": 4, "nodes": 4, "points": point} for kind in ("all-gather", "reduce-scatter")
    ]
    forecast = forecast_of(job("fsdp"), Topology(hosts=4), measured(collectives=tables))
    waiting = forecast.ledger_s[Cause.EXPOSED_GATHER] + forecast.ledger_s[Cause.EXPOSED_DP]
    assert waiting == pytest.approx(18.0, rel=1e-3)


def test_calibration_covers_the_steps():
    kernels, collectives = calibration_jobs([job(), job("fsdp", model="tiny-15m")])
    assert kernels.flags["model"] == ("tiny-5m", "tiny-15m")
    assert collectives.flags["kinds"] == "all-reduce,all-gather,reduce-scatter"


def test_an_experiment_without_steps_cannot_be_predicted():
    with pytest.raises(InputError, match="no job `measure: step`"):
        calibration_jobs([LabJob(measure="links")])
    with pytest.raises(InputError, match="the same seq"):
        calibration_jobs([job(seq=64), job(seq=128)])


def test_flags_are_read_as_the_command_line_reads_them():
    settings = step_settings(job("ddp", bucket="4MiB", micro_batch=2))
    assert (settings.bucket_bytes, settings.micro_batch, settings.seq) == (4 * 2**20, 2, 128)
