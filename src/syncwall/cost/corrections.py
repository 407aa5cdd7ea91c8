"""Formulas corrected by, and communication priced by, measurements of the machine itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from syncwall.cost.calibration import Calibration
from syncwall.cost.communication import Network, ring_start_seconds
from syncwall.cost.compute import (
    attention_seconds,
    convolution_seconds,
    elementwise_seconds,
    gemm_alone_seconds,
)
from syncwall.cost.framework_costs import ResolvedSoftware
from syncwall.cost.measured import CollectiveTable
from syncwall.cost.path import Path, path
from syncwall.describe import Cluster
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.work.number import Number
from syncwall.work.operations import (
    Collective,
    Convolution,
    CoreAttention,
    Elementwise,
    Gemm,
    Group,
    Transfer,
)

_OTHER_ROLE: Final = float(np.log(4.0))
"""How far apart two shapes of different roles are: as if one dimension were four times larger."""
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class _Nearby:
    """Corrections at measured places, and between them."""

    places: NDArray[np.float64]
    """Logarithms of the dimensions, one row for each point."""
    logs: NDArray[np.float64]
    """Logarithms of measured over predicted time."""

    def factor(self, place: Sequence[Number]) -> Number:
        """Measured over predicted at `place` (logarithms): the nearest points count most.

        Inverse-distance weighting (Shepard 1968) with the fourth power of the distance.
        """
        apart: NDArray[np.float64] = np.zeros(1)
        for axis, value in enumerate(np.broadcast_arrays(*place)):
            known = self.places[:, axis].reshape((-1,) + (1,) * np.ndim(value))
            apart = apart + (value[None, ...] - known) ** 2
        weights = 1.0 / (apart + _SAME) ** 2
        logs = self.logs.reshape((-1,) + (1,) * (np.ndim(weights) - 1))
        found = np.exp((weights * logs).sum(axis=0) / weights.sum(axis=0))
        return float(found) if np.ndim(found) == 0 else found


class Corrections:
    """Factors on the formulas of one device; 1 where nothing was measured."""

    def __init__(self, device: Device, fit: Calibration, setting: ResolvedSoftware) -> None:
        self._device, self._fit, self._setting = device, fit, setting
        measured = fit.measured
        dtypes = {point.dtype for point in measured.gemm}
        self._gemm = {dtype: self._gemms(dtype) for dtype in dtypes}
        self._attention = self._attentions() if measured.attention else None
        self._convolution = self._convolutions() if measured.convolution else None
        kinds = {point.kind for point in measured.elementwise}
        self._elementwise = {kind: self._elementwises(kind) for kind in kinds}

    def gemm(self, gemm: Gemm) -> Number:
        """Factor on `gemm_seconds`."""
        nearby = self._gemm.get(gemm.dtype)
        return nearby.factor(_gemm_place(gemm)) if nearby else 1.0

    def attention(self, attention: CoreAttention) -> Number:
        """Factor on `attention_seconds`."""
        return self._attention.factor(_attention_place(attention)) if self._attention else 1.0

    def convolution(self, convolution: Convolution) -> Number:
        """Factor on `convolution_seconds`."""
        nearby = self._convolution
        return nearby.factor(_convolution_place(convolution)) if nearby else 1.0

    def elementwise(self, elementwise: Elementwise) -> Number:
        """Factor on `elementwise_seconds`; of kinds not measured, that of plain work (no kind)."""
        kind = elementwise.kind
        names = (kind, kind.removesuffix(" backward"), "")
        nearby = next((self._elementwise[name] for name in names if name in self._elementwise), None)
        return nearby.factor([np.log(np.maximum(elementwise.bytes, 1.0))]) if nearby else 1.0

    def _gemms(self, dtype: Dtype) -> _Nearby:
        points = [point for point in self._fit.measured.gemm if point.dtype is dtype]
        gemms = [Gemm(p.m, p.n, p.k, p.dtype, is_weight_gradient=p.is_weight_gradient) for p in points]
        formula_s = [gemm_alone_seconds(gemm, self._device, self._fit.gemm) for gemm in gemms]
        return _nearby([_gemm_place(gemm) for gemm in gemms], [p.seconds for p in points], formula_s)

    def _attentions(self) -> _Nearby:
        points = self._fit.measured.attention
        whole = [
            CoreAttention(
                *(p.batch, p.heads, p.length, p.length, p.head_dim, p.head_dim, p.kv_heads),
                is_backward=p.is_backward,
                is_causal=p.is_causal,
            )
            for p in points
        ]
        fit, setting = self._fit.attention, self._setting
        formula_s = [attention_seconds(what, self._device, fit, setting) for what in whole]
        places = [_attention_place(what) for what in whole]
        return _nearby(places, [p.seconds for p in points], formula_s)

    def _convolutions(self) -> _Nearby:
        points = self._fit.measured.convolution
        whole = [Convolution(p.m, p.n, p.k, p.bytes, p.groups, p.dtype, p.is_backward) for p in points]
        gemm, elementwise = self._fit.gemm, self._fit.elementwise
        formula_s = [convolution_seconds(c, self._device, gemm, elementwise) for c in whole]
        places = [_convolution_place(what) for what in whole]
        return _nearby(places, [p.seconds for p in points], formula_s)

    def _elementwises(self, kind: str) -> _Nearby:
        points = [point for point in self._fit.measured.elementwise if point.kind == kind]
        fit, setting = self._fit.elementwise, self._setting
        fused = kind == "optimizer"
        works = [Elementwise(p.bytes, is_fused=fused, kind=kind) for p in points]
        formula_s = [elementwise_seconds(work, self._device, fit, setting) for work in works]
        return _nearby([[np.log(p.bytes)] for p in points], [p.seconds for p in points], formula_s)


def _nearby(places: list[list[Number]], seconds: list[float], formula_s: list[Number]) -> _Nearby:
    return _Nearby(np.asarray(places, dtype=float), np.log(np.asarray(seconds) / np.asarray(formula_s)))


def _gemm_place(gemm: Gemm) -> list[Number]:
    sizes = [np.log(np.maximum(size, 1.0)) for size in (gemm.m, gemm.n, gemm.k)]
    return [*sizes, _role(gemm.is_weight_gradient)]


def _attention_place(attention: CoreAttention) -> list[Number]:
    heads = np.log(np.maximum(attention.batch * attention.heads, 1e-3))
    length = np.log(np.maximum(attention.q_len, 1.0))
    dim = np.log(np.maximum(attention.head_dim, 1.0))
    roles = (attention.is_backward, not attention.is_causal)
    return [heads, length, dim, *map(_role, roles)]


def _convolution_place(convolution: Convolution) -> list[Number]:
    c = convolution
    sizes = [np.log(np.maximum(size, 1.0)) for size in (c.m, c.n, c.k, c.groups)]
    return [*sizes, _role(c.is_backward)]


def _role(flag: bool) -> float:
    """A role of an operation as one more dimension of its place."""
    return _OTHER_ROLE if flag else 0.0


class MeasuredNetwork:
    """Measured tables for groups that stand as the measured ones did; `otherwise` for the rest.

    `today` is `otherwise` on the wires that were measured: if they are no longer the same, measured
    times change as the formulas' do.
    """

    def __init__(
        self,
        tables: tuple[CollectiveTable, ...],
        cluster: Cluster,
        otherwise: Network,
        today: Network,
    ) -> None:
        self._tables = tables
        self._cluster = cluster
        self._otherwise = otherwise
        self._today = today

    def collective_seconds(self, collective: Collective) -> Number:
        """Time of all calls; zero for one rank or no bytes."""
        found = formula = self._otherwise.collective_seconds(collective)
        where = path(collective.group, self._cluster)
        size = collective.bytes / collective.calls
        for table in self._tables:
            if table.kind == collective.kind:
                same = (where.ranks == table.ranks) & (where.nodes == table.nodes) & (size > 0)
                if np.any(same):
                    all_s = table.seconds(size) * collective.calls * collective.share
                    found = np.where(same, all_s * self._changed(collective, formula), found)
        return found

    def ring_start_seconds(self, collective: Collective) -> Number:
        """What does not depend on the size, as the formulas have it."""
        return ring_start_seconds(self._otherwise, collective)

    def path(self, group: Group) -> Path:
        """Where the ranks of `group` stand on this machine."""
        return path(group, self._cluster)

    def transfer_seconds(self, transfer: Transfer) -> Number:
        """A message to the next stage."""
        return self._otherwise.transfer_seconds(transfer)

    def _changed(self, collective: Collective, formula_s: Number) -> Number:
        """Time on these wires over that on those that were measured."""
        if self._today is self._otherwise:
            return 1.0
        before_s = self._today.collective_seconds(collective)
        return np.where(before_s > 0, formula_s / np.maximum(before_s, 1e-300), 1.0)
