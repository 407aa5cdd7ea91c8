"""DiLoCo: a step of one island, and what meeting the others adds to it.

Holds `predict_islands` and `IslandsPrediction`. Outer gradients are summed by a ring over all
islands: each sends and receives 2 (n - 1) / n of the model, in 2 (n - 1) messages. The outer
optimizer itself and islands that differ in speed are not counted.
"""

from dataclasses import dataclass

from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Run
from syncwall.describe.islands import OUTER_BYTES, Islands


@dataclass(frozen=True)
class IslandsPrediction:
    """What to expect of islands that train together."""

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


def predict_islands(run: Run, islands: Islands) -> IslandsPrediction:
    """`islands` of which each trains as `run`, with a batch of its own.

    Examples:
        >>> import syncwall as sw
        >>> from syncwall.answer.islands import predict_islands
        >>> from syncwall.describe.islands import Islands
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=1,
        ...              layout=sw.Layout(shard="fsdp", global_batch=128))
        >>> found = predict_islands(run, Islands(count=14, every=100, link="1Gb/s",
        ...                                      outer_dtype="int8"))
        >>> 0.8 < found.utilisation < 1
        True
    """
    return IslandsPrediction(islands, predict(run))
