"""Nodes of a large job in groups: what is left out, who merges, and who does without a leader."""

from dataclasses import replace

import pytest

from syncwall.cause import Cause
from syncwall.watch.events import FindingKind, NodeReport, Process, RankState, StepWindow, to_json
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS, lost_nodes
from syncwall.watch.relay import Exchange, brief, group_size, merged_report

NOW_S = 1e9
NODES, RANKS = 1024, 2


def state(rank: int, silent_s: float = 0.1, process: Process = Process.RUNNING) -> RankState:
    return RankState(
        rank,
        f"n{rank // RANKS}",
        1,
        process,
        "exposed communication",
        NOW_S - silent_s,
        10,
        step_s=1.0,
        longest_silence_s=0.4,
    )


def report(node: int, number: int = 1, *, slow: int | None = None) -> NodeReport:
    """Of a node whose ranks have all finished a window just now; `slow` is a rank."""
    ranks = range(node * RANKS, (node + 1) * RANKS)
    own = {rank: 0.9 if rank == slow else 0.7 + 0.001 * (rank % 7) for rank in ranks}
    windows = tuple(
        StepWindow(rank, 25 * number, 25, own_s, 1.0, {Cause.FORWARD: own_s}, NOW_S - 1, f"n{node}")
        for rank, own_s in own.items()
    )
    states = tuple(state(rank) for rank in ranks)
    return NodeReport(f"n{node}", node, number, NOW_S, states, windows, NODES * RANKS)


def test_few_nodes_have_no_groups():
    assert group_size(512) == 512
    assert (group_size(513), group_size(1024), group_size(10_000)) == (23, 32, 100)


def test_who_is_well_is_left_out_and_who_is_not_is_not():
    states = (state(0), state(1, silent_s=2.0), state(2, silent_s=4.0), state(3, 0.1, Process.DEAD))
    found = brief(NodeReport("a", 0, 1, NOW_S, states))
    assert [one.rank for one in found.ranks] == [2, 3]
    assert found.quiet == (0, 1)


def test_a_window_is_told_while_it_is_new():
    one = report(0)
    old = replace(one, sent_s=NOW_S + 60)
    assert len(brief(one).windows) == RANKS
    assert not brief(old).windows


def test_a_group_is_one_report_and_its_silent_node_another():
    reports = {node: brief(report(node)) for node in range(4)}
    found = merged_report(1, reports, {0: 0.1, 1: 0.2, 2: 2.0, 3: 0.0})
    assert [one.node for one in found.nodes] == ["n2", "n0"]
    assert found.nodes[1].quiet == (0, 1, 2, 3, 6, 7)
    assert len(found.nodes[1].windows) == 3 * RANKS
    assert found.silent_s == {2: 2.0}


def test_a_lost_node_is_told_with_the_ranks_that_were_well():
    reports = {"n2": brief(report(2))}
    (found,) = lost_nodes(reports, {"n2": 4.0}, now_s=NOW_S)
    assert (found.node, found.also) == ("n2", (4, 5))


def test_nothing_hangs_while_somebody_is_well(tmp_path):
    silent = [NodeReport("n0", 0, 1, NOW_S, (state(0, 60.0),), world=2)]
    well = NodeReport("n1", 1, 1, NOW_S, (), world=2, quiet=(1,))
    both = Findings(tmp_path, THRESHOLDS)
    assert not both.round((*silent, well), {"n0": 0.0, "n1": 0.0}, NOW_S)[0]
    all_silent = (*silent, replace(well, quiet=(), ranks=(state(1, 60.0),)))
    (found,) = both.round(all_silent, {"n0": 0.0, "n1": 0.0}, NOW_S)[0]
    assert found.kind is FindingKind.HUNG


class Fleet:
    """1,024 nodes at one real store, each as an agent would take part, in one process."""

    def __init__(self, store) -> None:
        self.store = store
        self.nodes = [Exchange(node, NODES) for node in range(NODES)]
        self.nodes[0].open(store)
        self.silent: set[int] = set()
        self.slow: int | None = None

    def round(self, number: int) -> dict[int, tuple[NodeReport, float]]:
        """What the first node hears, after everybody else has had a round."""
        for node, one in reversed(list(enumerate(self.nodes))):
            if node not in self.silent:
                one.tell(report(node, number, slow=self.slow))
                one.round(self.store)
        return self.nodes[0].heard

    def judged(self, judged: Findings, number: int):
        heard = {node: one for node, (one, _) in self.round(number).items()}
        own = report(0, number, slow=self.slow)
        reports = tuple((heard | {0: own}).values())
        return judged.round(reports, {one.node: 0.0 for one in reports}, NOW_S)[0]


@pytest.fixture
def fleet():
    pytest.importorskip("torch", reason="torch is not installed")
    from torch.distributed import TCPStore

    return Fleet(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when they are told to."""
    now = [100.0]
    monkeypatch.setattr("syncwall.watch.relay.time.monotonic", lambda: now[0])
    return now


def test_the_first_of_1024_nodes_reads_one_key_a_group(fleet, tmp_path):
    fleet.slow = 1250
    fleet.round(0)
    judged = Findings(tmp_path, THRESHOLDS)
    found = [fleet.judged(judged, number) for number in range(1, 5)][-1]
    heard = fleet.nodes[0].heard
    assert len(heard) == 32 + 31  # its own group's nodes, and one report for each other group
    known = {rank for one, _ in heard.values() for rank in one.quiet}
    assert known == set(range(NODES * RANKS))
    assert [(one.kind, one.rank, one.node) for one in found] == [(FindingKind.STRAGGLER, 1250, "n625")]
    assert sum(len(to_json(one)) for one, _ in heard.values()) < 600 * NODES


def test_a_lost_node_is_told_by_its_leader(fleet, clock):
    fleet.round(0)
    fleet.silent.add(70)
    for number in range(1, 5):
        clock[0] += 1.0
        heard = fleet.round(number)
    assert clock[0] - heard[70][1] == pytest.approx(4.0)
    assert clock[0] - heard[64][1] < 1.5
    assert 71 not in heard  # it is well


def test_a_dead_leader_hides_nobody(fleet, clock):
    fleet.round(0)
    fleet.silent |= {64, 70}
    for number in range(1, 5):
        clock[0] += 1.0
        heard = fleet.round(number)
    silent_s = {node: clock[0] - changed_s for node, (_, changed_s) in heard.items()}
    assert silent_s[64] == pytest.approx(4.0)
    assert silent_s[70] > 1.5
    assert {node for node in range(64, 96) if silent_s[node] < 0.5} == {*range(65, 96)} - {70}
    fleet.silent.clear()
    clock[0] += 1.0
    heard = fleet.round(5)
    assert 65 not in heard  # the leader is back
