"""DiLoCo: a step of one island, and what meeting the others adds to it.

Holds `predict_islands` and `IslandsPrediction`. Outer gradients are summed by a ring over all
islands: each sends and receives 2 (n - 1) / n of the model, in 2 (n - 1) messages. The outer
optimizer itself and islands that differ in speed are not counted.
"""

from dataclasses import dataclass
from pathlib import Path

from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.catalogue import Folders, takes_catalogue
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Run
from syncwall.describe.files import run_and
from syncwall.describe.rl_and_islands import OUTER_BYTES, Islands
from syncwall.public import Answer, published


@published(
    "step_s inner_s=inner.step_s outer_s outer_bytes exposed_s utilisation mfu tokens_per_s gpus",
    "fits islands inner=inner.step run=inner.run",
    inner="A step of one island, as `predict` has it for `run`.",
    run="The run of one island.",
)
@dataclass(frozen=True)
class IslandsPrediction(Answer):
    """What to expect of islands that train together."""

    verb = "predict islands"
    islands: Islands
    inner: Prediction
    """A step inside of one island."""

    @property
    def outer_bytes(self) -> float:
        """What an island sends for one meeting of the whole model."""
        count = self.islands.count
        whole = float(self.inner.run.model.parameters) * OUTER_BYTES[self.islands.outer_dtype]
        return 2.0 * (count - 1) / count * whole

    @property
    def outer_s(self) -> float:
        """Seconds of one meeting of the whole model."""
        messages = 2.0 * (self.islands.count - 1) * self.islands.parts
        sent_s = self.outer_bytes / self.islands.link_bytes_per_s
        return sent_s + messages * self.islands.latency_s

    @property
    def exposed_s(self) -> float:
        """Seconds of it for which training stops, between two meetings."""
        hidden_s = self.islands.overlap * self.islands.every * self.inner.step_s
        return max(self.outer_s - hidden_s, 0.0)

    @property
    def step_s(self) -> float:
        """Seconds of a step, with its share of the meetings."""
        return self.inner.step_s + self.exposed_s / self.islands.every

    @property
    def utilisation(self) -> float:
        """Share of the time in which an island does not wait for the others."""
        return self.inner.step_s / self.step_s

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation, meetings included."""
        return self.inner.mfu * self.utilisation

    @property
    def tokens_per_s(self) -> float:
        """Of all islands together."""
        return self.islands.count * self.inner.run.tokens_per_step / self.step_s

    @property
    def gpus(self) -> int:
        """Of all islands together."""
        return self.islands.count * self.inner.run.gpus

    @property
    def fits(self) -> bool:
        """True if an island has enough memory; outer states are not counted."""
        return self.inner.fits

    def __repr__(self) -> str:
        run, fits = self.inner.run, "fits" if self.fits else "does not fit"
        return (
            f"<IslandsPrediction {run.model.name} on {self.islands.count} x {run.gpus} "
            f"{run.cluster.device.name}: step {self.step_s:.4g} s, MFU {self.mfu:.1%}, {fits}>"
        )


@takes_catalogue
def predict_islands(
    run: Run | str | Path,
    islands: Islands | str | Path | None = None,
    *,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> IslandsPrediction:
    """`islands` of which each trains as `run`, with a batch of its own.

    Both may be files, or one: a run file with the section `islands`. `measured` and `site` as in
    `predict`.

    Examples:
        >>> import syncwall as sw
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1,
        ...              layout=sw.Layout(shard="fsdp", global_batch=128))
        >>> slow = 1e9 / 8  # 1 Gb/s
        >>> islands = sw.Islands(count=14, every=100, link_bytes_per_s=slow, outer_dtype="int8")
        >>> found = sw.predict_islands(run, islands)
        >>> found
        <IslandsPrediction llama-3.1-8b on 14 x 8 h100-sxm: step ... s, MFU ...%, fits>
        >>> 0.8 < found.utilisation < 1
        True
    """
    run, islands = run_and(Islands, run, islands)
    return IslandsPrediction(islands, predict(run, measured=measured, site=site))
