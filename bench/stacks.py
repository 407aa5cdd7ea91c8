"""Published speeds of models that are no transformers, predicted: `python -m bench.stacks`.

Holds `ROWS` and `compared`. A first look: nothing was fitted to any of them.

Sources: NVIDIA DeepLearningExamples, PyTorch/Classification/ConvNets/resnet50v1.5/README.md (mixed
precision, NGC 21.03, 256 images a GPU); mosaicml/diffusion, README.md (U-Net of Stable Diffusion 2
with latents computed before) with yamls/hydra-yamls/SD-2-base-256.yaml and SD-2-base-512.yaml.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from syncwall.answer.prediction import predict
from syncwall.describe import Run

MODELS: Final = Path(__file__).parents[1] / "examples" / "models"
BATCH: Final = 2048
"""Images of a step of Stable Diffusion, on any number of GPUs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One published speed."""

    model: str
    cluster: str
    gpus: int
    per_s: float
    """Samples in a second, measured."""
    layout: dict[str, Any]
    date: str


def _resnet(cluster: str, gpus: int, per_s: float) -> Row:
    layout = {"shard": "ddp", "micro_batch": 256, "optimizer": "sgd"}
    return Row("resnet-50", cluster, gpus, per_s, layout, "2021-03")


def _unet(pixels: int, gpus: int, per_s: float) -> Row:
    layout = {"shard": "zero2", "micro_batch": 16, "global_batch": BATCH}
    return Row(f"unet-sd2-{pixels}", "dgx-a100", gpus, per_s, layout, "2023-03")


ROWS: Final = (
    _resnet("jean-zay-v100", 1, 1156),  # a V100 with 32 GB, in NVIDIA's table of a DGX-1
    _resnet("dgx-a100", 1, 2470), _resnet("dgx-a100", 8, 16621),
    _unet(256, 8, 1100), _unet(256, 16, 2180), _unet(256, 32, 4080), _unet(256, 64, 8530),
    _unet(256, 128, 11600),
    _unet(512, 8, 290), _unet(512, 16, 585), _unet(512, 32, 1195), _unet(512, 64, 2340),
    _unet(512, 128, 4590),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """A row and its prediction."""

    row: Row
    per_s: float
    interval: tuple[float, float]

    @property
    def error(self) -> float:
        """Predicted over measured speed, less 1."""
        return self.per_s / self.row.per_s - 1.0

    @property
    def inside(self) -> bool:
        """True if the 80% interval holds what was measured."""
        return self.interval[0] <= self.row.per_s <= self.interval[1]


def compared() -> Iterator[Compared]:
    """All rows, fp16 on eager PyTorch; A100 as those of a DGX A100 where no machine is named."""
    for row in ROWS:
        layout = {**row.layout, "precision": "fp16", "recompute": "none"}
        run = Run.model_validate({
            "model": str(MODELS / f"{row.model}.yaml"), "cluster": row.cluster, "gpus": row.gpus,
            "layout": layout, "software": {"framework": "pytorch", "date": row.date},
        })  # fmt: skip
        found, samples = predict(run), float(run.layout.global_batch or 0)
        short_s, long_s = found.step_interval_s
        yield Compared(row, samples / found.step_s, (samples / long_s, samples / short_s))


if __name__ == "__main__":
    every = list(compared())
    for one in every:
        low, high = one.interval
        print(
            f"{one.row.model:13} {one.row.gpus:4} {one.row.cluster:14} {one.row.per_s:8,.0f} "
            f"{one.per_s:8,.0f} {one.error:+.0%}  {low:,.0f} to {high:,.0f}"
        )
    mean = sum(abs(one.error) for one in every) / len(every)
    print(f"mean error {mean:.0%}, {sum(one.inside for one in every)} of {len(every)} inside")
