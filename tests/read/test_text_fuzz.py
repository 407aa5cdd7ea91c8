"""Mutated inputs: a reader gives a result or an `InputError`, quickly."""

import contextlib
import json
import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from syncwall.describe.lookup import cluster
from syncwall.explain.benchmarks import link_findings
from syncwall.explain.collective_benchmarks import judged, of_nccl_tests
from syncwall.explain.failures import find_failure
from syncwall.explain.finding import Finding
from syncwall.explain.hang import find_hangs
from syncwall.explain.logs import nccl_findings, nsys_findings
from syncwall.explain.training_log import log_findings, summary_of
from syncwall.problems import InputError
from syncwall.read.failure_text import read_failure_text
from syncwall.read.flight_recorder import read_flight_recorder
from syncwall.read.link_rates import read_iperf3, read_perftest
from syncwall.read.nccl_log import read_nccl_log
from syncwall.read.nccl_tests import read_nccl_tests
from syncwall.read.node_checks import read_node_check
from syncwall.read.nsys_stats import read_nsys_stats
from syncwall.read.training_log import read_training_log
from tests.explain.benchmarks.samples import IPERF3, iperf3_json, perftest
from tests.explain.training_logs.samples import excerpts, text_of
from tests.read.nccl_samples import NCCL_TESTS, flight, nccl_log, nsys


def pasted(name: str) -> str:
    """All texts of one file of what people paste."""
    file = Path(__file__).parents[1] / "explain" / "pasted" / f"{name}.yaml"
    return "\n".join(case["text"] for case in yaml.safe_load(file.read_text()))


CASES: dict[str, tuple[Callable[..., Any], str | bytes]] = {
    "log": (read_nccl_log, nccl_log(extra="h:1:2 [0] NCCL INFO NCCL_ALGO set by environment to X")),
    "tests": (read_nccl_tests, NCCL_TESTS),
    "nsys": (read_nsys_stats, nsys()),
    "pickle": (read_flight_recorder, pickle.dumps(flight(0, 6), 2)),
    "json": (read_flight_recorder, json.dumps(flight(0, 6))),
    "iperf3": (read_iperf3, IPERF3),
    "iperf3 json": (read_iperf3, iperf3_json(94.0)),
    "perftest": (read_perftest, perftest(392.0)),
    **{
        name: (read_failure_text, pasted(name))
        for name in ("collectives", "jobs", "machines", "memory", "start")
    },
    "checks": (read_node_check, pasted("checks")),
    **{f"training {n}": (read_training_log, text_of(one)) for n, one in enumerate(excerpts()[::6])},
}


def judge_links(rates: Any) -> list[Finding]:
    """Every rate on one machine."""
    return list(link_findings(rates, cluster("dgx-h100")))


def judge_tables(runs: Any) -> list[Any]:
    """Every table that says what it is."""
    tables = (of_nccl_tests(run) for run in runs)
    return [judged(table, cluster("dgx-h100")) for table in tables if table is not None]


def judge_failure(text: Any) -> Any:
    """The root."""
    return find_failure([text])


def judge_training(log: Any) -> list[Finding]:
    """All that is out of the ordinary, and the figures."""
    summary_of(log)
    return list(log_findings(log))


JUDGES: dict[str, Callable[..., Any]] = {
    "log": nccl_findings,
    "nsys": nsys_findings,
    "tests": judge_tables,
    "iperf3": judge_links,
    "iperf3 json": judge_links,
    "perftest": judge_links,
    **dict.fromkeys(("collectives", "jobs", "machines", "memory", "start"), judge_failure),
    **{name: judge_training for name in CASES if name.startswith("training")},
}


def mutated(raw: bytes, random: random.Random) -> bytes:
    """Some bytes changed, a piece cut, doubled or moved."""
    data = bytearray(raw)
    for _ in range(random.randint(1, 8)):
        at, size = random.randrange(len(data) or 1), random.randint(1, 400)
        kind = random.randrange(5)
        if kind == 0 and data:
            data[at % len(data)] = random.randrange(256)
        elif kind == 1:
            del data[at : at + size]
        elif kind == 2:
            data[at:at] = data[at : at + size] * random.randint(1, 5)
        elif kind == 3:
            data[at:at] = bytes(random.choices(b'0123456789eE+-.|/[](){}:,"\n', k=size))
        else:
            data = data[: at + 1]
    return bytes(data)


@pytest.mark.parametrize("name", CASES)
def test_no_mutation_breaks_a_reader(name, tmp_path):
    reader, text = CASES[name]
    raw = text.encode() if isinstance(text, str) else text
    generator = random.Random(7)
    path = tmp_path / "input_0"
    for _ in range(200):
        path.write_bytes(mutated(raw, generator))
        begin = time.process_time()
        try:
            read = reader(path)
        except InputError:
            continue
        if name in JUDGES:
            JUDGES[name](read)
        elif name in ("pickle", "json"):
            find_hangs([read, read_flight_recorder(path, rank=1)])
        assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    "line",
    [
        b"a" * 3_000_000,
        b"h:1:2 [0] NCCL INFO " + b"[0]mlx5:1/IB " * 200_000,
        b"h:1:2 [0] NCCL INFO Trees " + b"[0] " * 500_000,
        b"1 " * 1_000_000,
        b"#" * 2_000_000,
        b"-" * 100_000 + b" " * 100_000 + b"-" * 100_000,
        b"h:1:1 [0] NCCL INFO x" * 30_000,
        b"NCCL" + b" time" * 400_000,
        (b"a" * 60_000 + b" NCCL ") * 30,
        b"9" * 1_000_000 + b":" * 1_000_000,
        b"Epoch 0: " + b"1/2 [" * 400_000,
        b"iteration 1/ 2 elapsed time per iteration (ms): " * 10_000,
        (b"1" * 60_000 + b"s/it, loss=") * 30,
    ],
)
@pytest.mark.parametrize(
    "reader",
    [
        read_nccl_log,
        read_nccl_tests,
        read_nsys_stats,
        read_iperf3,
        read_perftest,
        read_failure_text,
        read_node_check,
        read_training_log,
    ],
)
def test_endless_lines_take_no_endless_time(reader, line, tmp_path):
    path = tmp_path / "long"
    path.write_bytes(line)
    begin = time.process_time()
    with contextlib.suppress(InputError):
        reader(path)
    assert time.process_time() - begin < 2
