"""What a settings file states of a run, and what of it waits for the model or the GPUs.

Holds `Settings`, `DeferredSettings` and `SettingsContext`. A file may say "4 micro batches a
replica": the global batch follows when the number of replicas is known.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from syncwall.describe.layout import Layout
from syncwall.problems import InputError, Problem, option

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SettingsContext:
    """What must be known to read the rest of a file; None where it is not."""

    gpus: int | None = None
    gpus_per_node: int | None = None
    layers: int | None = None
    """Layers of the model."""


@dataclass(frozen=True, slots=True)
class DeferredSettings:
    """Statements about a layout that have a meaning only on a machine or for a model."""

    replica_batch: int | None = None
    """Sequences of one replica in one optimizer step."""
    pipeline_micro_batch: int | None = None
    """Sequences of a micro batch in a pipeline, where `replica_batch` is one without (torchtitan)."""
    accumulated: int | None = None
    """Micro batches of one replica in one optimizer step."""
    copies: int | None = None
    """Copies of the sharded state."""
    shard_in_node: bool = False
    """The state is shared by the GPUs of a node."""
    chunk_layers: int | None = None
    """Layers in one virtual stage."""
    end_layers: int = 0
    """Layers for which embedding and head count together when stages are cut."""
    every_nth: int | None = None
    """Every n-th layer is recomputed."""


@dataclass(frozen=True)
class Settings:
    """A settings file, in the keys of a run; what it leaves open is not there."""

    format: str
    """One of `FORMATS`."""
    file: str
    layout: dict[str, Any]
    """Keys of a layout."""
    run: dict[str, Any]
    """`model`, `nodes`, `gpus_per_node`, `seq`."""
    software: dict[str, Any]
    """`framework`, `fp8_scaling`."""
    left: DeferredSettings = DeferredSettings()
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Line and column that gave "layout.tp" or "nodes"."""
    notes: tuple[Problem, ...] = ()
    """What the file says and a layout cannot: read roughly or not at all."""

    @property
    def is_deferred(self) -> bool:
        """True if a part of the file has a meaning only on a machine or for a model."""
        return self.left != DeferredSettings()

    def problem(self, key: str, message: str) -> Problem:
        """A problem with what the file says of `key` ("layout.tp")."""
        return Problem(self.file, *self.places.get(key, (1, 1)), message)

    def bare(self) -> "Settings":
        """The model alone."""
        run = {key: value for key, value in self.run.items() if key == "model"}
        return Settings(self.format, self.file, {}, run, {}, places=self.places)

    def layout_on(self, machine: SettingsContext, beside: Mapping[str, Any] = _NOTHING) -> Layout:
        """The layout of the file on `machine`, with the keys `beside` it over its own."""
        fields = {**self.layout, **beside}
        return Layout.model_validate({**fields, **self.solved(fields, machine, beside)})

    def solved(
        self, layout: Mapping[str, Any], machine: SettingsContext, beside: Collection[str] = ()
    ) -> dict[str, Any]:
        """Keys of a layout that follow from `left` where the other keys are those of `layout`.

        Keys that were stated `beside` the file win: they are not contradicted, nor returned.
        """
        tp, cp, pp = (_whole(layout, name) or 1 for name in ("tp", "cp", "pp"))
        dp = _whole(layout, "dp")
        if dp is None and machine.gpus is not None:
            dp = max(1, machine.gpus // (tp * cp * pp))
        found: dict[str, Any] = {}
        alone = self.left.pipeline_micro_batch is not None and pp == 1  # its local batch is a micro batch
        if self.left.pipeline_micro_batch is not None:
            found["micro_batch"] = self.left.replica_batch if alone else self.left.pipeline_micro_batch
        other_batch = "global_batch" in beside or ("micro_batch" in beside and "global_batch" in self.layout)
        other_batch |= alone and ("micro_batch" in beside or _whole(layout, "global_batch") is not None)
        if dp is not None and not other_batch:
            found |= self._batch(layout, dp)
        if dp is not None and self.left.copies and "shard_degree" not in beside:
            found["shard_degree"] = self._degree(dp * cp)
        if self.left.shard_in_node and machine.gpus_per_node is not None:
            found["shard_degree"] = machine.gpus_per_node
        if machine.layers is not None and "virtual_stages" not in beside:
            found |= self._stages(machine.layers, pp)
        return {key: value for key, value in found.items() if key not in beside}

    def _degree(self, ranks: int) -> int:
        degree, odd = divmod(ranks, self.left.copies or 1)
        if odd or not degree:
            message = f"{self.left.copies} copies do not divide the {ranks} ranks of dp x cp"
            raise InputError([self.problem("layout.shard", message)])
        return degree

    def _batch(self, layout: Mapping[str, Any], dp: int) -> dict[str, Any]:
        micro, batch = _whole(layout, "micro_batch"), _whole(layout, "global_batch")
        each, accumulated = self.left.replica_batch, self.left.accumulated
        if each is not None:
            if batch is None:
                return {"global_batch": each * dp}
            if batch != each * dp:
                message = (
                    f"{each} sequences a replica x {dp} replicas are not the batch of {batch}: "
                    "a pipeline that is emptied several times a step is not modelled; "
                    f"write local_batch_size {-(-batch // dp)}"
                )
                raise InputError([self.problem("layout.global_batch", message)])
        if accumulated is None:
            return {}
        if batch is not None and micro is None:
            if batch % (accumulated * dp):
                message = f"{accumulated} micro batches x {dp} replicas do not divide a batch of {batch}"
                raise InputError([self.problem("layout.global_batch", message)])
            return {"micro_batch": batch // (accumulated * dp)}
        if micro is not None and batch is None:
            return {"global_batch": micro * accumulated * dp}
        if micro is None or batch == micro * accumulated * dp:
            return {}
        message = (
            f"{accumulated} micro batches of {micro} x {dp} replicas are "
            f"{micro * accumulated * dp}, not the batch of {batch}: "
            f"change one of them, or write {option('layout.global_batch')}"
        )
        raise InputError([self.problem("layout.global_batch", message)])

    def _stages(self, layers: int, pp: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.left.chunk_layers:
            stages = -(-(layers + self.left.end_layers) // self.left.chunk_layers)
            if stages % pp:
                message = f"{layers} layers make {stages} virtual stages, not a multiple of pp {pp}"
                raise InputError([self.problem("layout.virtual_stages", message)])
            found["virtual_stages"] = stages // pp
            found["schedule"] = "interleaved" if stages > pp else "1f1b"
            if "recompute_layers" in self.layout:  # said of each virtual stage
                found["recompute_layers"] = self.layout["recompute_layers"] * (stages // pp)
        if self.left.every_nth:
            found["recompute_layers"] = -(-layers // pp) // self.left.every_nth
        return found


def _whole(fields: Mapping[str, Any], key: str) -> int | None:
    """A count as a run file may state it; what is none is for others to complain about."""
    found = fields.get(key)
    usable = isinstance(found, int) and not isinstance(found, bool) and found > 0
    return int(found) if usable and isinstance(found, int) else None
