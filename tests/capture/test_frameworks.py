"""Scripts of Hugging Face's Trainer and of Lightning, unmodified."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from syncwall.capture.script import Script, record_script
from syncwall.work.program import sent

TRAINER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        words = torch.randint(0, 1000, (128,))
        return {"input_ids": words, "labels": words}


if __name__ == "__main__":
    config = LlamaConfig(
        vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
        num_attention_heads=4,
    )
    asked = TrainingArguments(
        "out", per_device_train_batch_size=4, max_steps=10, bf16=True, report_to=[],
        dataloader_num_workers=2,
    )
    Trainer(LlamaForCausalLM(config), asked, train_dataset=Words()).train()
"""
LIGHTNING = """
import lightning
import torch


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)
        )

    def training_step(self, batch, index):
        (x,) = batch
        loss = (self.net(x) - x).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


data = torch.utils.data.TensorDataset(torch.randn(4096, 64))
loader = torch.utils.data.DataLoader(data, 32, num_workers=2)
trainer = lightning.Trainer(
    max_steps=20, accelerator="gpu", devices=8, num_nodes=2, strategy="ddp", logger=False,
    enable_checkpointing=False,
)
trainer.fit(Regression(), loader)
"""


def recorded(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    Path("train.py").write_text(text)
    return record_script(Script("train.py"), world_size=16)


@pytest.mark.slow
def test_a_script_of_the_trainer(tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    program = recorded(TRAINER, tmp_path, monkeypatch)
    tokens, layer = 4 * 128, 4 * 256 * 256 + 3 * 256 * 512
    gemms = 3 * 2 * tokens * (2 * layer + 256 * 1000)
    attention = 3 * 2 * 2 * 4 * 256 * 128 * 129 / 2 * 2
    assert program.ranks[0].model_flops == pytest.approx(gemms + attention, rel=0.02)
    assert any(row.kind == "all-reduce" and row.ranks == 16 for row in sent(program.ranks[0]))


@pytest.mark.slow
def test_a_script_of_lightning(tmp_path, monkeypatch):
    pytest.importorskip("lightning", reason="lightning is not installed")
    program = recorded(LIGHTNING, tmp_path, monkeypatch)
    assert program.ranks[0].model_flops == 5 * 2 * 32 * 64 * 256
    weights = 2 * 64 * 256 + 256 + 64
    (reduced,) = [row for row in sent(program.ranks[0]) if row.kind == "all-reduce"]
    assert (reduced.ranks, reduced.bytes) == (16, 4 * weights)
