"""What to change: each single change of a layout, or of a recorded program, is priced again.

Proposals are the best of these changes, and what a search leaves as it is can be tried by them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import nan
from typing import Any, Final

from pydantic import ValidationError

from syncwall.answer.difference import Ratio, step_deviation
from syncwall.answer.many import TimedLayout, memory_of, timed_layouts
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.priced import MemoryMargin
from syncwall.answer.settled import (
    CHOSEN,
    chosen_words,
    complete_layouts,
    fitting,
    preferred,
    virtual_stage_counts,
)
from syncwall.catalogue import catalogue_overlay
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Run
from syncwall.describe.choice import text_of
from syncwall.describe.layout import ContextKind, Dispatcher, Layout, Schedule, Shard
from syncwall.describe.rules import broken_rules, can_share, not_offered
from syncwall.describe.software import Framework, at
from syncwall.public import Part, published
from syncwall.work.memory import fits, usable_bytes
from syncwall.work.program import HeldKind, Program
from syncwall.work.program_variants import CHANGES, ProgramChangeKind, change_places

SHARD_DOMAINS: Final = (1, 4, 16)
"""Scale-up domains over which a copy of the states is also spread, besides all ranks (HSDP)."""
ORDERS: Final = (("tp", "cp", "ep", "dp", "pp"), ("tp", "cp", "ep", "pp", "dp"))
"""Which ranks stand next to each other: those of data parallelism, or those of the pipeline."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One field, and the values that it might have in a run."""

    field: str
    values: Callable[[Run, Framework], Any]
    matters: Callable[[Run], bool] = lambda run: True


@dataclass(frozen=True, slots=True)
class SingleChange:
    """A layout that differs in one thing, and what has to follow it."""

    field: str
    fields: dict[str, Any]
    """What changes; None is filled in again."""

    @property
    def words(self) -> str:
        """In the words of the layout's keys."""
        value = self.fields[self.field]
        if self.field == "virtual_stages" and value > 1:
            return f"interleaved, virtual_stages {value}"
        if self.field == "shard_degree":
            return f"shard_degree {value} (HSDP)"
        return f"{self.field} {text_of(value)}"


def single_changes(run: Run, asked: Run, family: Framework) -> Iterator[SingleChange]:
    """Every change of one field of a settled `run`, to be stated in the run that was `asked`.

    The batch and the GPUs stay.
    """
    for lever in LEVERS:
        if lever.matters(run):
            for value in lever.values(run, family):
                if value != getattr(run.layout, lever.field):
                    fields = {lever.field: value, **_following(asked.layout, lever.field, value)}
                    yield SingleChange(lever.field, fields)


def _following(layout: Layout, field: str, value: Any) -> dict[str, Any]:
    """What else has to change with `field`."""
    found: dict[str, Any] = {}
    if field in ("tp", "pp", "cp"):
        found |= {"dp": None, "shard_degree": None}
    if field == "shard":
        found["shard_degree"] = None
    if field == "tp" and value == 1:
        found["sp"] = False
    if field == "tp" and layout.etp == layout.tp:
        found["etp"] = value
    if field == "pp" and (value == 1 or layout.schedule == Schedule.INTERLEAVED):
        found |= {"virtual_stages": 1, "schedule": Schedule.ONE_F_ONE_B}
    if field in ("pp", "balanced_stages") and layout.pp > 1:
        found |= {"first_stage_layers": None, "last_stage_layers": None}
    if field == "virtual_stages":
        found["schedule"] = Schedule.INTERLEAVED if value > 1 else Schedule.ONE_F_ONE_B
    if field == "schedule":
        found["virtual_stages"] = 1
    if field == "ep" and value == 1:
        found |= {"dispatcher": None, "overlap_ep": False}
    return found


def divisors(number: int) -> list[int]:
    """Every divisor of `number`, the smallest first."""
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _ranks(run: Run, family: Framework) -> list[int]:
    return divisors(run.gpus)


