"""Layouts as arrays in which every field lies along an axis of its own.

Holds `Grid` and `grids`. Fields broadcast against each other, so what depends on few of them is
computed for few: a layer's multiplications once for each tp and micro batch, not once for each of
the hundred thousand layouts that share them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from syncwall.describe import Cluster, Layout
from syncwall.describe.choice import Choice
from syncwall.describe.layout import PLAIN, Shard
from syncwall.describe.rules import can_share, offered, possible
from syncwall.plan.choices import MEMORY_FREE, SWITCHES
from syncwall.plan.space import Space

AXES: Final = (*SWITCHES, "recompute", "pipeline", "shard", "split")
"""Axes of a grid; `split` is tp, cp, ep, etp, dp and micro batch together."""
SPLIT: Final = AXES.index("split")
FREE: Final = tuple(range(len(MEMORY_FREE)))
"""Axes that memory does not depend on: the first ones."""
CELLS: Final = 2**17
"""Layouts evaluated at once: enough to keep NumPy busy, few enough for the processor's cache."""
FAMILY: Final = ("tp", "pp", "cp", "ep", "etp")
"""Fields that layouts of one family share."""
_ALL_LAYERS: Final = 10**6
"""Stands for all layers of a stage, as arrays cannot hold None."""
_SPLIT_FIELDS: Final = ("tp", "cp", "ep", "etp", "dp", "micro_batch")


@dataclass(frozen=True, slots=True)
class Grid:
    """Layouts with the same number of pipeline stages."""

    layouts: Layout
    """Resolved, of arrays that broadcast to `shape`."""
    allowed: Any
    """True where a layout breaks no rule and is not another one under another name."""
    shape: tuple[int, ...]

    def layout(self, place: Sequence[Any]) -> Layout:
        """The one layout at `place`, with every field stated."""
        fields = {name: self._value(name, place) for name in Layout.model_fields}
        return Layout.model_validate(fields)

    @property
    def families(self) -> list[tuple[int, ...]]:
        """Ranks along every axis of the layouts at each place of the last axis."""
        columns = [np.ravel(getattr(self.layouts, name)) for name in FAMILY]
        count = self.shape[SPLIT]
        return list(zip(*(np.broadcast_to(one, count).tolist() for one in columns), strict=True))

    def _value(self, name: str, place: Sequence[Any]) -> Any:
        value = getattr(self.layouts, name)
        if not isinstance(value, np.ndarray):
            return value
        picked = np.broadcast_to(value, self.shape)[tuple(place)].item()
        kind = type(PLAIN.get(name, Layout.model_fields[name].default))
        if name == "recompute_layers":
            return None if picked == _ALL_LAYERS else picked
        return kind(picked) if issubclass(kind, (Choice, bool)) else int(picked)


def grids(space: Space, cluster: Cluster) -> Iterator[Grid]:
    """Every layout of `space` on the GPUs in use of `cluster`, in grids of about `CELLS`."""
    for piece in _pieces(space, cluster):
        yield _grid(space, cluster, piece)


def size_of(space: Space, cluster: Cluster) -> int:
    """Cells of all grids together, to show progress."""
    return sum(prod(piece.shape) for piece in _pieces(space, cluster))


