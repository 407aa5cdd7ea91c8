"""The step of a summary is one of training: what is beside it is told apart."""

import os
import time
from pathlib import Path

import pytest

from syncwall.cause import Cause
from syncwall.watch.events import RankFacts, to_json
from syncwall.watch.findings import Findings
from syncwall.watch.judges import THRESHOLDS
from syncwall.watch.ranks import WatchedRank
from syncwall.watch.rings import MarkKind, Ring
from syncwall.watch.summary import summary_of

MS = 1_000_000
STEP = (
    (MarkKind.FORWARD_BEGIN, 2),
    (MarkKind.FORWARD_END, 14),
    (MarkKind.BACKWARD_BEGIN, 1),
    (MarkKind.BACKWARD_END, 20),
    (MarkKind.OPTIMIZER_BEGIN, 0),
    (MarkKind.OPTIMIZER_END, 3),
)


@pytest.fixture
def rank(tmp_path, monkeypatch):
    """A function of milliseconds that come before a mark, by step and number of the mark."""

    def watched(late_ms: dict[tuple[int, int], float], steps: int = 60, beside: MarkKind | None = None):
        now = [10**12]
        monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
        ring = Ring(tmp_path / "rank-0-1.ring", 0)
        facts = RankFacts(0, os.getpid(), 1, "a", 0, 1, "", 1)
        Path(tmp_path, "rank-0-1.json").write_bytes(to_json(facts))
        ring.mark(MarkKind.START)
        ring.mark(MarkKind.OPTIMIZER_END, 0.0, 1)
        for step in range(steps):
            for number, (kind, after_ms) in enumerate(STEP):
                late = late_ms.get((step, number), 0.0)
                if late and beside is not None:
                    ring.mark(beside)
                now[0] += round((after_ms + late) * MS)
                if late and beside is not None:
                    ring.mark(MarkKind(beside + 1))
                ring.mark(kind, float(step + 1), 1)
        found = WatchedRank(ring.path)
        for _ in range(3):
            found.read()
        return summary_of([found], Findings(tmp_path, THRESHOLDS), 100.0)

    return watched


def test_a_stop_of_twelve_seconds_makes_no_step_longer(rank):
    found = rank({(40, 3): 12_000.0})
    assert found.step_s == pytest.approx(0.040, rel=0.01)
    assert (found.pauses, found.steps) == (1, 60)
    assert found.beside_s[Cause.BACKWARD] == pytest.approx(12.02)


@pytest.mark.parametrize(
    ("beside", "cause"),
    [(MarkKind.SAVE_BEGIN, Cause.CHECKPOINT), (MarkKind.EVALUATION_BEGIN, Cause.EVALUATION)],
)
def test_evaluations_and_checkpoints_are_no_part_of_a_step(rank, beside, cause):
    found = rank({(step, 0): 100.0 for step in (20, 40)}, beside=beside)
    assert found.step_s == pytest.approx(0.040, rel=0.08)
    assert cause not in found.seconds
    assert found.beside_s[cause] == pytest.approx(0.204, abs=0.005)
    assert not found.pauses


def test_the_ledger_sums_to_the_step(rank):
    found = rank({(40, 1): 12_000.0, (20, 0): 300.0})
    assert sum(found.seconds.values()) == pytest.approx(found.step_s)
