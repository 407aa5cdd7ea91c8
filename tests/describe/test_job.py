from pathlib import Path

import pytest
from pydantic import ValidationError

from syncwall.describe import Job, Layout, Run
from syncwall.describe.reading import read
from tests.describe.samples import cluster, model

RUN = Run(model=model(), cluster=cluster(), layout=Layout(global_batch=8))


def test_the_last_step_may_be_a_part_of_one():
    assert Job(run=RUN, tokens=8 * 4096 * 10).total_steps == 10
    assert Job(run=RUN, tokens=8 * 4096 * 10 + 1).total_steps == 11
    assert Job(run=RUN, steps=7).total_steps == 7


@pytest.mark.parametrize("length", [{}, {"tokens": 5, "steps": 5}])
def test_a_job_has_one_length(length):
    with pytest.raises(ValidationError, match="either `tokens` or `steps`"):
        Job(run=RUN, **length)


def test_a_job_is_read_from_a_file(tmp_path: Path):
    (tmp_path / "job.yaml").write_text(
        "run: {model: llama-3.1-8b, cluster: dgx-h100, nodes: 16}\n"
        "tokens: 15T tokens\n"
        "price: $2.99/GPU-hour\n"
        "start: 2026-12-01T08:00:00\n"
        "checkpoints: {interval: 30 min, storage: 100 GB/s}\n"
        "failures: {per_1000_node_days: 3.8, detection: 1 min, restart: 5 min}\n"
    )
    job = read(tmp_path / "job.yaml", Job)
    assert job.tokens == 15e12
    assert job.price_usd_per_gpu_hour == 2.99
    assert job.checkpoints is not None
    assert job.checkpoints.interval_s == 1800
