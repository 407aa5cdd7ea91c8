"""Findings are kept as long as they hold, and a busy host for a while after."""

from dataclasses import replace

from syncwall.cause import Cause
from syncwall.watch.cores import HostLoad
from syncwall.watch.events import FindingKind, NodeReport, Process, RankState, StepWindow
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS

NOW_S = 1000.0


def window(rank: int, first: int, waited_s: float) -> StepWindow:
    own_s = 0.02 + waited_s
    seconds = {Cause.FORWARD: own_s, Cause.EXPOSED_DP: 0.01}
    return StepWindow(rank, first, 25, own_s, 0.04, seconds, NOW_S + first, "a", waited_s)


def report(number: int, waited_s: float) -> NodeReport:
    now_s = NOW_S + 100 * number
    ranks = tuple(RankState(rank, "a", rank, Process.RUNNING, "forward", now_s) for rank in range(2))
    windows = tuple(window(rank, 25 * number, waited_s if rank else 0.0) for rank in range(2))
    return NodeReport("a", 0, number, NOW_S, ranks, windows, world=2, host=HostLoad(2, 7, 0.9))


def test_a_host_whose_load_comes_and_goes_is_told_once_and_for_a_minute(tmp_path):
    judged = Findings(tmp_path, THRESHOLDS)
    waits = [0.008] * 3 + [0.0] * 2 + [0.008] * 4
    for number, waited_s in enumerate(waits):
        held, _ = judged.round((report(number, waited_s),), {"a": 0.0}, NOW_S + number)
    assert [(one.kind, one.node, one.also) for one in judged.history] == [(FindingKind.HOST_BUSY, "a", (1,))]
    assert held == judged.held == tuple(judged.history)
    for number in range(9, 13):
        quiet = replace(report(number, 0.0), host=None)
        judged.round((quiet,), {"a": 0.0}, NOW_S + 60 + number)
    assert judged.held == ()
