"""The run that a plan starts from, however much of it was stated.

Holds `Reference`, `Said`, `reference` and `usual_batch`: nodes, batch and layout that nobody stated
are chosen and reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path
from typing import Any, Final

from syncwall.answer.settled import settled
from syncwall.cost.software import framework
from syncwall.describe import Run
from syncwall.describe.layout import Shard
from syncwall.describe.overrides import run_with
from syncwall.describe.settings import Settings
from syncwall.documents import read_document
from syncwall.plan.searched import best_run
from syncwall.plan.wires import Case
from syncwall.problems import InputError

BATCH_TOKENS: Final = 2**22
"""Tokens of a step if nobody states them: about what GPT-3 175B (3.2 M) and Llama 2 (4 M) used."""
STAGES_FILLED: Final = 4
"""Micro batches for each pipeline stage if nobody states them; GPipe (Huang et al. 2019) finds its
bubble small from there on."""
_NODES: Final = tuple(2**power for power in range(15))
"""Tried one after the other if nobody states a number."""
_NO_LAYOUT: Final = {
    "global_batch", "micro_batch", "precision", "gradient_dtype", "bucket", "fused_loss",
    "overlap_gradients", "overlap_parameters", "overlap_tp", "overlap_pp", "outer_every",
}  # fmt: skip
"""Keys that leave the layout itself open."""


@dataclass(frozen=True)
class Reference:
    """A complete run."""

    run: Run
    assumed: dict[str, str] = field(default_factory=dict)
    """What nobody stated, and the value taken for it."""
    nodes_stated: bool = True
    layout_searched: bool = False

    @property
    def replica_batch(self) -> int:
        """Sequences of one replica: as stated, or enough to fill a pipeline."""
        layout = self.run.layout
        if self.nodes_stated and "global_batch" not in self.assumed:
            return int(layout.global_batch or 1) // int(layout.dp or 1)
        return int(layout.micro_batch) * (int(layout.pp) * STAGES_FILLED if layout.pp > 1 else 1)


@dataclass(frozen=True)
class Said:
    """What the user says: a run file, settings of a framework, flags; the later ones win."""

    file: Path | None
    flags: Mapping[str, str]
    settings: Settings | None = None

    @property
    def stated(self) -> dict[str, Any]:
        """Every key that is stated, as flags are called."""
        settings = self.settings.layout if self.settings else {}
        inside = {f"layout.{key}": value for key, value in settings.items()}
        return {**_stated_in(self.file), **inside, **self.flags}

    @property
    def has_batch(self) -> bool:
        """True if the global batch is stated, or follows from settings."""
        left = self.settings.left if self.settings else None
        follows = left is not None and (left.replica_batch or left.accumulated)
        return bool(follows) or self.stated.get("layout.global_batch") is not None

    def run(self, **flags: str) -> Run:
        """The run with further flags, in which a dot is written as two underscores."""
        more = {name.replace("__", "."): text for name, text in flags.items()}
        return run_with(self.file, {**self.flags, **more}, self.settings)


def reference(
    file: Path | None, flags: Mapping[str, str], settings: Settings | None = None
) -> Reference:
    """The run of `file` with `settings` and `flags` over it ("layout.tp": "8"), complete."""
    said = Said(file, flags, settings)
    stated = said.stated
    if "model" not in stated or "cluster" not in stated:
        raise InputError.of("write --model NAME and --cluster NAME, or a run file")
    assumed: dict[str, str] = {}
    if not said.has_batch:
        batch = usual_batch(_placed(said).seq)
        assumed["global_batch"] = str(batch)
        said = replace(said, flags={**flags, "layout.global_batch": str(batch)})
    keys = {name.removeprefix("layout.") for name in stated if name.startswith("layout.")}
    if settings is None and "layout" not in stated and keys <= _NO_LAYOUT:
        return _searched(said, assumed)
    run, left_open = settled(_placed(said))
    return Reference(run, {**assumed, **left_open}, "nodes" in stated)


def usual_batch(seq: int) -> int:
    """Sequences of `seq` tokens in a step if nobody states them."""
    return 1 << max(0, round(log2(BATCH_TOKENS / seq)))


def _stated_in(file: Path | None) -> dict[str, Any]:
    """Keys of a run file, as flags are called."""
    value = read_document(file).value if file else {}
    if not isinstance(value, dict):
        return {}
    inner = value.get("layout")
    layout = inner if isinstance(inner, dict) else {}
    return {**value, **{f"layout.{key}": item for key, item in layout.items()}}


def _whole(batch: Any) -> int:
    try:
        return max(1, int(str(batch)))
    except ValueError:
        raise InputError.of(f'--layout.global-batch: "{batch}" is not a whole number') from None


def _placed(said: Said) -> Run:
    """The run on the nodes stated, or on the fewest that its layout can have."""
    if "nodes" in said.stated:
        return said.run()
    refusals: list[InputError] = []
    for nodes in _NODES:
        try:
            return said.run(nodes=str(nodes))
        except InputError as error:
            refusals.append(error)
    raise min(refusals, key=lambda error: len(error.problems))


def _searched(said: Said, assumed: dict[str, str]) -> Reference:
    """The run in the best layout: on the nodes stated, or on the fewest on which one fits."""
    stated = said.stated
    batch = _whole(stated["layout.global_batch"])
    places = [{}] if "nodes" in stated else [{"nodes": str(nodes)} for nodes in _NODES]
    for place in places:
        run = said.run(layout__global_batch="null", **place)  # one that nothing must divide yet
        kept = run.layout.model_fields_set - {"dp", "shard_degree", "global_batch"}
        pinned = {name: getattr(run.layout, name) for name in kept}
        case = Case(run.model, run.cluster, run.seq, run.software)
        best = best_run(case, run.cluster, batch, pinned)
        if best is not None:
            grows = best if "shard" in kept else _shared_as_it_grows(best)
            return Reference(grows, assumed, "nodes" in stated, layout_searched=True)
    raise InputError.of("no layout fits into the memory of these GPUs: write more --nodes")


def _shared_as_it_grows(run: Run) -> Run:
    """`run` with sharded optimizer states where one replica alone had nothing to share."""
    layout = run.layout
    offered = framework(run.software.framework).shards
    if layout.dp != 1 or layout.cp != 1 or Shard.ZERO1 not in offered:
        return run
    return run.model_copy(update={"layout": layout.model_copy(update={"shard": Shard.ZERO1})})
