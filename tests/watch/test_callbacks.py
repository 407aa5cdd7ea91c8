"""Callbacks tell what frameworks log, in real loops of theirs."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

from syncwall.watch import attach
from syncwall.watch.callbacks import Later, tell_logged


@pytest.fixture
def told(monkeypatch):
    """What was told, and nothing is watched."""
    found = []
    for module in ("attach", "callbacks", "callbacks.huggingface"):
        name = f"syncwall.watch.{module}.tell"
        if module.endswith("huggingface"):
            pytest.importorskip("transformers", reason="transformers is not installed")
        monkeypatch.setattr(
            name, lambda **values: found.append({k: v for k, v in values.items() if v is not None})
        )
    return found


def without_start(monkeypatch, module):
    started: list[str | None] = []
    monkeypatch.setattr(f"syncwall.watch.callbacks.{module}.start", started.append)
    return started


@pytest.mark.parametrize("name", ["loss", "train_loss", "loss_metrics/global_avg_loss"])
def test_losses_have_many_names(told, name):
    tell_logged({name: 2.5, "lr": 1e-3, "grad_norm": 0.7})
    assert told == [{"loss": 2.5, "gradient_norm": 0.7}]


class Event:
    def __init__(self):
        self.done = False

    def query(self):
        return self.done


class OnDevice:
    is_cuda = True

    def detach(self):
        return self


def test_a_loss_on_a_device_is_told_when_it_has_arrived(told, monkeypatch):
    events = []

    def sent(_):
        events.append(Event())
        return float(len(events)), events[-1]

    monkeypatch.setattr(Later, "_sent", staticmethod(sent))
    later = Later()
    later.tell(OnDevice())
    later.tell(OnDevice())
    assert told == []
    events[0].done = True
    later.tell(OnDevice())
    assert told == [{"loss": 1.0}]
    for _ in range(100):
        later.tell(OnDevice())
    assert len(events) == 17, "no more than sixteen are waited for"


class Line(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return {"x": torch.ones(4), "labels": torch.ones(1)}


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean()}


def test_hugging_face(told, monkeypatch, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    from syncwall.watch.callbacks.huggingface import WatchCallback

    started = without_start(monkeypatch, "huggingface")
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=8,
        num_train_epochs=1,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        include_num_input_tokens_seen="all",
    )
    trainer = transformers.Trainer(
        Small(), arguments, train_dataset=Line(), callbacks=[WatchCallback("run.yaml")]
    )
    trainer.main_input_name = "x"
    trainer.model.main_input_name = "x"
    trainer.train()
    assert started == ["run.yaml"]
    losses = [one["loss"] for one in told if "loss" in one]
    assert len(losses) >= 4
    assert losses[-1] < losses[0]
    assert {one["tokens"] for one in told if "tokens" in one} == {32.0}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_lightning(told, monkeypatch):
    lightning: Any = pytest.importorskip("lightning.pytorch", reason="lightning is missing")
    from syncwall.watch.callbacks.lightning import WatchCallback

    started = without_start(monkeypatch, "lightning")

    base: Any = lightning.LightningModule

    class Module(base):
        def __init__(self):
            super().__init__()
            self.inside = Small()

        def training_step(self, batch, _):
            return self.inside(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[WatchCallback()],
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(Line(), batch_size=8))
    assert started == [None]
    assert len(told) == 4


def test_accelerate(told, monkeypatch):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    from syncwall.watch.callbacks.accelerate import WatchTracker

    started = without_start(monkeypatch, "accelerate")
    accelerator = accelerate.Accelerator(cpu=True, log_with=WatchTracker())
    accelerator.init_trackers("run")
    accelerator.log({"train_loss": 2.0}, step=1)
    assert started == [None]
    assert told == [{"loss": 2.0}]


def test_torchtitan_has_the_methods_of_a_logger(told, monkeypatch):
    from syncwall.watch.callbacks.torchtitan import WatchLogger

    started = without_start(monkeypatch, "torchtitan")
    logger = WatchLogger("run.yaml")
    logger.log({"loss_metrics/global_avg_loss": 3.0, "grad_norm": 1.0}, step=4)
    logger.close()
    assert started == ["run.yaml"]
    assert told == [{"loss": 3.0, "gradient_norm": 1.0}]
    assert attach._watching is None
