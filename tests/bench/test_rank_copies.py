"""Many ranks out of one real trace: the one that was made slow is found."""

from pathlib import Path

import pytest

from syncwall.explain.traces.job_traces import summaries, trace_files
from syncwall.explain.traces.rank_comparison import explain_ranks
from tests.explain.traces.rank_copies import Copies

TRACES = Path(__file__).parents[3] / "shared" / "data" / "measured" / "04_traces"
RANKS, SLOW = 6, 4


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces in ../shared")
@pytest.mark.parametrize("name", ["hta_a100_ddp_resnet_rank0of2_ncclmeta", "hta_a100_rank3of8_control"])
def test_the_slow_copy_is_named_whatever_the_clocks_show(name, tmp_path):
    copies = Copies.of(TRACES / f"{name}.json.gz", RANKS, SLOW)
    meetings = copies.meetings()
    for rank in range(RANKS):
        copies.write(tmp_path, rank, meetings)
    found = summaries(trace_files(tmp_path), workers=1)
    assert not found.problems
    verdict = explain_ranks(found.ranks)
    assert (verdict.kind, verdict.ranks) == ("slow worker", (SLOW,))
    assert 0.05 < verdict.share < 0.10