def _replica_batch(run: Run, family: Framework) -> list[int]:
    return divisors(run.layout.global_batch // run.layout.dp)


def _experts(run: Run, family: Framework) -> list[int]:
    return divisors(run.model.moe.experts) if run.model.moe else []


def _virtual_stages(run: Run, family: Framework) -> list[int]:
    return [1, *virtual_stage_counts(run.model, run.layout.pp, family, run.software.date)]


def _schedules(run: Run, family: Framework) -> list[Schedule]:
    return [one for one in family.schedules if one != Schedule.INTERLEAVED]


def _degrees(run: Run, family: Framework) -> list[int]:
    """All ranks, or those of a few scale-up domains."""
    whole = run.layout.dp * run.layout.cp
    parts = [run.cluster.domain_gpus * over // run.layout.tp for over in SHARD_DOMAINS]
    return [degree for degree in (*parts, whole) if 1 < degree <= whole]


def _switch(run: Run, family: Framework) -> tuple[bool, bool]:
    return (True, False)


def _dispatchers(run: Run, family: Framework) -> tuple[Dispatcher, ...]:
    return at(family.dispatchers, run.software.date)


def _sharded(run: Run) -> bool:
    return run.layout.shard != Shard.DDP


def _several(axis: str) -> Callable[[Run], bool]:
    return lambda run: int(getattr(run.layout, axis) or 1) > 1


def _replicas(run: Run) -> bool:
    return bool(can_share(run.model, run.layout))


def _moe(run: Run) -> bool:
    return run.model.moe is not None


LEVERS: Final = (
    Lever("micro_batch", _replica_batch),
    Lever("recompute", lambda run, family: family.available(family.recomputes, run.software.date)),
    Lever("tp", _ranks),
    Lever("pp", _ranks),
    Lever("cp", _ranks),
    Lever("ep", _experts, _moe),
    Lever("etp", lambda run, family: (1, run.layout.tp), _moe),
    Lever("shard", lambda run, family: family.available(sorted(family.shards), run.software.date), _replicas),
    Lever("shard_degree", _degrees, _sharded),
    Lever("virtual_stages", _virtual_stages, _several("pp")),
    Lever("schedule", _schedules, _several("pp")),
    Lever("sp", _switch, _several("tp")),
    Lever("overlap_tp", _switch, _several("tp")),
    Lever("async_tp", _switch, _several("tp")),
    Lever("overlap_gradients", _switch, _replicas),
    Lever("overlap_parameters", _switch, lambda run: _sharded(run) and _replicas(run)),
    Lever("overlap_pp", _switch, _several("pp")),
    Lever("balanced_stages", _switch, _several("pp")),
    Lever("overlap_ep", _switch, _several("ep")),
    Lever("dispatcher", _dispatchers, _several("ep")),
    Lever("cp_kind", lambda run, family: tuple(ContextKind), _several("cp")),
    Lever("fused_loss", _switch),
    Lever("order", lambda run, family: ORDERS, _several("pp")),
)
"""Fields that a person may choose. Those that change the numbers of the training (precision, batch,
DiLoCo, frozen weights) or that nobody chooses (imbalance of experts) are not among them, nor is how
many layers the ends of a pipeline have, which `balanced_stages` stands for."""


WORTH: Final = 0.005
"""Share of a step that a change must save to be named."""
MOST_VIRTUAL_STAGES: Final = 8
"""Of a pipeline rank, above which nobody is advised to go; assumed."""
LONG_SEQUENCE: Final = 16_384
"""Tokens from which on a sequence is worth splitting over ranks; assumed."""
_HOST: Final = ("offload_optimizer", "offload_gradients", "offload_weights")
"""What may move to the host, that which costs least first."""
_TIMES: Final = (2, 4, 8, 16, 32, 64)
"""Times the nodes that are tried."""


@published("change gained_s probability memory_bytes layout=fields also nodes=run.nodes")
@dataclass(frozen=True, slots=True)
class Improvement:
    """A change and what it is predicted to bring.

    Of a recorded program, `change` is its `kind`, and memory is not known.
    """

    _remedy = Part("change gained_s", text="A change that helps against the verdict.")
    _option = Part("change gained_s fits", text="A field of the best layout, changed.")
    _recorded = Part(
        "kind gained_s where",
        text="Single changes that help, the best first.",
        name="ProgramChange",
    )
    change: str
    """In the words of the keys of a run."""
    source: Run | Program
    """With the change."""
    gained_s: float
    """Seconds of the step that it saves."""
    memory_bytes: float = nan
    """Memory that it needs more (or less, if negative)."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the layout that change, with their new values; None: filled in again."""
    fits: bool = True
    also: dict[str, Any] = field(default_factory=dict)
    """What was open and is chosen otherwise because of the change."""
    where: tuple[str, ...] = ()
    """Lines or parameters that it is about, the most important first."""
    probability: float = nan
    """That the step really is shorter with it, by the doubt about two runs of one setup; of a run that
    does not fit, that it then does."""

    @property
    def run(self) -> Run:
        """The run with the change."""
        assert isinstance(self.source, Run)
        return self.source

    @property
    def kind(self) -> ProgramChangeKind:
        """What could be changed."""
        return ProgramChangeKind(self.change)

    def __repr__(self) -> str:
        return f"<Improvement {self.change}: step {-self.gained_s:+.4g} s>"


def improvements(prediction: Prediction, count: int = 3) -> list[Improvement]:
    """The `count` single changes of the layout that save most of the step and still fit.

    If the run itself does not fit, the fastest changes that make it fit; if there is none, the
    fewest nodes on which it fits, and the least that the memory of the host would have to take. Of
    a recorded program, all changes that help.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(tp=8, shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-70b", cluster="dgx-h100", nodes=32, layout=layout)
        >>> prediction = sw.predict(run)
        >>> best = sw.improvements(prediction)[0]
        >>> faster = sw.predict(best.run)
        >>> abs(prediction.step_s - faster.step_s - best.gained_s) < 1e-9
        True
    """
    least_s = WORTH * prediction.step_s if prediction.has_headroom else float("-inf")
    with catalogue_overlay(prediction.pricing.catalogue):
        if prediction.is_recorded:
            return _program_changes(prediction)
        found = [one for one in changed(prediction) if one.fits and one.gained_s > least_s]
        if not found and not prediction.has_headroom:
            nodes = (one for one in with_more_nodes(prediction) if one.fits)
            best = [*islice(nodes, 1), *islice(_on_the_host(prediction), 1)]
            return [replace(one, probability=_probability(prediction, one)) for one in best]
        sensible = [one for one in found if is_sensible(prediction, one)]
        if prediction.has_headroom or sensible:
            found = sensible
        distinct = {one.run.layout: one for one in reversed(found)}  # said in two ways, once
        best = sorted(distinct.values(), key=lambda one: -one.gained_s)[:count]
        return [replace(one, probability=_probability(prediction, one)) for one in best]


def is_sensible(prediction: Prediction, one: Improvement) -> bool:
    """True for what whoever tunes such a run would try.

    No pipeline in one node, for adapters, for encoders or where the model has to be rewritten for it; no
    tensor parallelism beyond the scale-up domain; no sequence is split below 16k tokens.
    """
    run, before, after = prediction.run, prediction.run.layout, one.run.layout
    if after.pp > before.pp:
        family = framework_or_default(run.software.framework)
        small = run.gpus <= run.cluster.gpus_per_node or before.frozen_weights
        if small or not prediction.traits.decoder or "pp" in family.rewrites:
            return False
    if after.tp > max(before.tp, run.cluster.domain_gpus):
        return False
    stages = after.virtual_stages if {"pp", "virtual_stages"} & one.fields.keys() else 1
    if stages > max(before.virtual_stages, MOST_VIRTUAL_STAGES):
        return False
    return after.cp <= before.cp or run.seq >= LONG_SEQUENCE


def _probability(prediction: Prediction, one: Improvement) -> float:
    """That the change really saves time; that the run then fits, if it does not."""
    if not prediction.has_headroom:
        memory_bytes = prediction.memory_bytes + one.memory_bytes
        return MemoryMargin.on(prediction.cluster.device, memory_bytes).probability
    other = predict(one.run, prediction.pricing)
    return Ratio(other.step_s, prediction.step_s, step_deviation(prediction, other)).probability


def _program_changes(prediction: Prediction) -> list[Improvement]:
    """Single changes of a recorded program that help, the best first."""
    program, found = prediction.program, []
    for kind, change in CHANGES.items():
        other = change(program)
        if other is not None:
            step_s = prediction.pricing.timed(other, prediction.cluster).step_s
            where = change_places(kind, program, prediction.rank)
            found.append(Improvement(kind, other, prediction.step_s - step_s, where=where))
    helping = [one for one in found if one.gained_s >= WORTH * prediction.step_s]
    return sorted(helping, key=lambda one: -one.gained_s)


def largest_batch(prediction: Prediction) -> float | None:
    """Times the recorded batch of a rank that fits; None if nothing grows with it."""
    kinds = prediction.memory_by_cause
    growing = kinds.get(HeldKind.ACTIVATIONS, 0.0) + kinds.get(HeldKind.OTHER, 0.0)
    if not growing:
        return None
    free = usable_bytes(prediction.cluster.device) - (prediction.memory_bytes - growing)
    return max(free / growing, 0.0)


def changed(prediction: Prediction, fields: tuple[str, ...] = ()) -> list[Improvement]:
    """Every single change of the layout (or of some of its `fields`) that is possible, priced.

    What was open stays open: each is what `predict` says of the run with that one thing stated.
    """
    run = prediction.run
    tried = list(_changes(prediction, fields))
    layouts = [layout for _, several in tried for layout in several]
    times = iter(timed_layouts(prediction.pricing, run.model, run.cluster, layouts, run.seq))
    found, before = [], not_offered_in(run).keys()
    for change, several in tried:
        each = {one.layout: one for one in islice(times, len(several))}
        seconds, memory = zip(*((one.step_s, one.memory_bytes) for one in each.values()), strict=True)
        best = each[preferred(run, list(each), seconds, memory)]
        missing = not_offered_in(run, best.layout).keys()
        if missing <= before and not missing & set(change.fields):
            found.append(_improvement(prediction, change, best))
    return found


def not_offered_in(run: Run, layout: Layout | None = None) -> dict[str, str]:
    """What of `layout`, or of its own, the framework of a settled run cannot run, and why."""
    family = framework_or_default(run.software.framework)
    return not_offered(family, run.software, layout or run.layout, run.model)


def _improvement(prediction: Prediction, change: SingleChange, best: TimedLayout) -> Improvement:
    return Improvement(
        change.words,
        prediction.run.model_copy(update={"layout": best.layout}),
        prediction.step_s - best.step_s,
        best.memory_bytes - prediction.memory_bytes,
        change.fields,
        bool(fits(best.memory_bytes, prediction.cluster.device)),
        _also(prediction.run.layout, best.layout, change),
    )


def _also(before: Layout, after: Layout, change: SingleChange) -> dict[str, Any]:
    """Fields that are chosen otherwise; recomputation with its layers or modules."""
    changed = [
        name
        for name in CHOSEN
        if name not in change.fields and chosen_words(before, name) != chosen_words(after, name)
    ]
    return {
        name: chosen_words(after, name) if name == "recompute" else getattr(after, name) for name in changed
    }


def _changes(prediction: Prediction, fields: tuple[str, ...]) -> Iterator[tuple[SingleChange, list[Layout]]]:
    """Changes (of `fields`, or of all) that break no rule, each with the layouts it may mean."""
    run, asked = prediction.run, prediction.settled.asked
    tried: list[tuple[SingleChange, list[Layout]]] = []
    for change in single_changes(run, asked, framework_or_default(run.software.framework)):
        if fields and change.field not in fields:
            continue
        layout = asked.layout.model_copy(update=change.fields).placed(run.gpus)
        if not broken_rules(run.model, layout.plain(), run.seq, run.gpus):
            tried.append((change, complete_layouts(asked.model_copy(update={"layout": layout}))))
    memory = iter(memory_of(run.model, [one for _, several in tried for one in several], run.seq))
    for change, several in tried:
        used = list(islice(memory, len(several)))
        is_one = len(several) == 1
        yield change, several if is_one else fitting(several, used, run.cluster.device)[0]


def _on_the_host(prediction: Prediction) -> Iterator[Improvement]:
    """Optimizer, then gradients, then weights in the memory of the host: what then fits."""
    asked = prediction.settled.asked
    for count in range(1, len(_HOST) + 1):
        fields: dict[str, Any] = dict.fromkeys(_HOST[:count], True)
        if "offload_weights" in fields and asked.layout.shard is None:
            fields["shard"] = Shard.FSDP  # which even one rank needs for it
        layout = asked.layout.model_copy(update=fields)
        if broken_rules(asked.model, layout.placed(asked.gpus).plain(), asked.seq, asked.gpus):
            continue
        other = predict(asked.model_copy(update={"layout": layout}), prediction.pricing)
        if other.has_headroom and not not_offered_in(other.run).keys() & set(fields):
            yield _beside(prediction, other, ", ".join(_HOST[:count]), fields)


def with_more_nodes(prediction: Prediction) -> Iterator[Improvement]:
    """The same layout and batch on 2, 4, 8, ... times the nodes, as far as the machine goes."""
    asked = prediction.settled.asked
    layout = asked.layout.model_copy(update={"dp": None, "shard_degree": None})
    for times in _TIMES:
        larger = _larger(asked, asked.nodes * times, layout)
        if larger is None:
            continue
        other = predict(larger, prediction.pricing)
        yield _beside(prediction, other, f"nodes {larger.nodes}", {})


def _beside(prediction: Prediction, other: Prediction, words: str, fields: dict[str, Any]) -> Improvement:
    """What `other` brings, called `words`."""
    gained_s = prediction.step_s - other.step_s
    more_bytes = other.memory_bytes - prediction.memory_bytes
    return Improvement(words, other.run, gained_s, more_bytes, fields, other.has_headroom)


def _larger(asked: Run, nodes: int, layout: Layout) -> Run | None:
    """The run on more nodes; a batch of one sequence each, which was hardly stated, grows too."""
    batches: list[int | None] = [asked.layout.global_batch]
    if asked.layout.global_batch == asked.layout.dp:
        batches.append(None)
    for batch in batches:
        try:
            cluster = asked.cluster.using(nodes=nodes)
            return asked.on(cluster, layout.model_copy(update={"global_batch": batch}))
        except (ValidationError, ValueError):
            continue
    return None


@published()
@dataclass(frozen=True, slots=True)
class FirstRun:
    """The same run with the defaults of its framework, beside the tuned one that `predict` describes.

    What data loading, logging, garbage collection and a site's network add is in neither.
    """

    step_s: float
    """Predicted."""
    differences: dict[str, str]
    """Settings that nobody stated, as the framework has them by default."""


def first_run(prediction: Prediction) -> FirstRun | None:
    """The step with the framework's own defaults; None if they are what tuned runs have."""
    run, asked = prediction.run, prediction.settled.asked
    open_fields = {one.field for one in prediction.chosen}
    if asked.software.kernels is None:
        open_fields.add("kernels")
    defaults = prediction.prices.setting.framework.untuned
    found: dict[str, dict[str, Any]] = {"layout": {}, "software": {}}
    for name, value in defaults.items():
        part = "software" if name == "kernels" else "layout"
        if name in open_fields and getattr(getattr(run, part), name) != value:
            found[part][name] = value
    differences = {name: value for fields in found.values() for name, value in fields.items()}
    if not differences:
        return None
    parts = {name: getattr(run, name).model_copy(update=fields) for name, fields in found.items()}
    step_s = prediction.again(run.model_copy(update=parts)).step_s
    if step_s <= prediction.step_s:
        return None
    return FirstRun(step_s, {name: text_of(value) for name, value in differences.items()})
