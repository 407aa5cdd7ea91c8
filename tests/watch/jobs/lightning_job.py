"""A Lightning module, unmodified: its optimizer gets a closure with the passes in it."""

import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, _):
        self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    data = DataLoader(TensorDataset(torch.ones(64, 8)), batch_size=2)
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        default_root_dir=sys.argv[1],
        val_check_interval=16,
    )
    trainer.fit(Module(), data, data)


if __name__ == "__main__":
    main()
