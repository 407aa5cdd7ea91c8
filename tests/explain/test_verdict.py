"""Four states: what was never compared with anything is not healthy, and says what to give."""

import json
from pathlib import Path

import numpy as np
import pytest

import syncwall as sw
from syncwall.cli import main
from syncwall.explain.answer import Explanation
from syncwall.explain.verdict import EXIT_CODES, VerdictState
from syncwall.measure.kernel_times import KernelRow, TimedKernel
from syncwall.work.operations import Gemm
from tests.explain.benchmarks.samples import (
    SIZES,
    iperf3_json,
    nccl_tests,
    perftest,
    result,
    seconds_on,
)
from tests.explain.traces.job import Job, written
from tests.read.nccl_samples import flight, nccl_log, nsys

ROOT = Path(__file__).parents[2]
WRONG, SUSPECT, NOT_JUDGED, HEALTHY = VerdictState


def explained(path: Path, text: str, **how: object) -> Explanation:
    path.write_text(text)
    return sw.explain(path, **how)  # type: ignore[arg-type]


def test_wrong_results_are_the_first_thing_read(tmp_path, capsys):
    """A table that is as fast as it should be, and returns wrong sums: the worst fault there is."""
    seconds = seconds_on("dgx-h100", 8, 1)
    text = nccl_tests(seconds).replace(" 0\n", " 12\n").replace("values : 0 OK", "values : 288 FAILED")
    found = explained(tmp_path / "a.txt", text, cluster="dgx-h100")
    assert found.state is WRONG
    assert found.findings[0].corrupts
    assert "wrong results from 1 KiB to 8 GiB" in found.to_dict()["verdict"]
    good = tmp_path / "good.txt"
    good.write_text(nccl_tests(seconds))
    assert main(["explain", str(tmp_path / "a.txt"), "--against", str(good)]) == 1
    assert "wrong results" in capsys.readouterr().out


def test_the_largest_error_of_old_versions_is_not_a_count(tmp_path):
    text = nccl_tests(seconds_on("dgx-h100", 8, 1)).replace(" 0\n", " 5e-07\n")
    assert explained(tmp_path / "a.txt", text, cluster="dgx-h100").state is HEALTHY


def test_a_healthy_table_says_what_was_judged(tmp_path):
    found = explained(tmp_path / "a.txt", nccl_tests(seconds_on("dgx-h100", 8, 1)), cluster="dgx-h100")
    (judged,) = found.judged
    assert found.state is HEALTHY
    assert judged.what.startswith("all-reduce of 8 ranks")
    assert "8,192 MiB" in judged.what
    assert judged.against == "dgx-h100 of the catalogue"


def test_machines_that_disagree_leave_the_table_unjudged(tmp_path):
    text = nccl_tests(seconds_on("gcp-a3-mega", 32, 4), ranks=32, nodes=4)
    found = explained(tmp_path / "a.txt", text)
    assert found.state is NOT_JUDGED
    assert "slow for" in found.not_judged[0].why
    assert "--cluster" in found.not_judged[0].give


