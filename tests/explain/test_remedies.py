"""What helps against a verdict is what the predictor says of the changed run."""

import pytest

import syncwall as sw
from syncwall.explain.remedies import REMEDIES, remedies

RUN = sw.Run(
    model="llama-3.1-8b",
    cluster="dgx-h100",
    nodes=2,
    layout=sw.Layout(
        shard="fsdp",
        micro_batch=1,
        global_batch=64,
        recompute="full",
        overlap_gradients=False,
        overlap_parameters=False,
    ),
    software=sw.Software(framework="torchtitan", kernels="eager"),
)


@pytest.mark.parametrize("kind", REMEDIES)
def test_a_remedy_is_the_prediction_of_the_changed_run(kind):
    before = sw.predict(RUN)
    for one in remedies(before, kind):
        after = sw.predict(one.run)
        assert before.step_s - after.step_s == pytest.approx(one.gained_s, abs=1e-9)
        assert one.gained_s > 0
        assert after.fits


def test_a_host_that_launches_too_late_is_helped_by_fewer_kernels():
    said = [one.change for one in remedies(sw.predict(RUN), "host-bound")]
    assert any(words.startswith("kernels fused") for words in said), said


def test_overlap_is_what_helps_where_there_is_none():
    said = [one.change.split()[0] for one in remedies(sw.predict(RUN), "no overlap")]
    assert said[0] in ("overlap_gradients", "overlap_parameters")


def test_buckets_of_one_mebibyte_are_made_larger():
    layout = sw.Layout(shard="ddp", global_batch=16, bucket_bytes=2**20)
    run = sw.Run(model="llama-3.2-1b", cluster="dgx-h100", nodes=2, seq=4096, layout=layout)
    said = [one.change for one in remedies(sw.predict(run), "small collectives")]
    assert "bucket_bytes 25 MiB" in said


def test_a_sick_host_has_no_remedy_of_settings():
    assert remedies(sw.predict(RUN), "slow worker") == ()
