"""Run files that say how fast the run was, beside their predictions."""

import pytest

import syncwall as sw
from syncwall.problems import InputError

RUN = """\
model: llama-3.1-8b
cluster: dgx-h100
nodes: {nodes}
layout: {{shard: fsdp, micro_batch: 1, global_batch: 128, recompute: none}}
"""


@pytest.fixture
def folder(tmp_path):
    for nodes, speed in ((4, "7000 tok/s/gpu"), (2, "38% mfu")):
        text = RUN.format(nodes=nodes) + f"measured: {speed}\n"
        (tmp_path / f"nodes-{nodes}.yaml").write_text(text)
    (tmp_path / "other.yaml").write_text(RUN.format(nodes=8))
    return tmp_path


def test_times_are_those_of_predict_and_of_the_file(folder):
    report = sw.validate(folder)
    assert (report.rows, len(report.outcomes)) == (2, 2)
    for one in report.outcomes:
        found = sw.predict(folder / f"{one.case.row.id}.yaml")
        assert found.run.measured is not None
        assert one.step_s == pytest.approx(found.step_s)
        assert one.case.measured_s == pytest.approx(found.seconds_of(found.run.measured))
        assert one.ratio == pytest.approx(1 / sw.gap(found, found.run.measured).ratio)
    assert "nodes-4" in str(report)


def test_one_file_is_enough_and_must_say_it(folder):
    assert len(sw.validate(folder / "nodes-4.yaml").outcomes) == 1
    with pytest.raises(InputError, match='"measured" is missing'):
        sw.validate(folder / "other.yaml")
