"""Published speeds of models that are no transformers, and published layouts beside the best.

Nothing was fitted to any of them. Sources of `ROWS`: NVIDIA DeepLearningExamples,
PyTorch/Classification/ConvNets/resnet50v1.5/README.md (mixed precision, NGC 21.03, 256 images a
GPU); mosaicml/diffusion, README.md (U-Net of Stable Diffusion 2 with latents computed before) with
yamls/hydra-yamls/SD-2-base-256.yaml and SD-2-base-512.yaml.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import syncwall as sw
from bench import ROOT
from syncwall.describe import Layout, Software
from syncwall.documents import read_document
from syncwall.plan.search import Candidate, search
from syncwall.show.layout import layout_words

CASES: Final = ROOT / "tests" / "data" / "published_layouts.yaml"
_ON: Final = {"overlap_gradients": True, "overlap_parameters": True, "overlap_pp": True}
_IMAGES: Final = {"shard": "ddp", "micro_batch": 256, "optimizer": "sgd"}
_LATENTS: Final = {"shard": "zero2", "micro_batch": 16, "global_batch": 2048}


@dataclass(frozen=True, slots=True)
class Row:
    """One published speed: samples in a second, measured."""

    model: str
    cluster: str
    gpus: int
    per_s: float
    layout: dict[str, Any]
    date: str


def _rows() -> Iterator[Row]:
    v100 = "jean-zay-v100"  # a V100 with 32 GB, in NVIDIA's table of a DGX-1
    for cluster, gpus, per_s in ((v100, 1, 1156), ("dgx-a100", 1, 2470), ("dgx-a100", 8, 16621)):
        yield Row("resnet-50", cluster, gpus, per_s, _IMAGES, "2021-03")
    speeds = {256: (1100, 2180, 4080, 8530, 11600), 512: (290, 585, 1195, 2340, 4590)}
    for pixels, each in speeds.items():
        for gpus, per_s in zip((8, 16, 32, 64, 128), each, strict=True):
            yield Row(f"unet-sd2-{pixels}", "dgx-a100", gpus, per_s, _LATENTS, "2023-03")


ROWS: Final = tuple(_rows())


@dataclass(frozen=True, slots=True)
class PredictedSpeed:
    row: Row
    per_s: float
    interval: tuple[float, float]

    @property
    def error(self) -> float:
        return self.per_s / self.row.per_s - 1.0

    @property
    def inside(self) -> bool:
        return self.interval[0] <= self.row.per_s <= self.interval[1]


def predicted_speeds() -> Iterator[PredictedSpeed]:
    """All rows, fp16 on eager PyTorch; A100 as those of a DGX A100 where no machine is named."""
    for row in ROWS:
        stated: dict[str, Any] = {
            "model": str(ROOT / "examples" / "models" / f"{row.model}.yaml"),
            "layout": {**row.layout, "precision": "fp16", "recompute": "none"},
            "software": {"framework": "pytorch", "date": row.date},
        }
        run = sw.Run.model_validate(stated | {"cluster": row.cluster, "gpus": row.gpus})
        found, samples = sw.predict(run), float(run.layout.global_batch or 0)
        short_s, long_s = found.step_interval_s
        yield PredictedSpeed(row, samples / found.step_s, (samples / long_s, samples / short_s))


def stacks() -> None:
    """Published speeds of models that are no transformers, beside predictions."""
    every = list(predicted_speeds())
    for one in every:
        low, high = one.interval
        print(
            f"{one.row.model:13} {one.row.gpus:4} {one.row.cluster:14} {one.row.per_s:8,.0f} "
            f"{one.per_s:8,.0f} {one.error:+.0%}  {low:,.0f} to {high:,.0f}"
        )
    mean = sum(abs(one.error) for one in every) / len(every)
    print(f"mean error {mean:.0%}, {sum(one.inside for one in every)} of {len(every)} inside")


@dataclass(frozen=True)
class PublishedLayout:
    name: str
    published: sw.Prediction
    best: Candidate

    @property
    def ratio(self) -> float:
        return self.published.step_s / self.best.step_s


def published_layouts() -> Iterator[PublishedLayout]:
    """Layouts of large published runs against the best that the search finds for the same."""
    for case in read_document(CASES).value:
        model, cluster = sw.model(case["model"]), sw.cluster(case["cluster"], nodes=case["nodes"])
        software = Software(framework="megatron-core", date=case["date"])
        stated = {**case["layout"], **case["pinned"], "micro_batch": 1, "recompute": "none"}
        about = {"seq": case["seq"], "software": software}
        run = sw.Run(model=model, cluster=cluster, layout=Layout.model_validate(stated), **about)
        about |= {"global_batch": stated["global_batch"], "pinned": {**_ON, **case["pinned"]}}
        best = search(model, cluster, **about).best(1)[0]
        yield PublishedLayout(case["name"], sw.predict(run), best)


def layouts() -> None:
    """Layouts of large published runs beside the best that the search finds."""
    for one in published_layouts():
        step_s, needs = one.published.step_s, one.published.memory_bytes / 1e9
        print(f"{one.name:<28} {one.ratio:.3f} x the best   {step_s:6.2f} s, {needs:.0f} GB")
        print(f"{'':28} best: {one.best.step_s:6.2f} s   {layout_words(one.best.layout)}")
