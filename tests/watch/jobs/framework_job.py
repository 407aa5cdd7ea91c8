"""A tiny GPT trained as people do, by the loop that `FRAMEWORK` names, with faults on demand.

Knows nothing of syncwall. With `FAULTS` rank 1 is slow for some steps, its data stalls once, and
weights grow until the loss jumps; `LOSSES` is a file for the losses of rank 0, as exact numbers.
"""

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RANK = int(os.environ["RANK"])
FAULTY = bool(os.environ.get("FAULTS"))
STEPS = int(os.environ["STEPS"])
SLOW = range(50, 150)
STALL, STALL_S, SPIKE = 160, 5.0, 180
COMPUTE_S, SLOW_S = 0.01, 0.015
BATCH, LENGTH, WORDS, WIDTH = 4, 16, 64, 32


class Text(Dataset):
    """Batches of words, of which one comes late."""

    def __init__(self):
        self.read = 0
        self.words = torch.randint(0, WORDS, (4096,), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return 2 * STEPS * BATCH

    def __getitem__(self, index):
        if FAULTY and RANK == 1 and self.read == STALL * BATCH:
            time.sleep(STALL_S)
        self.read += 1
        at = index * 7 % 4000
        return {"input_ids": self.words[at : at + LENGTH], "labels": self.words[at : at + LENGTH]}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.mlp(self.norms[1](x))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.head = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids, labels):
        found = self.head(self.blocks(self.words(input_ids)))[:, :-1]
        return functional.cross_entropy(found.reshape(-1, WORDS), labels[:, 1:].reshape(-1))


class Faults:
    """What happens in forward passes of a model, and what is kept of its losses."""

    def __init__(self, model, *, gives_loss=True):
        self.step = -1
        self.losses = os.environ["LOSSES"] if RANK == 0 else os.devnull
        model.register_forward_pre_hook(self.before)
        if gives_loss:
            model.register_forward_hook(lambda _, given, out: self.keep(out))

    def before(self, model, _):
        self.step += 1
        time.sleep(COMPUTE_S + SLOW_S * (FAULTY and RANK == 1 and self.step in SLOW))
        if FAULTY and self.step == SPIKE:
            for one in model.parameters():
                one.data.mul_(10.0)

    def keep(self, out):
        loss = out["loss"] if isinstance(out, dict) else out
        with Path(self.losses).open("a") as file:
            file.write(f"{loss.item().hex()}\n")


def model():
    made = Gpt()
    Faults(made)
    return made


def plain():
    """As in nanoGPT."""
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(model())
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    for batch in DataLoader(text := Text(), BATCH, sampler=DistributedSampler(text, shuffle=False)):
        loss = ddp(**batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    dist.destroy_process_group()


def accelerate():
    from accelerate import Accelerator

    accelerator, made = Accelerator(cpu=True), model()
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-3)
    made, optimizer, loader = accelerator.prepare(made, optimizer, DataLoader(Text(), BATCH))
    for batch in loader:
        loss = made(**batch)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(made.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def trainer():
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    sizes = {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    llama = LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, num_attention_heads=2, **sizes))
    Faults(llama)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        disable_tqdm=True,
    )
    Trainer(llama, arguments, train_dataset=Text()).train()


def lightning():
    import lightning as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.inside = model()

        def training_step(self, batch, _):
            return self.inside(**batch)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    made = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=int(os.environ["WORLD_SIZE"]),
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    made.fit(Module(), DataLoader(Text(), BATCH))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    {one.__name__: one for one in (plain, accelerate, trainer, lightning)}[os.environ["FRAMEWORK"]]()