@dataclass(frozen=True, slots=True)
class _Piece:
    """What a grid is made of."""

    pp: int
    axes: dict[str, list[Any]]
    """The values along every axis but the last."""
    rows: Sequence[tuple[int, ...]]
    """Those along the last."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*(len(values) for values in self.axes.values()), len(self.rows))


def _pieces(space: Space, cluster: Cluster) -> Iterator[_Piece]:
    gpus = cluster.gpus
    for pp in space.sizes("pp", gpus):
        if pp > space.model.layers + 2:
            break
        for split in (False, True):
            tps = [tp for tp in space.sizes("tp", gpus // pp) if (tp > 1) == split]
            axes = _axes(space, pp, split)
            rows = list(_rows(space, gpus // pp, tps))
            count = max(CELLS // max(prod(len(values) for values in axes.values()), 1), 1)
            if all(axes.values()):
                for first in range(0, len(rows), count):
                    yield _Piece(pp, axes, rows[first : first + count])


def _axes(space: Space, pp: int, split: bool) -> dict[str, list[Any]]:
    """The values along every axis but the last."""
    matters = {"overlap_pp": pp > 1, "overlap_tp": split, "balanced_stages": pp > 1, "sp": split}
    found: dict[str, list[Any]] = {
        name: list(space.switch(name, matters=matters.get(name, True))) for name in SWITCHES
    }
    layers = -(-space.model.layers // pp)
    found["recompute"] = list(space.recomputation(layers))
    found["pipeline"] = list(space.pipelines(pp))
    found["shard"] = list(space.shards(pp))
    return found


def _rows(space: Space, ranks: int, tps: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to split `ranks` ranks of a stage: tp, cp, ep, etp, dp and micro batch."""
    for tp in tps:
        for cp in space.contexts(ranks // tp) if ranks % tp == 0 else ():
            dp = ranks // tp // cp
            for ep, etp in space.experts(ranks, tp):
                for micro in space.micro_batches(dp):
                    yield tp, cp, ep, etp, dp, micro


def _grid(space: Space, cluster: Cluster, piece: _Piece) -> Grid:
    axes = piece.axes
    fields: dict[str, Any] = {name: _along(name, axes[name]) for name in SWITCHES}
    kinds, counts = zip(*axes["recompute"], strict=True)
    fields["recompute"] = _along("recompute", kinds)
    fields["recompute_layers"] = _along("recompute", [n or _ALL_LAYERS for n in counts])
    virtual, schedules = zip(*axes["pipeline"], strict=True)
    fields["virtual_stages"] = _along("pipeline", virtual)
    fields["schedule"] = _along("pipeline", schedules)
    columns = np.array(piece.rows).T
    fields |= {n: _along("split", c) for n, c in zip(_SPLIT_FIELDS, columns, strict=True)}
    fields |= space.exchanges(fields["ep"], fields["recompute"])
    shards, domains = zip(*axes["shard"], strict=True)
    whole, over = fields["dp"] * fields["cp"], _along("shard", domains)
    part = cluster.domain_gpus * over // fields["tp"]
    real = (over == 0) | ((part > 1) & (part < whole))
    degree = np.where((over == 0) | ~real, whole, part)
    fields |= {"shard": _along("shard", shards), "shard_degree": degree, "pp": piece.pp}
    layouts = space.base.model_copy(update=fields)
    allowed = possible(space.model, layouts, space.seq, cluster.gpus) & real
    allowed = allowed & offered(
        space.family, space.software.date, layouts, space.pinned,
        experts=space.model.moe is not None,
    )  # fmt: skip
    return Grid(layouts, allowed & _distinct(space, layouts, whole), piece.shape)


def _distinct(space: Space, layouts: Any, whole: Any) -> Any:
    """False where a switch or a shard is set that has nothing to act on."""
    alone = ~np.asarray(can_share(space.model, layouts))
    same = (layouts.shard == Shard.DDP) | ~alone
    for name, idle in (
        ("overlap_gradients", alone),
        ("overlap_parameters", (layouts.shard == Shard.DDP) | alone),
    ):
        first = getattr(layouts, name).reshape(-1)[0]
        same = same & ((getattr(layouts, name) == first) | ~idle)
    if "shard_degree" in space.pinned:
        same = same & np.isin(layouts.shard_degree, space.pinned["shard_degree"])
    return same


def _along(axis: str, values: Sequence[Any]) -> Any:
    """An array that has its length on `axis` and 1 on all others."""
    array = np.array(values)
    shape = [1] * len(AXES)
    shape[AXES.index(axis)] = len(array)
    return array.reshape(shape)
