"""What reaches Weights & Biases, MLflow and TensorBoard, read back from their own files."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from syncwall.cli import main
from syncwall.problems import InputError
from syncwall.watch.place import FOLDER
from syncwall.watch.summary import SnapshotFile
from syncwall.watch.trackers import Tracking, checked_tracker, figures, flat_figures
from tests.watch import lives

JOB = Path(__file__).parent / "jobs" / "ddp_job.py"
KNOWN = {
    "syncwall/step_s": 0.1,
    "syncwall/tokens_per_s": 40960.0,
    "syncwall/goodput": 0.93,
    "syncwall/loss": 3.0,
    "syncwall/findings": 1.0,
    "syncwall/ledger_s/compute": 0.085,
    "syncwall/ledger_s/exposed_communication": 0.015,
    "syncwall/finding/hung_rank": 1.0,
}


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Stores of all services in a folder, and no network."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_RUN_ID", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in stores(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def stores(folder: Path) -> dict[str, str]:
    uri = f"sqlite:///{folder}/mlflow.db"
    return {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "MLFLOW_TRACKING_URI": uri}


def needs(*modules: str) -> None:
    for one in modules:
        pytest.importorskip(one, reason=f"{one} is not installed")


def tracked(home: Path, word: str) -> None:
    """Two rounds: the first with a new finding, the last at the end."""
    tracking = Tracking(lives.recent(), home, word, 3600.0)
    tracking.round(lives.live(3, findings=(lives.HUNG,), new=(lives.HUNG,)))
    tracking.close()
    tracking._thread.join(120)  # a busy machine makes a store in more than the 8 s of an agent
    assert not tracking._thread.is_alive()


def test_a_snapshot_is_one_flat_dict():
    found = lives.recent().snapshot()
    assert found is not None
    assert flat_figures(found) == pytest.approx(KNOWN)
    over = flat_figures(replace(found, findings=(), past=(lives.HUNG,)))
    assert over["syncwall/finding/hung_rank"] == over["syncwall/findings"] == 0.0


def test_a_loop_asks_for_the_figures_of_its_job(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert figures() == {}
    recent = lives.recent()
    assert recent.live is not None
    file = SnapshotFile(recent, tmp_path)
    file.round(recent.live)
    assert figures() == pytest.approx(KNOWN)
    file.close()
    assert figures() == {}, "an agent that has left knows nothing of now"


def from_tensorboard(folder: Path) -> Any:
    module = import_module("tensorboard.backend.event_processing.event_accumulator")
    found = module.EventAccumulator(str(folder))
    found.Reload()
    return found


@pytest.mark.slow
def test_tensorboard(offline):
    needs("tensorboard")
    tracked(offline, f"tensorboard:{offline}/runs")
    found = from_tensorboard(offline / "runs")
    assert {tag: found.Scalars(tag)[-1].value for tag in found.Tags()["scalars"]} == pytest.approx(KNOWN)
    assert [one.step for one in found.Scalars("syncwall/step_s")] == [40, 40]
    (text,) = found.Tensors("syncwall/finding/hung_rank")
    assert text.tensor_proto.string_val[0].decode() == lives.HUNG.evidence


def mlflow_client(folder: Path) -> Any:
    return import_module("mlflow").MlflowClient(tracking_uri=stores(folder)["MLFLOW_TRACKING_URI"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # its own use of sqlalchemy
def test_mlflow(offline):
    needs("mlflow", "sqlalchemy", "alembic")
    tracked(offline, "mlflow")
    client = mlflow_client(offline)
    (run,) = client.search_runs(["0"])
    assert run.data.metrics == pytest.approx(KNOWN)
    assert run.data.tags["syncwall/finding.0"].startswith("hung rank at step 40: rank 1 in")
    assert run.info.status == "FINISHED"
    assert [one.step for one in client.get_metric_history(run.info.run_id, "syncwall/loss")] == [40, 40]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # its own use of sqlalchemy
def test_mlflow_logs_to_the_run_of_the_training_if_it_is_named(offline, monkeypatch):
    needs("mlflow", "sqlalchemy", "alembic")
    client = mlflow_client(offline)
    own = client.create_run("0", run_name="training").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", own)
    tracked(offline, "mlflow")
    (run,) = client.search_runs(["0"])
    assert (run.info.run_id, run.info.status) == (own, "RUNNING")
    assert run.data.metrics == pytest.approx(KNOWN)


def wandb_records(folder: Path) -> list[Any]:
    """Records of the one run in a folder: its log is LevelDB's, its messages are W&B's own."""
    messages = import_module("wandb.proto.wandb_internal_pb2")
    (file,) = folder.rglob("*.wandb")
    data, at, whole, found = file.read_bytes(), 7, b"", []
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            found.append(messages.Record.FromString(whole))
            whole = b""
    return found


def wandb_rows(folder: Path) -> list[dict[str, float]]:
    rows = [one.history for one in wandb_records(folder) if one.HasField("history")]
    return [{"/".join(i.nested_key) or i.key: float(i.value_json) for i in row.item} for row in rows]


@pytest.mark.slow
def test_wandb(offline):
    needs("wandb")
    tracked(offline, "wandb")
    rows = wandb_rows(offline)
    assert len(rows) == 2
    logged = {key: value for key, value in rows[-1].items() if key.startswith("syncwall/")}
    assert logged == pytest.approx(KNOWN | {"syncwall/step": 40.0})
    (alert,) = [one.alert for one in wandb_records(offline) if one.HasField("alert")]
    assert (alert.title, alert.text) == ("syncwall: hung rank", lives.HUNG.evidence)


@pytest.mark.slow
def test_a_tracker_that_fails_is_said_once_and_delays_nobody(offline, monkeypatch, capfd):
    needs("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://x")
    tracked(offline, "mlflow")
    assert capfd.readouterr().err.count("syncwall watch: mlflow takes no figures: ") == 1


def test_what_cannot_be_logged_to_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "wandb").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("syncwall.watch.trackers.find_spec", lambda _: None)
    assert main(["watch", "--to", "wandb", "--", "touch", "ran"]) == 2
    assert 'wandb is missing: pip install "syncwall[wandb]"' in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    with pytest.raises(InputError, match='no tracker is called "wanb"; did you mean "wandb"'):
        checked_tracker("wanb")
    with pytest.raises(InputError, match="only tensorboard:DIR has a folder"):
        checked_tracker("mlflow:runs")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_one_flag_logs_a_real_job_to_all_of_them(offline):
    needs("torch", "wandb", "mlflow", "sqlalchemy", "alembic", "tensorboard")
    words = ["-m", "syncwall", "watch", "--to", "wandb", "mlflow", f"tensorboard:{offline}/runs", "--"]
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", str(JOB)]
    env = {**os.environ, "STEPS": "100", "COMPUTE_S": "0.02"}
    assert mlflow_client(
        offline
    ).search_experiments()  # on a busy host a new store takes longer than a job waits
    subprocess.run([sys.executable, *words, *job], env=env, timeout=120, check=True)
    (run,) = mlflow_client(offline).search_runs(["0"])
    assert run.info.run_name == "ddp_job.py"
    shown = [
        from_tensorboard(offline / "runs").Scalars("syncwall/step_s")[-1].value,
        run.data.metrics["syncwall/step_s"],
        wandb_rows(offline)[-1]["syncwall/step_s"],
    ]
    assert shown == pytest.approx([shown[0]] * 3, rel=0.5)
    assert shown[0] > 0.02
