import gzip
import json

import pytest

from syncwall.cause import Cause
from syncwall.describe import lookup
from syncwall.measure.result import Result
from syncwall.measure.training_step import CAUSES, StepData, StepSettings, summed_up
from tests.measure.ranks import started

SETTINGS = StepSettings(model=lookup.model("tiny-5m"), seq=64, micro_batch=1)


def ledger(**seconds: float) -> dict[Cause, float]:
    return dict.fromkeys(CAUSES, 0.0) | {Cause[key.upper()]: s for key, s in seconds.items()}


def test_the_ledger_adds_up_to_the_median_step():
    one = [ledger(forward=1.0, backward=2.0, exposed_dp=0.5) for _ in range(3)]
    data = summed_up([one, one], [3.5, 3.6, 3.7], ("a", "b"), SETTINGS, 1e9)
    assert sum(data.ledger_s.values()) == pytest.approx(3.6)
    assert data.ranks[1].busy_s == pytest.approx(3.0)
    assert data.tokens_per_s == pytest.approx(2 * 64 / 3.6)


def test_mfu_refers_to_a_stated_peak():
    one = [[ledger(backward=2.0)]]
    assert summed_up(one, [2.0], ("a",), SETTINGS, 1e9).mfu is None
    settings = SETTINGS.model_copy(update={"peak_flop_per_s": 1e10})
    data = summed_up(one, [2.0], ("a",), settings, 1e9)
    assert data.mfu == pytest.approx(data.model_flop_per_s / 1e10)


def test_a_rank_that_works_longer_is_named_though_all_steps_are_equally_long():
    quick = [ledger(backward=1.0, exposed_dp=2.0) for _ in range(6)]
    slow = [ledger(backward=3.0) for _ in range(6)]
    data = summed_up([quick, quick, slow], [3.0] * 6, ("a", "b", "c"), SETTINGS, 1e9)
    assert [suspect.host for suspect in data.suspects] == ["c"]


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["ddp", "fsdp"])
def test_two_real_ranks(shard, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    output = tmp_path / "step.json"
    ranks = started(
        ("a", "b"),
        "-m",
        "syncwall",
        "measure",
        "step",
        "--model",
        "tiny-5m",
        "--seq",
        "32",
        "--micro-batch",
        "1",
        "--shard",
        shard,
        "--steps",
        "2",
        "--warm-up",
        "1",
        "--json",
        str(output),
        "--profile",
        str(tmp_path / "profile"),
    )
    codes = [rank.end(120) for rank in ranks]
    assert codes[1] == 0, ranks[1].err
    assert codes[0] in (0, 1), ranks[0].err  # 1 if the machine held a rank up
    result = Result.read(output)
    data = StepData.model_validate(result.data)
    assert result.job.hosts == ("a", "b")
    assert sum(data.ledger_s.values()) == pytest.approx(data.times.median_s)
    assert data.ledger_s[Cause.EXPOSED_DP] > 0
    assert ("exposed FSDP gather" in data.ledger_s) == (shard == "fsdp")
    assert json.loads(output.read_text())["settings"]["model"]["layers"] == 4
    with gzip.open(tmp_path / "profile" / "rank1.json.gz", "rt") as stream:
        trace = json.load(stream)
    names = [event.get("name", "") for event in trace["traceEvents"]]
    assert trace["syncwall_host"] == "b"
    assert (trace["distributedInfo"]["rank"], trace["distributedInfo"]["world_size"]) == (1, 2)
    assert {"ProfilerStep#1", "ProfilerStep#2"} <= set(names)
    assert any(name.startswith("enumerate(DataLoader)") for name in names)
    assert any(name.startswith("gloo:") for name in names)
