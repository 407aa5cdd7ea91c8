"""What was measured on the machine itself, which beats the catalogue.

Holds `MachineMeasurements`, a file that `syncwall measure` makes and `predict --calibration` takes,
and its parts. `corrections` and `measured_network` make prices of it.
"""

from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from syncwall.describe.base import MOST, RANGES, Description, FlopPerSecond, Positive
from syncwall.describe.choice import Dtype
from syncwall.units import Dimension
from syncwall.work.number import Number
from syncwall.work.operations import CollectiveKind

Above0 = Annotated[float, Field(gt=0, le=1e18)]
_LONGEST_S = RANGES[Dimension.SECONDS][1]
Time = Annotated[float, Field(gt=0, le=_LONGEST_S)]


class GemmPoint(Description):
    """A matrix multiplication alone: its time, or its rate."""

    m: Above0
    n: Above0
    k: Above0
    dtype: Dtype
    is_weight_gradient: bool = False
    seconds: Annotated[float, Field(ge=0, le=_LONGEST_S)] = 0.0
    rate_flop_per_s: FlopPerSecond | None = Field(None, alias="rate", exclude=True)
    """Another way to write `seconds`, with its unit: 1.2 PFLOP/s, where multiply-add is two."""

    @model_validator(mode="after")
    def _timed(self) -> Self:
        if bool(self.rate_flop_per_s) == bool(self.seconds):
            raise ValueError("write one of `seconds` and `rate`, above 0")
        if self.rate_flop_per_s:
            seconds = 2.0 * self.m * self.n * self.k / self.rate_flop_per_s
            object.__setattr__(self, "seconds", seconds)
            object.__setattr__(self, "rate_flop_per_s", None)
        return self


class AttentionPoint(Description):
    """Attention alone."""

    batch: Above0
    heads: Above0
    length: Above0
    head_dim: Above0
    kv_heads: Above0
    is_backward: bool = False
    is_causal: bool = True
    seconds: Time


class ConvolutionPoint(Description):
    """A convolution alone, or one of its two gradients, as in `work.operations.Convolution`."""

    m: Above0
    n: Above0
    k: Above0
    bytes: Above0
    groups: Above0 = 1.0
    dtype: Dtype
    is_backward: bool = False
    seconds: Time


class ElementwisePoint(Description):
    """One kind of memory-bound work alone."""

    kind: str
    """As in `work.operations.Elementwise`: norm, activation, norm backward, optimizer, ..."""
    bytes: Above0
    """Traffic that the model of the work counts for it."""
    seconds: Time


class CollectiveTable(Description):
    """One kind of collective among ranks that stand in one way."""

    kind: CollectiveKind
    ranks: Annotated[int, Field(ge=2, le=MOST)]
    nodes: Positive
    points: Annotated[tuple[tuple[Above0, Time], ...], Field(min_length=1)]
    """Bytes (as nccl-tests counts them) and seconds, by rising size."""

    def seconds(self, size: Number) -> Number:
        """Time for `size` bytes: straight lines on logarithmic axes.

        Below the smallest size a call costs what that one does; above the largest, bytes cost what
        those of the largest did.
        """
        sizes, times = np.asarray(self.points, dtype=float).T
        within = np.interp(np.log(np.maximum(size, sizes[0])), np.log(sizes), np.log(times))
        seconds: Number = np.exp(within) * np.maximum(size / sizes[-1], 1.0)
        return seconds


class MachineMeasurements(Description):
    """Measured times of one machine."""

    made_at: str = ""
    device: str = ""
    """Name of the accelerator, or cpu."""
    hosts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Files that the numbers come from."""
    gemm: tuple[GemmPoint, ...] = ()
    attention: tuple[AttentionPoint, ...] = ()
    convolution: tuple[ConvolutionPoint, ...] = ()
    elementwise: tuple[ElementwisePoint, ...] = ()
    collectives: tuple[CollectiveTable, ...] = ()
    host_share: Annotated[float, Field(ge=0, lt=1)] | None = None
    """`NetworkFit.contention` of this machine; None if not measured."""
    meeting_s: Annotated[float, Field(ge=0, le=_LONGEST_S)] | None = None
    """See `RankFit.meeting_s`; None if not measured."""

    @property
    def knobs(self) -> tuple[str, ...]:
        """Kinds of work (`cost.framework_costs`) of which something was measured."""
        found = {
            "gemm": self.gemm,
            "attention": self.attention,
            "elementwise": self.elementwise,
            "network": self.collectives,
        }
        return tuple(name for name, points in found.items() if points)
