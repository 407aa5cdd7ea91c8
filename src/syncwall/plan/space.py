"""The layouts worth a look, as arrays in which every field lies along an axis of its own.

What the user pins has the pinned values only; what the framework does not offer is left out;
everything else takes every value that the rules of `describe.rules` may allow.

Fields broadcast against each other, so what depends on few of them is computed for few: a layer's
multiplications once for each tp and micro batch, not once for each of the hundred thousand layouts
that share them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from math import prod
from typing import Any, Final

import numpy as np

from syncwall.answer.improvements import SHARD_DOMAINS, divisors
from syncwall.answer.many import ALL_LAYERS
from syncwall.answer.settled import some_layers, virtual_stage_counts
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Cluster, Layout, Model, Software
from syncwall.describe.base import is_open
from syncwall.describe.choice import Choice, Dtype
from syncwall.describe.layout import PLAIN, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import can_share, offered, possible
from syncwall.describe.software import Framework, at, kept_formats, may_overlap_ep, resharding, switches
from syncwall.plan.choices import MEMORY_FREE, SEARCHED, SWITCHES
from syncwall.problems import InputError
from syncwall.work.number import where

SHORTEST: Final = 256
"""Tokens of a sequence that a context-parallel rank should at least have."""


@dataclass(frozen=True)
class Space:
    """The values that each searched field may take for one model and batch."""

    model: Model
    seq: int
    global_batch: int
    software: Software
    pinned: Mapping[str, tuple[Any, ...]]
    """Values of the fields that the user states."""

    @classmethod
    def of(
        cls, model: Model, seq: int, global_batch: int, software: Software, pinned: Mapping[str, Any]
    ) -> "Space":
        """The space in which every field of `pinned` has one value, or one of several."""
        several = {name: tuple(_values(name, value)) for name, value in pinned.items()}
        for name, values in several.items():
            if name not in Layout.model_fields:
                raise InputError.of(f'a layout has no "{name}"')
            if name not in SEARCHED and len(values) > 1:
                raise InputError.of(f"{name} is not searched: write one value for it")
        return cls(model, seq, global_batch, software, several)

    @cached_property
    def family(self) -> Framework:
        """The framework that runs."""
        return framework_or_default(self.software.framework)

    @cached_property
    def base(self) -> Layout:
        """What is not searched: pinned, or usual for the framework."""
        usual = switches(self.family, self.software.date, Shard.FSDP, self.software)
        fields = {name: value for name, value in usual.items() if name not in SEARCHED}
        fields["cp_kind"] = self.family.cp_kinds[0]
        fields |= {name: v[0] for name, v in self.pinned.items() if name not in SEARCHED}
        if fields.get("precision") is Dtype.FP16 and "gradient_dtype" not in self.pinned:
            fields.pop("gradient_dtype", None)
        if fields.get("lora") is not None:
            fields["frozen_weights"] = True
        layout = Layout.arrays(**{**fields, "global_batch": self.global_batch})
        formats = kept_formats(layout, self.family)
        update = {name: value for name, value in formats.items() if name not in self.pinned}
        return layout.model_copy(update=update)

    def switch(self, name: str, *, matters: bool) -> tuple[bool, ...]:
        """Values of a switch, the plainest first; where nothing depends on it, one of them.

        What can overlap does: nobody turns it off to be faster.
        """
        if not matters:
            return self._stated(name, (PLAIN.get(name, False),))[:1]
        usual = switches(self.family, self.software.date, Shard.DDP)
        if name == "sp":
            values: tuple[bool, ...] = (True,) if self._needs_sp else (True, False)
        elif name in MEMORY_FREE:
            values = (usual[name],)
        else:
            values = (True, False) if usual[name] else (False,)
        return tuple(sorted(self._stated(name, values), key=lambda on: plain(name, on)))

    @property
    def _needs_sp(self) -> bool:
        return self.family.tp_needs_sp or (self.model.moe is not None and self.family.experts_need_sp)

    def recomputation(self, layers: int) -> list[tuple[Recompute, int | None]]:
        """Kinds of recomputation with the layers of a stage of `layers` that they apply to."""
        offered = self.family.available(self.family.recomputes, self.software.date)
        kinds = self._stated("recompute", offered)
        counts: list[int | None] = [None]
        if self.family.recomputes_some_layers:
            counts += some_layers(layers)
        if "recompute_layers" in self.pinned:
            counts = list(self.pinned["recompute_layers"])
        found: list[tuple[Recompute, int | None]] = []
        for kind in sorted(kinds):
            partly = kind == Recompute.FULL
            found += [(kind, n) for n in counts if n is None or (partly and 0 < n < layers)]
        return found

    def pipelines(self, pp: int) -> list[tuple[int, Schedule]]:
        """Chunks of a rank and schedule, for `pp` stages."""
        if pp == 1:
            plain = Schedule.ONE_F_ONE_B
            stated = self._stated("schedule", (plain,))
            one = plain if plain in stated else stated[0]
            return [(1, one)] if self.may("virtual_stages", 1) else []
        found: list[tuple[int, Schedule]] = []
        for schedule in self._stated("schedule", self.family.schedules):
            several = virtual_stage_counts(self.model, pp, self.family, self.software.date)
            counts = several if schedule == Schedule.INTERLEAVED else [1]
            found += [(n, schedule) for n in counts if self.may("virtual_stages", n)]
        return sorted(found)

    def shards(self, pp: int) -> list[tuple[Shard, int]]:
        """What is shared out, and over how many scale-up domains; 0 for all ranks.

        In a pipeline gradients are kept whole until the last micro batch: ZeRO-2 is ZeRO-1 there.
        """
        offered = self.family.available(self.family.shards, self.software.date)
        kinds = sorted(set(self._stated("shard", offered)))
        if pp > 1 and Shard.ZERO1 in kinds:
            kinds = [kind for kind in kinds if kind != Shard.ZERO2]
        partial = {*self.family.partial_shards} - {Shard.DDP, Shard.ZERO2}
        return [(kind, n) for kind in kinds for n in (0, *(SHARD_DOMAINS if kind in partial else ()))]

    def sizes(self, name: str, gpus: int) -> list[int]:
        """Numbers of ranks of an axis that divide `gpus`."""
        return [n for n in divisors(gpus) if self.may(name, n)]

    def contexts(self, gpus: int) -> list[int]:
        """Context-parallel sizes; long enough parts of the sequence unless the user says so."""
        longest = 1 if "cp" in self.pinned else SHORTEST
        return [n for n in self.sizes("cp", gpus) if n == 1 or self.seq / n >= longest]

    def experts(self, ranks: int, tp: int) -> Iterator[tuple[int, int]]:
        """Expert-parallel sizes and tensor-parallel sizes inside experts, within `ranks` ranks."""
        if self.model.moe is None:
            yield 1, 1
            return
        for ep in divisors(self.model.moe.experts):
            for etp in sorted({1, tp, *self.pinned.get("etp", ())}):
                if ranks % (ep * etp) == 0 and self.may("ep", ep) and self.may("etp", etp):
                    yield ep, etp

    def exchanges(self, layouts: Layout) -> dict[str, Any]:
        """How experts exchange tokens: as cleverly as the framework offers, which is never slower."""
        spread, date = layouts.ep > 1, self.software.date
        dispatchers: tuple[Dispatcher, ...] = at(self.family.dispatchers, date)
        usual = where(spread, max(dispatchers), PLAIN["dispatcher"])
        dispatcher = max(self.pinned.get("dispatcher", (usual,)))
        layouts = layouts.model_copy(update={"dispatcher": dispatcher})
        may = spread & may_overlap_ep(self.family, date, layouts, self.model.mtp_layers)
        return {"dispatcher": dispatcher, "overlap_ep": max(self.pinned.get("overlap_ep", (may,)))}

    def micro_batches(self, dp: int) -> list[int]:
        """Sequences of a micro batch that fill the batch of each of `dp` replicas."""
        if self.global_batch % dp:
            return []
        return [n for n in divisors(self.global_batch // dp) if self.may("micro_batch", n)]

    def _stated(self, name: str, usual: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.pinned.get(name, usual))

    def may(self, name: str, value: int) -> bool:
        """True if `value` is not excluded by what the user states."""
        return name not in self.pinned or value in self.pinned[name]


def held(layout: Layout) -> dict[str, Any]:
    """Fields that `layout` states and that no search chooses: every layout found has them."""
    free = (*SEARCHED, "dp", "global_batch")
    stated = (name for name in Layout.model_fields if name in layout.model_fields_set)
    return {name: getattr(layout, name) for name in stated if name not in free and not is_open(layout, name)}


def plain(name: str, value: Any) -> Any:
    """Orders the values of a field: overlap is plainer than none, little is plainer than much."""
    return not value if name.startswith("overlap") else value or 0


def _values(name: str, value: Any) -> Sequence[Any]:
    """One value or several; words in a row are one value of a field that holds such a row."""
    field = Layout.model_fields.get(name)
    if field is not None and isinstance(field.default, tuple):
        is_row = not value or isinstance(value[0], str)
        return (tuple(value),) if is_row else value
    return value if isinstance(value, (tuple, list)) and value else (value,)


AXES: Final = (*SWITCHES, "recompute", "pipeline", "shard", "split")
"""Axes of a grid; `split` is tp, cp, ep, etp, dp and micro batch together."""
SPLIT, RECOMPUTE = AXES.index("split"), AXES.index("recompute")
FREE: Final = tuple(range(len(MEMORY_FREE)))
"""Axes that memory does not depend on: the first ones."""
CELLS: Final = 2**19
"""Layouts of one grid: few of them are priced at once, which keeps NumPy busy."""
MOST_CELLS: Final = 2**28
"""Layouts that a search looks at, the impossible ones among them: some minutes of one core."""
FAMILY: Final = ("tp", "pp", "cp", "ep", "etp")
"""Fields that layouts of one family share."""
_SPLIT_FIELDS: Final = ("tp", "cp", "ep", "etp", "dp", "micro_batch")


_KINDS: Final = {name: type(PLAIN.get(name, one.default)) for name, one in Layout.model_fields.items()}


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
        every = {name: getattr(self.layouts, name) for name in _KINDS}
        arrays = {name: _at(one, place) for name, one in every.items() if isinstance(one, np.ndarray)}
        return self.layouts.model_copy(
            update=every | {name: _value(name, one) for name, one in arrays.items()}
        )

    def part(self, *places: Any) -> "Grid":
        """The layouts at `places` of every axis, each a list of indices."""

        def taken(array: Any) -> Any:
            if not isinstance(array, np.ndarray):
                return array
            for axis, kept in enumerate(places):
                if array.shape[axis] > 1 and len(kept) < self.shape[axis]:
                    array = np.take(array, kept, axis)
            return array

        fields = {name: taken(getattr(self.layouts, name)) for name in Layout.model_fields}
        layouts = self.layouts.model_copy(update=fields)
        return Grid(layouts, taken(np.asarray(self.allowed)), tuple(map(len, places)))

    def listed(self, cells: Any) -> "Grid":
        """The layouts at flat indices, one after the other along the last axis."""
        shape = (*(1 for _ in self.shape[1:]), len(cells))

        def taken(array: Any) -> Any:
            if not isinstance(array, np.ndarray):
                return array
            return np.broadcast_to(array, self.shape).reshape(-1)[cells].reshape(shape)

        fields = {name: taken(getattr(self.layouts, name)) for name in Layout.model_fields}
        return Grid(self.layouts.model_copy(update=fields), np.ones(shape, bool), shape)

    @property
    def families(self) -> list[tuple[int, ...]]:
        """Ranks along every axis of the layouts at each place of the last axis."""
        columns = [np.ravel(getattr(self.layouts, name)) for name in FAMILY]
        count = self.shape[SPLIT]
        return list(zip(*(np.broadcast_to(one, count).tolist() for one in columns), strict=True))


def _at(values: Any, place: Sequence[Any]) -> Any:
    return values[tuple(i if length > 1 else 0 for i, length in zip(place, values.shape, strict=True))].item()


def _value(name: str, picked: Any) -> Any:
    if name == "recompute_layers":
        return None if picked == ALL_LAYERS else picked
    kind = _KINDS[name]
    return kind(picked) if issubclass(kind, (Choice, bool)) else int(picked)


def grids(space: Space, cluster: Cluster) -> Iterator[Grid]:
    """Every layout of `space` on the GPUs in use of `cluster`, in grids of about `CELLS`."""
    for piece in _pieces(space, cluster):
        yield _grid(space, cluster, piece)


def size_of(space: Space, clusters: Iterable[Cluster], most: int = MOST_CELLS) -> int:
    """Cells of all grids together; counting ends beyond `most`."""
    cells = 0
    for piece in chain.from_iterable(_pieces(space, one) for one in clusters):
        cells += prod(piece.shape)
        if cells > most:
            break
    return cells


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
            rows = _rows(space, gpus // pp, tps)
            count = max(CELLS // max(prod(len(values) for values in axes.values()), 1), 1)
            while all(axes.values()) and (some := list(islice(rows, count))):
                yield _Piece(pp, axes, some)


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
            if not space.may("dp", dp):
                continue
            for ep, etp in space.experts(ranks, tp):
                for micro in space.micro_batches(dp):
                    yield tp, cp, ep, etp, dp, micro


def _grid(space: Space, cluster: Cluster, piece: _Piece) -> Grid:
    axes = piece.axes
    fields: dict[str, Any] = {name: _along(name, axes[name]) for name in SWITCHES}
    kinds, counts = zip(*axes["recompute"], strict=True)
    fields["recompute"] = _along("recompute", kinds)
    fields["recompute_layers"] = _along("recompute", [n or ALL_LAYERS for n in counts])
    virtual, schedules = zip(*axes["pipeline"], strict=True)
    fields["virtual_stages"] = _along("pipeline", virtual)
    fields["schedule"] = _along("pipeline", schedules)
    columns = np.array(piece.rows).T
    fields |= {n: _along("split", c) for n, c in zip(_SPLIT_FIELDS, columns, strict=True)}
    for switch, other in space.family.needs.items():
        if switch in fields and switch not in space.pinned:
            fields[switch] = fields[switch] & fields[other]
    shards, domains = zip(*axes["shard"], strict=True)
    whole, over = fields["dp"] * fields["cp"], _along("shard", domains)
    part = cluster.domain_gpus * over // fields["tp"]
    real = (over == 0) | ((part > 1) & (part < whole))
    degree = np.where((over == 0) | ~real, whole, part)
    fields |= {"shard": _along("shard", shards), "shard_degree": degree, "pp": piece.pp}
    layouts = space.base.model_copy(update=fields)
    layouts = layouts.model_copy(update={**space.exchanges(layouts), **resharding(layouts, space.family)})
    allowed = possible(space.model, layouts, space.seq, cluster.gpus) & real
    insisted = [name for name, values in space.pinned.items() if len(values) == 1]
    seeds = {*insisted, "recompute_layers"}  # recomputation is chosen anew where it is tight
    allowed = allowed & offered(space.family, space.software, layouts, seeds, space.model)
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
