"""Before and after: which part of a step changed, on which ranks, since when, or nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.explain.answer import Explanation
from syncwall.problems import InputError
from syncwall.show.explanation import next_lines, verdict
from tests.explain.benchmarks.samples import nccl_tests, seconds_on
from tests.explain.traces.job import Job, written
from tests.read.nccl_samples import nccl_log

GOOD = Job(noise=0.01)
CHANGES: dict[str, tuple[Job, str, tuple[int, ...]]] = {
    "a slow rank": (replace(GOOD, slower={2: 1.4}), "compute", (2,)),
    "all compute slower": (replace(GOOD, compute_s=0.13), "compute", ()),
    "a slow loader": (replace(GOOD, loading={1: 0.05}), "data", (1,)),
    "slow loaders": (replace(GOOD, data_s=0.03), "data", ()),
    "a slow network": (replace(GOOD, transfer_s=0.05), "transfer", ()),
    "garbage collection": (replace(GOOD, collecting={3: 0.04}), "gc", (3,)),
}


def day(folder: Path, job: Job, seed: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for trace in replace(job, seed=seed).traces():
        written(trace, folder / f"rank{trace.rank}.json.gz")
    return folder


def compared(tmp_path: Path, job: Job, good: Job = GOOD) -> Explanation:
    before, now = day(tmp_path / "good", good, 1), day(tmp_path / "now", job, 2)
    return sw.explain(now, against=before, workers=1)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_named(tmp_path, change):
    job, kind, ranks = CHANGES[change]
    found = compared(tmp_path, job)
    assert found.changed is not None
    assert found.changed.difference is not None
    first = found.changed.difference.parts[0]
    assert (first.kind, first.ranks) == (kind, ranks)
    assert found.is_bad
    assert found.changed.difference.sure > 0.9
    assert list(next_lines(found))


@pytest.mark.parametrize("seed", range(3))
def test_nothing_changed_if_nothing_did(tmp_path, seed):
    """Not even if one rank is slow: it was on the good day."""
    slow = replace(GOOD, slower={1: 1.3}, noise=0.02)
    before, now = day(tmp_path / "a", slow, seed), day(tmp_path / "b", slow, seed + 10)
    found = sw.explain(now, against=before, workers=1)
    assert verdict(found).startswith("nothing changed")
    assert not found.is_bad


def test_what_became_faster_is_no_alarm(tmp_path):
    found = compared(tmp_path, GOOD, replace(GOOD, slower={2: 1.4}))
    assert "times faster than before" in verdict(found)
    assert "rank 2" in verdict(found)
    assert not found.is_bad


def test_a_folder_of_good_days_tells_how_days_differ(tmp_path):
    for number, compute in enumerate((0.1, 0.11, 0.118)):
        day(tmp_path / "good" / f"day{number}", replace(GOOD, compute_s=compute), number)
    usual = day(tmp_path / "usual", replace(GOOD, compute_s=0.12))
    slow = day(tmp_path / "slow", replace(GOOD, compute_s=0.16))
    same = sw.explain(usual, against=tmp_path / "good", workers=1)
    assert verdict(same).startswith("nothing changed")
    assert "3 good days" in verdict(same)
    assert sw.explain(slow, against=tmp_path / "good", workers=1).is_bad


def test_the_first_bad_step_is_named(tmp_path):
    before = day(tmp_path / "good", GOOD, 1)
    now = tmp_path / "now"
    now.mkdir()
    good, bad = replace(GOOD, steps=12).traces(), replace(GOOD, steps=12, compute_s=0.2).traces()
    for one, other in zip(good, bad, strict=True):
        written(_joined(one, other, step=5), now / f"rank{one.rank}.json.gz")
    found = sw.explain(now, against=before, workers=1)
    assert found.changed is not None
    assert found.changed.difference is not None
    assert found.changed.difference.first_bad == 5
    assert "from step 5 on" in verdict(found)


def _joined(one, other, step):
    """The steps of `one` before number `step`, and those of `other` from it on."""
    at, begin = (next(s.start_ns for s in t.steps if s.number == step) for t in (one, other))
    early, late = one.start_ns < at, other.start_ns >= begin
    shift = at - begin
    steps = [s for s in one.steps if s.number < step]
    steps += [
        replace(s, start_ns=s.start_ns + shift, end_ns=s.end_ns + shift)
        for s in other.steps
        if s.number >= step
    ]
    name = np.concatenate([one.name[early], other.name[late]])
    met = next(iter(one.collectives.values()))
    zeros = np.zeros(len(name), dtype=np.int64)
    return replace(
        one,
        name=name,
        category=np.concatenate([one.category[early], other.category[late]]),
        start_ns=np.concatenate([one.start_ns[early], other.start_ns[late] + shift]),
        duration_ns=np.concatenate([one.duration_ns[early], other.duration_ns[late]]),
        thread=zeros,
        stream=zeros - 1,
        correlation=zeros,
        steps=tuple(steps),
        collectives={int(n): met for n in np.flatnonzero(name == 3)},
    )


def test_settings_that_differ_are_listed_and_to_be_set_back(tmp_path):
    before, now = tmp_path / "before", tmp_path / "now"
    text = "h:1:2 [0] NCCL INFO NCCL_ALGO set by environment to "
    for folder, more in ((before, text + "Ring"), (now, text + "Tree")):
        folder.mkdir()
        (folder / "nccl.log").write_text(nccl_log(extra=more))
    found = sw.explain(now, against=before)
    assert verdict(found) == "suspect: 1 setting changed: NCCL_ALGO Ring → Tree"
    assert found.exit_code == 3
    (before / "nccl.log").write_text(nccl_log(net="NET/IB"))
    (now / "nccl.log").write_text(nccl_log(net="NET/Socket"))
    changed = sw.explain(now, against=before).changed
    assert changed is not None
    names = {one.name: (one.before, one.now) for one in changed.settings}
    assert names["between nodes"] == ("IB", "Socket")


def _slower(ratio: float) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_text(nccl_tests(seconds_on("dgx-h100", 8, 1) * ratio))
        return path

    return write


def test_benchmarks_of_two_days_are_compared(tmp_path, capsys):
    old, same, slow = (
        _slower(ratio)(tmp_path / name) for name, ratio in (("a", 1.0), ("b", 1.01), ("c", 1.3))
    )
    assert main(["explain", str(same), "--against", str(old)]) == 0
    assert "nothing changed" in capsys.readouterr().out
    assert main(["explain", str(slow), "--against", str(old)]) == 1
    assert "all-reduce of 8 ranks is 1.30 times slower than before" in capsys.readouterr().out


def test_files_that_cannot_be_compared_are_refused(tmp_path):
    bench = _slower(1.0)(tmp_path / "bench.txt")
    with pytest.raises(InputError, match="same kind"):
        sw.explain(bench, against=day(tmp_path / "good", GOOD), workers=1)


def test_what_is_newly_wrong_is_bad_and_what_was_wrong_is_not(tmp_path):
    before, now = tmp_path / "before.log", tmp_path / "now.log"
    off = "h:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1"
    before.write_text(nccl_log())
    now.write_text(nccl_log(extra=off))
    found = sw.explain(now, against=before)
    assert found.is_bad
    assert verdict(found) == "new since the good day: NCCL_P2P_DISABLE=1"
    assert next(next_lines(found)).startswith("unset it")
    assert not sw.explain(now, against=now).is_bad
