"""Files of `examples/watch` are what they say."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from syncwall.watch.export.figures import ALL
from syncwall.watch.outlets import ALERT, LIFE, OTLP, PROMETHEUS, STEPS, TOKEN, WEBHOOK

FOLDER = Path(__file__).parents[2] / "examples" / "watch"
NAMES = {f"{one.name}_total" if one.kind == "counter" else one.name for one in ALL}


@pytest.mark.parametrize("name", ["grafana.json", "rules.yaml"])
def test_only_figures_that_exist_are_asked_for(name):
    asked = set(re.findall(r"\bsyncwall_\w+", (FOLDER / name).read_text()))
    assert asked
    assert asked <= NAMES


def test_the_dashboard_is_whole():
    board = json.loads((FOLDER / "grafana.json").read_text())
    assert len({one["id"] for one in board["panels"]}) == len(board["panels"]) == 8
    assert all(one["targets"][0]["expr"] for one in board["panels"])


def test_the_manifest_gives_ranks_and_agent_the_same_folder():
    manifest = yaml.safe_load((FOLDER / "jobset.yaml").read_text())
    pod = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    agent, train = pod["initContainers"][0], pod["containers"][0]
    assert pod["shareProcessNamespace"]
    assert agent["env"] == train["env"]
    known = {PROMETHEUS, OTLP, WEBHOOK, ALERT, LIFE, STEPS, TOKEN}
    known |= {"SYNCWALL_WATCH_FOLDER", "SYNCWALL_WATCH_AGENT"}
    assert {one["name"] for one in agent["env"]} <= known
    assert agent["volumeMounts"] == train["volumeMounts"]


def test_the_slurm_script_is_a_script():
    subprocess.run(["bash", "-n", str(FOLDER / "train.sbatch")], check=True)
