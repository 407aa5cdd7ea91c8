"""Several ranks together: made-up jobs, and a real one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncwall.explain.traces.job_traces import summaries
from syncwall.explain.traces.matching import aligned, matched
from syncwall.explain.traces.rank import KINDS, rank_summary
from syncwall.explain.traces.rank_comparison import RanksVerdict, explain_ranks
from syncwall.problems import InputError
from tests.explain.traces.job import Job
from tests.read.traces import MEASURED, needs_traces


def verdict(job: Job, **options: float) -> RanksVerdict:
    return explain_ranks([rank_summary(trace) for trace in job.traces()], **options)


def test_a_rank_s_seconds_add_up_to_its_steps():
    summary = rank_summary(Job(loading={0: 0.01}, collecting={0: 0.03}).traces()[0])
    assert summary.own_s.sum(axis=1) == pytest.approx(summary.step_s)
    means = dict(zip(KINDS, summary.own_s.mean(axis=0), strict=True))
    assert means["data"] == pytest.approx(0.012, rel=1e-3)
    assert means["gc"] == pytest.approx(0.03, rel=1e-3)
    assert means["communication"] == pytest.approx(0.01, rel=0.01)


def test_nothing_wrong_is_clean():
    found = verdict(Job())
    assert (found.kind, found.ranks, found.lost_s) == ("clean", (), 0.0)


@settings(max_examples=40, deadline=None)
@given(
    late=st.integers(0, 3),
    factor=st.floats(1.15, 4.0),
    clocks=st.lists(st.floats(-100, 100), min_size=4, max_size=4),
    seed=st.integers(0, 1000),
)
def test_the_rank_that_arrives_last_is_named_whatever_the_clocks_show(late, factor, clocks, seed):
    offsets = dict(enumerate(clocks))
    found = verdict(Job(slower={late: factor}, offset_s=offsets, seed=seed))
    assert (found.kind, found.ranks) == ("slow worker", (late,))
    assert found.lost_s == pytest.approx(0.1 * (factor - 1), rel=0.15)
    assert found.skew.wait_s[:, late].mean() < 0.2 * found.lost_s  # it does not wait itself
    assert int(np.argmax(found.skew.lateness_s)) == late


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"loading": {2: 0.05}}, "slow data loader"),
        ({"collecting": {2: 0.05}}, "garbage collection"),
        ({"more_pieces": {2: 4}}, "uneven work"),
    ],
)
def test_what_the_late_rank_did_more_of_is_named(fault, kind):
    found = verdict(Job(**fault))
    assert (found.kind, found.ranks, found.hosts) == (kind, (2,), ("h1",))
    assert found.explained > 0.9


def test_more_work_on_a_rank_that_sends_to_others_is_an_uneven_stage():
    ranks = [rank_summary(trace) for trace in Job(more_pieces={2: 4}).traces()]
    staged = [replace(one, kinds=(*one.kinds, "send-receive")) for one in ranks]
    assert explain_ranks(staged).kind == "uneven stages"


def test_two_causes_of_equal_weight_are_not_named():
    found = verdict(Job(loading={1: 0.03}, collecting={1: 0.03}))
    assert (found.kind, found.ranks) == ("unexplained", (1,))
    assert found.explained == pytest.approx(0.5, abs=0.05)


def test_ranks_of_a_host_that_are_late_in_turn_are_named_together():
    found = verdict(Job(in_turn=(2, 3), steps=9))
    assert (found.kind, found.ranks, found.hosts) == ("slow worker", (2, 3), ("h1",))


def test_waiting_for_a_different_rank_each_time_blames_nobody():
    found = verdict(Job(in_turn=(0, 1, 2, 3)))
    assert (found.kind, found.ranks) == ("unexplained", ())


def test_a_loader_that_is_slow_everywhere_is_named_without_a_rank():
    found = verdict(Job(loading=dict.fromkeys(range(4), 0.05)))
    assert (found.kind, found.ranks) == ("slow data loader", ())
    assert found.lost_s == pytest.approx(0.052, rel=0.05)


def test_a_link_is_slow_only_against_what_it_should_be():
    slow = Job(transfer_s=0.3)  # 1.5 * 10 MB in 0.3 s: 50 MB/s
    assert verdict(slow).kind == "communication-bound"
    assert verdict(slow, link_bytes_per_s=60e6).kind == "clean"
    found = verdict(slow, link_bytes_per_s=125e6)
    assert (found.kind, found.hosts) == ("slow link", ("h0", "h1"))
    assert found.rate is not None
    assert found.rate.bytes_per_s == pytest.approx(50e6, rel=0.02)
    assert found.lost_s == pytest.approx(0.3 * (1 - 50 / 125), rel=0.05)


def test_transfers_that_could_be_hidden_are_told_from_small_ones():
    assert verdict(Job(transfer_s=0.08)).kind == "no overlap"
    many = Job(transfer_s=0.08, meetings=20, size_bytes=5e4)
    found = verdict(many)
    assert found.kind == "small collectives"
    assert "bucket" in found.next
    assert verdict(many, link_bytes_per_s=1e9).kind == "small collectives"
    assert verdict(Job(transfer_s=0.01, meetings=20, size_bytes=5e4)).kind == "clean"


def test_a_slow_worker_on_a_slow_link_is_the_first_to_mend():
    job = Job(transfer_s=0.3, slower={1: 3.0})
    assert verdict(job, link_bytes_per_s=125e6).kind == "slow worker"


def test_clocks_are_brought_together():
    job = Job(offset_s={1: 3.0, 2: -0.5}, drift={3: 40e-6}, steps=40, noise=0)
    blocks = matched([rank_summary(trace) for trace in job.traces()])
    clocks = aligned(blocks, 4)
    assert clocks.offset_s[1] - clocks.offset_s[0] == pytest.approx(3.0, abs=1e-5)
    assert clocks.drift[3] == pytest.approx(40e-6, rel=0.05)
    ends = clocks.end_s(blocks[0])
    assert np.ptp(ends, axis=1).max() < 5e-5


def test_a_rank_that_recorded_one_step_more_is_matched_by_steps():
    found = verdict(Job(slower={3: 1.5}, extra_first=(0,)))
    assert (found.kind, found.ranks) == ("slow worker", (3,))
    assert len(found.skew.wait_s) == 8


def test_one_rank_alone_and_none():
    alone = verdict(Job(ranks=1, loading={0: 0.1}))
    assert alone.kind == "slow data loader"
    with pytest.raises(InputError, match="no rank"):
        explain_ranks([])


def test_ranks_without_a_common_step_are_refused():
    traces = [Job().traces()[0], Job(steps=3).traces()[1]]
    short = rank_summary(traces[1])
    long = rank_summary(traces[0])
    other = replace(long, step_numbers=long.step_numbers + 100)
    with pytest.raises(InputError, match="no step in common"):
        explain_ranks([other, short])


@pytest.fixture(scope="module")
def dlrm():
    """Eight ranks of one real job (DLRM on V100, from PyTorch's PARAM): one step of each."""
    return summaries(sorted(MEASURED.glob("param_v100_dlrm_rank?of8.json.gz")), workers=1).ranks


@needs_traces
def test_collectives_of_eight_real_ranks_end_together_within_10_us(dlrm):
    """Five all-to-alls and three all-reduces, without numbers or names of groups."""
    (block,) = matched(dlrm)
    assert block.start_s.shape == (8, 8)
    assert block.kinds.count("all-reduce") == 3
    end_s = aligned([block], 8).end_s(block)
    assert float(np.ptp(end_s, axis=1).max()) < 1e-5


@needs_traces
def test_of_a_single_step_that_ranks_began_at_different_times_no_cause_is_named(dlrm):
    found = explain_ranks(dlrm)
    assert found.kind == "unexplained"
    assert found.explained < 0.8
    assert found.ranks == (7,)  # the last to begin: it waits least
    assert int(np.argmin(found.skew.wait_s.sum(axis=0))) == 7
