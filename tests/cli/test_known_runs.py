"""`syncwall predict --known-run`: files of measured runs, whole and broken."""

import json
import random
from math import log
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.answer.known import site_of
from syncwall.answer.prediction import predict
from syncwall.answer.site import UNKNOWN_SITE, WANTED, Site
from syncwall.cli import main
from syncwall.describe import lookup
from tests.cli.test_broken_files import BREAKERS, PLACE, RUN

MEASURED = "measured: {step: 3.6 s}\n"
HERE = [HealthCheck.function_scoped_fixture]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(RUN)
    return path


@pytest.fixture
def known(tmp_path: Path) -> Path:
    path = tmp_path / "known.yaml"
    path.write_text(RUN + MEASURED)
    return path


def predicted(capsys: Any, *arguments: Any) -> Any:
    assert main(["predict", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_time_is_anchored_to_a_known_run(run, known, capsys):
    plain = predicted(capsys, run)
    found = predicted(capsys, run, "--known-run", known)
    assert (plain["known_runs"], found["known_runs"]) == (0, 1)
    assert set(plain["knobs"].values()) == {1.0}
    factor, shown = found["step_s"] / plain["step_s"], 3.6 / plain["step_s"]
    assert min(1, shown) < factor < max(1, shown)
    assert sum(found["ledger_s"].values()) == pytest.approx(found["step_s"])
    assert found["memory_bytes"] == plain["memory_bytes"]
    width = [found["step_interval_s"][1] / found["step_s"] for found in (plain, found)]
    assert width[1] < width[0]
    said = next(line for line in found["assumed"] if "from 1 known run" in line)
    assert f"GEMM × {found['knobs']['gemm']:.3f}" in said
    assert f"give {WANTED}" in said


def test_a_known_run_that_is_three_times_off_says_nothing_of_the_site(run, known, capsys):
    plain = predicted(capsys, run)
    known.write_text(RUN + f"measured: {{step: {3.1 * plain['step_s']} s}}\n")
    found = predicted(capsys, run, "--known-run", known)
    assert (found["known_runs"], found["step_s"]) == (0, plain["step_s"])
    assert any("not used: it took 3.10 times as long as predicted" in line for line in found["assumed"])
    known.write_text(RUN + "measured: {step: 9.8 s, same_build: true}\n")
    assert predicted(capsys, run, "--known-run", known)["step_s"] > 2 * plain["step_s"]


def test_a_stranger_that_is_twice_as_slow_is_believed_in_part(run, known, capsys):
    """First contacts are off by more than 30% as often as not, and their other runs are, too."""
    plain = predicted(capsys, run)
    known.write_text(RUN + f"measured: {{step: {2.0 * plain['step_s']} s}}\n")
    one, three = (predicted(capsys, run, "--known-run", *[known] * count) for count in (1, 3))
    assert 1.2 < one["step_s"] / plain["step_s"] < three["step_s"] / plain["step_s"] < 2.0


def test_nobody_is_asked_for_more_than_three_known_runs(run, known, capsys):
    found = predicted(capsys, run, "--known-run", known, known, known)
    said = next(line for line in found["assumed"] if "from 3 known runs" in line)
    assert "give" not in said


def test_a_run_of_the_same_build_is_reproduced(run, tmp_path, capsys):
    path, step_s = tmp_path / "known.yaml", predicted(capsys, run)["step_s"] * 1.3
    path.write_text(RUN + f"measured: {{step: {step_s} s, same_build: true}}\n")
    assert predicted(capsys, run, "--known-run", path)["step_s"] == pytest.approx(step_s, rel=0.02)


def test_several_known_runs_are_given_after_one_flag(run, known, tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text(RUN.replace("nodes: 4", "nodes: 8") + "measured: {tokens_per_s: 300000}\n")
    assert predicted(capsys, run, "--known-run", known, other)["known_runs"] == 2


def test_a_known_run_may_be_another_than_the_one_asked_for(known, capsys):
    flags = ["--model", "llama-3.1-70b", "--cluster", "dgx-h100", "--nodes", "16", "--layout.shard", "fsdp"]
    plain, found = predicted(capsys, *flags), predicted(capsys, *flags, "--known-run", known)
    assert found["known_runs"] == 1
    assert found["step_s"] > plain["step_s"]


def test_a_site_is_made_of_files(run, known):
    ratio = 3.6 / predict(lookup.run(run)).step_s
    assert [one.ratio for one in site_of([known]).known] == pytest.approx([ratio], rel=0.1)
    plain_s = predict(lookup.run(run)).step_s
    sites = (site_of([known] * count) for count in (1, 2))
    once, twice = (log(predict(lookup.run(run), site=site).step_s / plain_s) for site in sites)
    assert 0 < once < twice < log(ratio)
    assert site_of([]) == Site() == UNKNOWN_SITE


def test_the_page_says_what_it_was_anchored_to(run, known, capsys):
    flags = ["--known-run", str(known), "--explain-assumptions"]
    assert main(["predict", str(run), *flags]) == 0
    assert "from 1 known run" in " ".join(capsys.readouterr().out.split())


def test_a_known_run_without_its_speed_names_the_file(run, capsys):
    assert main(["predict", str(run), "--known-run", str(run)]) == 2
    assert 'run.yaml:1:1  "measured" is missing' in capsys.readouterr().err


def test_a_known_run_that_is_not_there_is_named(run, capsys):
    assert main(["predict", str(run), "--known-run", "nowhere.yaml"]) == 2
    assert "nowhere.yaml: cannot be read" in capsys.readouterr().err


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=HERE)
@given(breaker=st.sampled_from(BREAKERS), seed=st.integers(0, 2**32))
def test_broken_known_runs_exit_with_2_and_a_line(breaker, seed, run, tmp_path, capsys):
    path = tmp_path / "broken.yaml"
    path.write_text(breaker(MEASURED + RUN, random.Random(seed)), encoding="utf-8")
    assert main(["predict", str(run), "--known-run", str(path)]) == 2
    message = capsys.readouterr().err
    assert PLACE.search(message), message


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=HERE)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.sampled_from(["step", "tokens_per_s", "tokens_per_s_per_gpu", "x"]), inner)
        ),
    )
)
def test_any_measurement_is_read_or_refused_with_a_line(value, run, tmp_path, capsys):
    path = tmp_path / "known.json"
    stated = {"model": "llama-3.1-8b", "cluster": "dgx-h100", "measured": value}
    path.write_text(json.dumps(stated))
    code = main(["predict", str(run), "--json", "--known-run", str(path)])
    output = capsys.readouterr()
    assert code == 0 or (code == 2 and PLACE.search(output.err)), output.err
    if code == 0:
        assert 0 < json.loads(output.out)["step_s"] < 1e12
