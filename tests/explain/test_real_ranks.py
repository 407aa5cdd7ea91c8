"""Eight ranks of one real job (DLRM on V100, from PyTorch's PARAM): one step of each."""

from pathlib import Path

import numpy as np
import pytest

from syncwall.explain.matching import aligned, matched
from syncwall.explain.pool import summaries
from syncwall.explain.ranks import explain_ranks

TRACES = Path(__file__).parents[3] / "shared" / "data" / "measured" / "04_traces"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="needs the traces in ../shared")


@pytest.fixture(scope="module")
def ranks():
    return summaries(sorted(TRACES.glob("param_v100_dlrm_rank?of8.json.gz")), workers=1).ranks


def test_collectives_of_eight_real_ranks_end_together_within_10_us(ranks):
    """Five all-to-alls and three all-reduces, without numbers or names of groups."""
    (block,) = matched(ranks)
    assert block.start_s.shape == (8, 8)
    assert block.kinds.count("all-reduce") == 3
    end_s = aligned([block], 8).end_s(block)
    assert float(np.ptp(end_s, axis=1).max()) < 1e-5


def test_of_a_single_step_that_ranks_began_at_different_times_no_cause_is_named(ranks):
    verdict = explain_ranks(ranks)
    assert verdict.kind == "unexplained"
    assert verdict.explained < 0.8
    assert verdict.ranks == (7,)  # the last to begin: it waits least
    assert int(np.argmin(verdict.skew.wait_s.sum(axis=0))) == 7
