"""One site file for `--site`, run files and Python: the same as its two parts, and what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

import syncwall as sw
from syncwall.answer.known import SiteFile
from syncwall.cli import main
from syncwall.describe.reading import read

RUN = """\
model: llama-3.1-8b
cluster: dgx-h100
nodes: 4
layout: {shard: fsdp, micro_batch: 1, global_batch: 256, recompute: none}
"""
ONE_NODE = "{model: llama-3.1-8b, cluster: dgx-h100, nodes: 1, layout: {shard: fsdp, micro_batch: 1}"
KNOWN = ONE_NODE + ", measured: 1.1 s}"
GEMM = "{gemm: [{m: 8192, n: 8192, k: 8192, dtype: bf16, rate: 600 TFLOP/s}]}"
SITE = f"known_runs:\n  - {KNOWN}\ncalibration: {GEMM}\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"run": RUN, "site": SITE, "known": KNOWN, "gemm": GEMM, "with_site": RUN + "site: site.yaml\n"}
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)


def answered(capsys: Any, *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_site_file_is_its_calibration_and_its_known_runs(capsys):
    plain = answered(capsys, "predict", "run.yaml")
    parts = answered(capsys, "predict", "run.yaml", "--known-run", "known.yaml", "--calibration", "gemm.yaml")
    found = answered(capsys, "predict", "run.yaml", "--site", "site.yaml")
    assert found["step_s"] == parts["step_s"] != plain["step_s"]
    assert found["knobs"] == parts["knobs"]
    assert answered(capsys, "predict", "with_site.yaml")["step_s"] == found["step_s"]
    in_python = sw.predict("run.yaml", site=sw.site_of(["site.yaml"]))
    assert in_python.step_s == pytest.approx(found["step_s"])


def test_further_known_runs_and_measurements_go_on_top(capsys):
    one = answered(capsys, "predict", "run.yaml", "--site", "site.yaml")
    words = ("predict", "run.yaml", "--site", "site.yaml", "--known-run", "known.yaml")
    assert (one["known_runs"], answered(capsys, *words)["known_runs"]) == (1, 2)
    Path("gemm.yaml").write_text(GEMM.replace("600", "300"))
    slower = answered(capsys, "predict", "run.yaml", "--site", "site.yaml", "--calibration", "gemm.yaml")
    assert slower["ledger_s"]["GEMM"] > 1.2 * one["ledger_s"]["GEMM"]


@pytest.mark.parametrize("run", ["run.yaml --site site.yaml", "with_site.yaml"])
@pytest.mark.parametrize("verb", ["plan layouts", "plan wall", "plan network", "plan fabric", "compare"])
def test_plans_and_comparisons_take_it(verb, run, capsys):
    more = ["--against", "nodes=8"] if verb == "compare" else []
    parts = f"{verb} run.yaml --known-run known.yaml --calibration gemm.yaml".split()
    both = [answered(capsys, *words, *more) for words in (parts, [*verb.split(), *run.split()])]
    for one in both:
        one.pop("made_at", None)
    assert both[0] == both[1]


def test_a_wall_in_python_takes_it_from_the_run_file_too():
    named = sw.plan.wall("with_site.yaml", most=64)
    given = sw.plan.wall("run.yaml", most=64, site=sw.site_of(["site.yaml"]))
    assert named.to_dict() == given.to_dict()
    assert named.to_dict() != sw.plan.wall("run.yaml", most=64).to_dict()


def test_what_is_written_is_read_as_it_was():
    site = read(Path("site.yaml"), SiteFile)
    Path("again.yaml").write_text(site.text())
    again = read(Path("again.yaml"), SiteFile)
    assert again.calibration == site.calibration
    assert again.known_runs == site.known_runs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"calibration: {GEMM}\n", "site.yaml:1:1  a site file has `known_runs`"),
        ("known_runs: []\n", "measured: 1.9 s}]"),
        (SITE.replace("calibration", "callibration"), 'did you mean "calibration"?'),
        (SITE.replace(", measured: 1.1 s", ""), '"measured" is missing'),
        (SITE.replace("dtype: bf16, ", ""), '"dtype" is missing'),
        (SITE + "nodes: 4\n", 'unknown key "nodes"'),
        (
            f"known_runs: [{KNOWN}, {KNOWN.replace('h100', 'b200')}]\n",
            "on one device, not on b200 and h100-sxm",
        ),
        ("- 1\n", "`key: value` lines"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, said, capsys):
    Path("site.yaml").write_text(text)
    assert main(["predict", "run.yaml", "--site", "site.yaml"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len([line for line in error.splitlines() if line.startswith("site.yaml")]) == 1


def test_a_site_of_another_device_is_refused(capsys):
    words = ["--model", "llama-3.1-8b", "--cluster", "dgx-b200", "--site", "site.yaml"]
    assert main(["predict", *words]) == 2
    assert "measured on h100-sxm, and the run is on b200" in capsys.readouterr().err
    with pytest.raises(sw.InputError, match="measured on h100-sxm"):
        sw.predict(sw.Run(model="llama-3.1-8b", cluster="dgx-b200"), site=sw.site_of(["site.yaml"]))


def test_a_device_with_less_power_is_still_the_one_that_was_measured(capsys):
    held = "{base: dgx-h100, node: {device: {base: h100-sxm, power_limit: 500 W}}}"
    Path("run.yaml").write_text(RUN.replace("dgx-h100", held))
    assert answered(capsys, "predict", "run.yaml", "--site", "site.yaml")["known_runs"] == 1


def test_who_does_not_read_the_key_says_how_to_give_it():
    with pytest.raises(sw.InputError, match=r'site=sw.site_of\(\["site.yaml"\]\)'):
        sw.run("with_site.yaml")


def test_one_site_at_a_time():
    with pytest.raises(sw.InputError, match="second site file"):
        sw.site_of(["site.yaml", "site.yaml"])
