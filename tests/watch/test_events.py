"""What is known of a live run survives JSON, and every cause has its line."""

import pytest

from syncwall.cause import Cause
from syncwall.watch.events import (
    Finding,
    FindingKind,
    Group,
    NodeReport,
    Process,
    RankState,
    StepRecord,
    StepWindow,
    from_json,
    group_of,
    grouped,
    to_json,
)

SECONDS = {
    Cause.FORWARD: 0.5,
    Cause.EXPOSED_DP: 0.25,
    Cause.IDLE_DATA: 0.125,
    Cause.CHECKPOINT: 1.0,
}


def test_every_cause_has_a_line():
    assert {group_of(cause) for cause in Cause} == set(Group)
    assert group_of(Cause.GEMM) is group_of(Cause.OPTIMIZER) is Group.COMPUTE
    assert group_of(Cause.HOST) is Group.COMPUTE  # phases have such gaps in them
    assert group_of(Cause.REST) is Group.IDLE
    assert group_of(Cause.EXPOSED_ALL_GATHER) is group_of(Cause.BUBBLE) is Group.COMMUNICATION
    assert list(grouped(SECONDS)) == [
        Group.COMPUTE,
        Group.COMMUNICATION,
        Group.DATA,
        Group.CHECKPOINT,
    ]


def test_own_time_leaves_out_others_and_checkpoints():
    assert StepRecord(0, 1, 1e9, 1.875, SECONDS).own_s == 0.625


def test_reports_survive_json():
    state = RankState(1, "a", 12, Process.STOPPED, "data", 2.0, step=4, changed_s=3.5)
    window = StepWindow(1, 0, 25, None, 0.5, {Cause.EXPOSED_DP: 0.25}, 9.0)
    report = NodeReport("a", 0, 3, 1.5, (state,), (window,), 4, ("no NCCL here",))
    assert from_json(NodeReport, to_json(report)) == report
    finding = Finding(FindingKind.HUNG, 1, "a", 2.0, "no mark for 3 s", also=(2,))
    assert from_json(Finding, to_json(finding)) == finding
    with pytest.raises(ValueError, match="validation error"):
        from_json(NodeReport, b"{}")