@pytest.mark.parametrize("ranks", [8, 64])
def test_switch_reductions_that_are_off_are_named(tmp_path, ranks):
    from syncwall.answer.pricing import without_switch_reduction
    from syncwall.explain.collective_benchmarks import of_benchmark, of_nccl_tests
    from syncwall.read.nccl_tests import read_nccl_tests

    path = tmp_path / "a.txt"
    path.write_text(nccl_tests(np.ones(len(SIZES)), ranks=ranks, nodes=ranks // 8))
    table = of_nccl_tests(read_nccl_tests(path)[0])
    machine = without_switch_reduction(sw.cluster("dgx-h100"))
    assert table is not None
    assert machine is not None
    text = nccl_tests(of_benchmark(machine, table), ranks=ranks, nodes=ranks // 8)
    found = explained(path, text, cluster="dgx-h100")
    slow = [said for said in found.benchmarks.collectives if said.is_slow]
    if ranks == 8:
        assert slow
        assert slow[0].faults[0] == "NVLS off"


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("iperf3", iperf3_json(9.33), iperf3_json(0.94)),
        ("perftest", perftest(393.0), perftest(197.0)),
        (
            "sendrecv",
            nccl_tests(np.array(SIZES) / 46e9, ranks=2, collective="sendrecv"),
            nccl_tests(np.array(SIZES) / 12e9, ranks=2, collective="sendrecv"),
        ),
    ],
)
def test_every_kind_of_benchmark_is_compared_with_its_baseline(tmp_path, name, before, now):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text(before)
    new.write_text(now)
    assert sw.explain(new, against=old).state is WRONG
    assert sw.explain(old, against=old).state is HEALTHY
    assert sw.explain(new).state is NOT_JUDGED


def test_what_has_nothing_to_be_compared_with_is_not_called_unchanged(tmp_path):
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.txt").write_text(nccl_log())
    (tmp_path / "old" / "links.json").write_text(iperf3_json(9.33))
    (tmp_path / "new" / "nsys.txt").write_text(nsys())
    found = sw.explain(tmp_path / "new", against=tmp_path / "old")
    assert found.state is NOT_JUDGED
    assert {one.what for one in found.not_judged} == {"iperf3 output", "nsys report"}


def dumps(folder: Path, counts: dict[int, int], members: int) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, count in counts.items():
        dump = flight(rank, count, state="scheduled" if count else "completed")
        dump["pg_config"] = {"0": {"name": "0", "ranks": str(list(range(members)))}}
        (folder / f"trace_rank_{rank}.json").write_text(json.dumps(dump))
    return folder


def test_a_rank_without_a_dump_is_the_first_suspect(tmp_path):
    found = sw.explain(dumps(tmp_path / "d", {0: 10, 1: 10, 2: 10}, 4))
    verdict = found.to_dict()["verdict"]
    assert found.state is WRONG
    assert verdict.startswith("hang: rank 3 left no dump and is the first suspect")
    assert "rank 3" in found.to_dict()["next"][0]


def test_a_dump_alone_is_not_judged(tmp_path):
    found = sw.explain(dumps(tmp_path / "d", {0: 10}, 4))
    assert found.state is NOT_JUDGED
    assert "ranks 1, 2, 3" in found.not_judged[0].give


def test_one_rank_of_several_blames_nobody(tmp_path):
    for trace in Job(slower={1: 1.6}).traces():
        written(trace, tmp_path / f"rank{trace.rank}.json.gz")
    alone = sw.explain(tmp_path / "rank0.json.gz", workers=1)
    assert alone.state is NOT_JUDGED
    assert "other ranks" in alone.not_judged[0].give


FILES = {
    "nccl-tests": nccl_tests(seconds_on("dgx-h100", 8, 1)),
    "unknown ranks": "# nThread 1\n" + nccl_tests(seconds_on("dgx-h100", 8, 1)).split("node0 device")[-1],
    "sendrecv": nccl_tests(np.array(SIZES) / 12e9, ranks=2, collective="sendrecv"),
    "small": nccl_tests(seconds_on("dgx-h100", 8, 1)[:6], sizes=SIZES[:6]),
    "iperf3": iperf3_json(9.4),
    "perftest": perftest(392.0),
    "log": nccl_log(),
    "nsys": nsys(),
    "execution": '{"schema": "1.0.3-chakra.0.0.4", "nodes": [{"name": "a", "id": 1}]}',
}


@pytest.mark.parametrize("cluster", [None, "dgx-h100"])
@pytest.mark.parametrize("kind", FILES)
def test_nothing_is_healthy_that_was_not_judged(tmp_path, kind, cluster):
    """For every kind of file: a state with what it rests on, or what to give."""
    found = explained(tmp_path / "one", FILES[kind], cluster=cluster)
    record = found.to_dict()
    assert found.exit_code == EXIT_CODES[found.state]
    assert record["state"] == found.state
    if found.state is HEALTHY:
        assert record["judged"]
    if found.state is NOT_JUDGED:
        assert all(one["why"] and one["give"] for one in record["not_judged"])
        assert record["verdict"].startswith("not judged: ")


@pytest.mark.parametrize("folder", ["examples/explain", "examples/benchmarks", "examples/on-call"])
def test_every_example_has_a_state(folder):
    for path in sorted(one for one in (ROOT / folder).rglob("*") if one.is_file()):
        found = sw.explain(path, workers=1)
        assert found.verdicts
        assert found.judged or found.findings or found.not_judged


def test_files_that_only_describe_a_job_are_not_judged_together(tmp_path):
    graph = '<graph id="0" pattern="4" crossnic="0" nchannels="1" speedintra="20" speedinter="20"/>'
    (tmp_path / "graph.xml").write_text(f'<graphs version="1">{graph}</graphs>')
    (tmp_path / "et.json").write_text(FILES["execution"])
    found = sw.explain(tmp_path)
    assert found.state is NOT_JUDGED
    assert found.not_judged[0].give


def test_kernels_of_an_unknown_device_are_not_judged(tmp_path):
    row = KernelRow.of(TimedKernel("gemm", Gemm(4096, 4096, 4096), 2), [1e-3] * 5)
    rows = {"rows": [row.model_dump(mode="json")]}
    found = explained(tmp_path / "matmul.json", result("matmul", rows, device="Unheard Of 9000"))
    assert found.state is NOT_JUDGED
    assert "--cluster" in found.not_judged[0].give
