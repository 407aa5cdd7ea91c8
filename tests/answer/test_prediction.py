import json
from pathlib import Path
from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.improvements import improvements
from syncwall.describe import Layout, Run


def run(nodes: Any = 16, model: Any = "llama-3.1-8b", cluster: Any = "dgx-h100", **layout) -> Run:
    return Run(model=model, cluster=cluster, nodes=nodes, layout=Layout.model_validate(layout))


FSDP: dict[str, Any] = {"shard": "fsdp", "global_batch": 512}


def test_a_prediction_answers_the_first_questions():
    found = sw.predict(run(**FSDP))
    assert found.step_interval_s[0] < found.step_s < found.step_interval_s[1]
    assert found.tokens_per_s_per_gpu * 128 * found.step_s == pytest.approx(512 * 8192)
    assert found.fits
    assert found.verdict.kind == "compute"
    assert "compute-bound" in str(found.verdict)
    assert "MFU" in found._repr_html_()
    assert json.dumps(found.to_dict())


def test_a_slow_network_is_called_a_bottleneck():
    found = sw.predict(run(model="llama-2-13b", cluster="gcp-a2", nodes=8, shard="fsdp"))
    assert found.verdict.kind == "communication"
    assert found.verdict.share == pytest.approx(found.exposed_s / found.step_s)
    assert "comms is a bottleneck" in found.verdict.text


def test_what_does_not_fit_says_so():
    found = sw.predict(run(model="llama-3.1-70b", nodes=1, shard="fsdp"))
    assert not found.fits
    assert found.verdict.kind == "does not fit"
    assert found.verdict.share > 1
    assert found.verdict.text.startswith("does not fit")


def test_an_uncalibrated_device_has_a_wider_interval():
    known, unknown = sw.predict(run(**FSDP)), sw.predict(run(cluster="mi300x-8", **FSDP))
    width = [p.step_interval_s[1] / p.step_interval_s[0] for p in (known, unknown)]
    assert width[1] > width[0]


def test_proposals_are_predictions_that_come_true():
    first = sw.predict(
        run(model="llama-3.1-70b", nodes=8, tp=8, pp=2, shard="zero1", global_batch=128, recompute="full")
    )
    found = improvements(first)
    assert 1 <= len(found) <= 3
    for proposal in found:
        again = sw.predict(proposal.run)
        assert first.step_s - again.step_s == pytest.approx(proposal.gained_s)
        assert again.fits


def test_a_million_gpus_cost_the_same_as_eight():
    small, large = run(1, shard="fsdp"), run(125_000, tp=8, shard="fsdp", shard_degree=125)
    assert sw.predict(large).run.gpus == 1_000_000
    assert len(sw.predict(large).work.stages) == len(sw.predict(small).work.stages)


def test_intervals_of_a_stream_do_not_overlap(tmp_path: Path):
    found = sw.predict(run(tp=2, sp=True, **FSDP))
    streams: dict[str, float] = {}
    for interval in sorted(found.timeline().intervals, key=lambda i: i.start_s):
        assert interval.start_s >= streams.get(interval.stream, 0.0) - 1e-12
        streams[interval.stream] = interval.end_s
    assert {"compute", "gather", "reduce", "tensor"} <= set(streams)
    found.timeline().save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}


def test_another_network_can_answer():
    class Instant:
        def collective_seconds(self, collective):
            return 0.0

        def transfer_seconds(self, transfer):
            return 0.0

    assert sw.predict(run(**FSDP), network=Instant()).exposed_s == 0


def test_meeting_every_hundredth_step_costs_a_hundredth():
    slow: dict[str, Any] = {"model": "llama-2-13b", "cluster": "gcp-a2", "nodes": 8}
    every = sw.predict(run(**slow, shard="ddp")).ledger["exposed DP"]
    seldom = sw.predict(run(**slow, shard="ddp", outer_every=100)).ledger["exposed DP"]
    assert seldom < every / 50


def test_a_run_file_is_predicted_by_its_path():
    path = "examples/llama-70b-on-dgx-h100.yaml"
    assert sw.predict(path).step_s == sw.predict(sw.run(path)).step_s


def test_what_is_no_run_is_refused_with_how_to_make_one():
    no_run: Any = {"model": "llama-3.1-8b"}
    with pytest.raises(TypeError, match=r"predict takes a run, not a dict: make one with sw\.Run"):
        sw.predict(no_run)
