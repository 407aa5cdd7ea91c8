"""The same call on a real Ray with two workers, on this machine."""

import pytest

from syncwall.explain.traces.job_traces import summaries, trace_files
from syncwall.explain.traces.rank_comparison import explain_ranks
from syncwall.problems import InputError
from tests.explain.traces.job import Job, written

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def ray():
    module = pytest.importorskip("ray", reason="ray is not installed")
    yield module
    module.shutdown()


@pytest.fixture
def folder(tmp_path):
    for trace in Job(slower={1: 1.4}, steps=4, ranks=8).traces():
        written(trace, tmp_path / f"rank{trace.rank}.json.gz")
    return tmp_path


def test_two_workers_of_a_cluster_read_all_ranks(ray, folder):
    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    address = context.address_info["address"]
    told = []
    paths = trace_files(folder)
    found = summaries(paths, ray=address, progress=lambda done, total: told.append(done))
    assert told == list(range(1, 9))
    verdict = explain_ranks(found.ranks)
    assert (verdict.kind, verdict.ranks) == ("slow worker", (1,))
    local = explain_ranks(summaries(paths, workers=1).ranks)
    assert verdict.lost_s == pytest.approx(local.lost_s)


def test_a_cluster_that_is_not_there_is_said_in_one_line(ray, folder):
    with pytest.raises(InputError, match="no Ray cluster"):
        summaries(trace_files(folder), ray="127.0.0.1:1")
