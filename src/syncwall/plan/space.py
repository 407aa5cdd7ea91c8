"""The layouts worth a look: what each field of a layout may be.

Holds `Space`. What the user pins has the pinned values only; what the framework does not offer is
left out; everything else takes every value that the rules of `describe.rules` may allow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from syncwall.answer.improvements import SHARD_DOMAINS, divisors, virtual_stage_counts
from syncwall.cost.software import framework
from syncwall.describe import Layout, Model, Software
from syncwall.describe.choice import Dtype
from syncwall.describe.layout import PLAIN, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.software import Framework, at, kept_formats, switches
from syncwall.plan.choices import SEARCHED
from syncwall.problems import InputError
from syncwall.work.number import where

RECOMPUTED: Final = (0.125, 0.25, 0.5, 0.75)
"""Shares of a stage's layers that are also recomputed, besides all of them."""
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
        cls,
        model: Model,
        seq: int,
        global_batch: int,
        software: Software,
        pinned: Mapping[str, Any],
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
        return framework(self.software.framework)

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
        """Values of a switch, the plainest first; where nothing depends on it, one of them."""
        if not matters:
            return self._stated(name, (PLAIN.get(name, False),))[:1]
        usual = {"sp": True, **switches(self.family, self.software.date, Shard.DDP)}[name]
        values = self._stated(name, (True, False) if usual else (False,))
        return tuple(sorted(values, key=lambda on: plain(name, on)))

    def recomputation(self, layers: int) -> list[tuple[Recompute, int | None]]:
        """Kinds of recomputation with the layers of a stage of `layers` that they apply to."""
        kinds = self._stated("recompute", self.family.recomputes)
        counts = [None, *dict.fromkeys(round(share * layers) for share in RECOMPUTED)]
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
            return [(1, one)] if self._may("virtual_stages", 1) else []
        found: list[tuple[int, Schedule]] = []
        for schedule in self._stated("schedule", self.family.schedules):
            counts = (
                virtual_stage_counts(self.model.layers, pp)
                if schedule == Schedule.INTERLEAVED
                else [1]
            )
            found += [(n, schedule) for n in counts if self._may("virtual_stages", n)]
        return sorted(found)

    def shards(self, pp: int) -> list[tuple[Shard, int]]:
        """What is shared out, and over how many scale-up domains; 0 for all ranks.

        In a pipeline gradients are kept whole until the last micro batch: ZeRO-2 is ZeRO-1 there.
        """
        kinds = sorted(set(self._stated("shard", self.family.shards)))
        if pp > 1 and Shard.ZERO1 in kinds:
            kinds = [kind for kind in kinds if kind != Shard.ZERO2]
        parts = {Shard.DDP: (0,), Shard.ZERO2: (0,)}
        return [(kind, n) for kind in kinds for n in parts.get(kind, (0, *SHARD_DOMAINS))]

    def sizes(self, name: str, gpus: int) -> list[int]:
        """Numbers of ranks of an axis that divide `gpus`."""
        return [n for n in divisors(gpus) if self._may(name, n)]

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
                if ranks % (ep * etp) == 0 and self._may("ep", ep) and self._may("etp", etp):
                    yield ep, etp

    def exchanges(self, ep: Any, recompute: Any) -> dict[str, Any]:
        """How experts exchange tokens: as cleverly as the framework offers, which is never slower.

        Tokens can be exchanged beside another micro batch only where that does not recompute.
        """
        spread, date = ep > 1, self.software.date
        dispatchers: tuple[Dispatcher, ...] = at(self.family.dispatchers, date)
        offered = at(self.family.offers_overlap_ep, date)
        usual = {
            "dispatcher": where(spread, max(dispatchers), PLAIN["dispatcher"]),
            "overlap_ep": spread & offered & (recompute != Recompute.FULL),
        }
        return {name: max(self.pinned.get(name, (on,))) for name, on in usual.items()}

    def micro_batches(self, dp: int) -> list[int]:
        """Sequences of a micro batch that fill the batch of each of `dp` replicas."""
        if self.global_batch % dp:
            return []
        return [n for n in divisors(self.global_batch // dp) if self._may("micro_batch", n)]

    def _stated(self, name: str, usual: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.pinned.get(name, usual))

    def _may(self, name: str, value: int) -> bool:
        return name not in self.pinned or value in self.pinned[name]


def plain(name: str, value: Any) -> Any:
    """Orders the values of a field: overlap is plainer than none, little is plainer than much."""
    return not value if name.startswith("overlap") else value or 0


def plainness(layout: Layout) -> tuple[Any, ...]:
    """Orders layouts that take equally long."""
    return tuple(plain(name, getattr(layout, name)) for name in SEARCHED)


def _values(name: str, value: Any) -> Sequence[Any]:
    """One value or several; words in a row are one value of a field that holds such a row."""
    field = Layout.model_fields.get(name)
    if field is not None and isinstance(field.default, tuple):
        is_row = not value or isinstance(value[0], str)
        return (tuple(value),) if is_row else value
    return value if isinstance(value, (tuple, list)) and value else (value,)
