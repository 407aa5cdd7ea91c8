"""Files of `examples/watch` are what they say."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from syncwall.watch.exporters import ALERT, ALL, LIFE, OTLP, PROMETHEUS, STEPS, TOKEN, WEBHOOK
from syncwall.watch.place import FOLDER as FOLDER_VARIABLE
from syncwall.watch.place import NO_AGENT

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


def pods(name):
    """Pods of a manifest, each with how many there are."""
    spec = yaml.safe_load((FOLDER / name).read_text())["spec"]
    if name == "jobset.yaml":
        (job,) = spec["replicatedJobs"]
        return [(job["template"]["spec"]["template"]["spec"], job["template"]["spec"]["parallelism"])]
    replicas = spec["pytorchReplicaSpecs"].values()
    return [(one["template"]["spec"], one["replicas"]) for one in replicas]


@pytest.mark.parametrize("name", ["jobset.yaml", "pytorchjob.yaml"])
def test_a_manifest_gives_ranks_and_agent_the_same_folder(name):
    known = {PROMETHEUS, OTLP, WEBHOOK, ALERT, LIFE, STEPS, TOKEN, FOLDER_VARIABLE, NO_AGENT}
    assert sum(number for _, number in pods(name)) == 4
    for pod, _ in pods(name):
        (agent,), (train,) = pod["initContainers"], pod["containers"]
        assert pod["shareProcessNamespace"]
        assert (agent["restartPolicy"], agent["stdin"]) == ("Always", True)
        assert agent["env"] == train["env"]
        stated = {one["name"]: one.get("value") for one in agent["env"]}
        assert stated.keys() <= known
        (rings,) = [one for one in pod["volumes"] if one.get("emptyDir")]
        assert rings["emptyDir"]["medium"] == "Memory"
        mounted = {one["name"]: one["mountPath"] for one in agent["volumeMounts"]}
        assert mounted[rings["name"]] == stated[FOLDER_VARIABLE] == agent["command"][3]
        assert agent["volumeMounts"] == train["volumeMounts"]


def test_the_slurm_script_is_a_script():
    subprocess.run(["bash", "-n", str(FOLDER / "train.sbatch")], check=True)
