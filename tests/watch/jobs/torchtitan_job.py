"""torchtitan's own `Trainer` with FSDP2 on CPUs, with the faults of `framework_job`.

torchtitan knows no CPU: it is told that one is its device, and that it has no memory statistics.
Its text data sets, whose packages are large, are left out: a `TrainSpec` has batches of its own.
"""

# ruff: noqa: E402 - torchtitan looks for a device when it is imported
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import DataLoader

torch._utils._get_available_device_type = lambda: "cpu"
NONE: Any = SimpleNamespace(total_memory=1, name="cpu")
for name, answer in {
    "get_device_name": "cpu",
    "get_device_properties": NONE,
    "memory_stats": {},
    "reset_peak_memory_stats": None,
    "empty_cache": None,
}.items():
    setattr(torch.cpu, name, lambda *_, answer=answer: answer)


def absent() -> dict[str, Any]:
    """Packages of data sets and of GPU kernels, which importing torchtitan asks for."""
    sets, loader = SimpleNamespace(Dataset=object, load_dataset=None), SimpleNamespace()
    loader.StatefulDataLoader = DataLoader
    made = {
        "datasets": sets,
        "datasets.distributed": SimpleNamespace(split_dataset_by_node=None),
        "torchdata": SimpleNamespace(),
        "torchdata.stateful_dataloader": loader,
    }
    found = {name: one for name, one in made.items() if find_spec(name.partition(".")[0]) is None}
    kernels = SimpleNamespace(generate_permute_indices=None)
    return found | ({} if find_spec("triton") else {"torchtitan.models.moe.kernels": kernels})


sys.path[:0] = [os.environ["TORCHTITAN"], str(Path(__file__).parents[3])]

stubs = absent()
sys.modules.update(stubs)
from torchtitan.components.loss import build_cross_entropy_loss
from torchtitan.components.lr_scheduler import build_lr_schedulers
from torchtitan.components.optimizer import build_optimizers
from torchtitan.config import JobConfig
from torchtitan.distributed import utils
from torchtitan.models.llama3 import Transformer, TransformerModelArgs, parallelize_llama
from torchtitan.protocols.train_spec import TrainSpec, register_train_spec
from torchtitan.train import Trainer

for name in stubs:
    del sys.modules[name]

from tests.watch.jobs.framework_job import BATCH, LENGTH, STEPS, WIDTH, WORDS, Faults, Text


class Batches:
    """What torchtitan takes for a data loader."""

    def __init__(self, **_):
        self.loader = DataLoader(Text(), BATCH)

    def __iter__(self):
        for batch in self.loader:
            ids = batch["input_ids"]
            yield {"input": ids[:, :-2].contiguous()}, ids[:, 1:-1].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, _):
        pass


def loss_of(config, **_):
    made = build_cross_entropy_loss(config)

    def kept(predicted, labels):
        loss = made(predicted, labels)
        FAULTS[0].keep(loss)
        return loss

    return kept


FAULTS: list[Faults] = []


def parallelized(model, dims, config):
    made = parallelize_llama(model, dims, config)
    for part in made.modules():
        if isinstance(part, FSDPModule):  # Gloo knows no scaled sums
            part.set_force_sum_reduction_for_comms(True)
    FAULTS.append(Faults(made, gives_loss=False))
    return made


def main():
    sizes = {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "vocab_size": WORDS}
    register_train_spec(
        "tiny",
        TrainSpec(
            Transformer,
            {"tiny": TransformerModelArgs(**sizes)},
            parallelized,
            None,
            build_optimizers,
            build_lr_schedulers,
            Batches,
            None,
            loss_of,
        ),
    )
    config = JobConfig()
    config.job.dump_folder = tempfile.mkdtemp()
    config.model.name = config.model.flavor = "tiny"
    config.training.steps, config.training.seq_len = STEPS, LENGTH - 2
    config.training.local_batch_size = BATCH
    config.training.mixed_precision_param = "float32"
    config.debug.seed = 0
    config.optimizer.implementation = "for-loop"
    utils.set_pg_timeouts = lambda **_: None  # a barrier with a device, which Gloo refuses
    trainer = Trainer(config)
    trainer.train()
    trainer.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
