"""The example package: installed, it changes a prediction and reads a file."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import syncwall as sw
from syncwall import plugins
from syncwall.explain.answer import explain
from syncwall.show.prediction import assumed, evidence

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples" / "plugin"


def run() -> sw.Run:
    return sw.Run(
        model=sw.model("llama-3.1-8b"),
        cluster=sw.cluster("dgx-h100", nodes=256),
        layout=sw.Layout(shard="fsdp", global_batch=2048, micro_batch=1),
    )


def test_its_entries_change_a_prediction_and_read_a_file(tmp_path, monkeypatch):
    """From its sources, with the entry points of its pyproject.toml."""
    monkeypatch.setattr(plugins, "_FOUND", {})
    before = sw.predict(run())
    plugins._FOUND.clear()
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    info = tmp_path / "syncwall_example-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
            for group, points in project["entry-points"].items()
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(PLUGIN / "src")
    after = sw.predict(run())
    assert after.step_s < 0.7 * before.step_s
    assert assumed(after)[0].startswith(
        "all-gather of shard, reduce-scatter of shard by RecursiveDoubling of syncwall-example 0.1"
    )
    assert evidence(after).count("without the plug-in that this one rests on")
    assert sw.cluster("example-cluster").nic_groups[0] == (0, 1)
    (finding,) = explain([PLUGIN / "steps.csv"]).findings
    assert "one every 20 steps" in finding.what


@pytest.mark.slow
def test_installed_by_pip_it_does_so_for_the_command_line(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, PLUGIN],
        check=True,
    )
    without = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    beside = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"}

    def answer(environment: dict[str, str], words: str) -> Any:
        command = [sys.executable, "-m", "syncwall", *words.split(), "--json"]
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        assert done.returncode in (0, 3), done.stderr  # 3: suspect
        return json.loads(done.stdout)

    asked = "predict --model llama-3.1-8b --cluster dgx-h100 --nodes 256 --shard fsdp"
    asked += " --global-batch 2048"
    assert answer(beside, asked)["step_s"] < 0.8 * answer(without, asked)["step_s"]
    found = answer(beside, f"explain {PLUGIN / 'steps.csv'}")
    assert found["files"] == {"step log": 1}
    own_tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run([*own_tests, str(PLUGIN / "tests")], check=True, env=beside)
