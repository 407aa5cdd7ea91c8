"""What to change: each proposal is the model run again, never a canned sentence.

Holds `Improvement`, `improvements` (of the layout), `changed` (every single change, priced) and
`with_more_nodes`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from syncwall.answer.levers import SingleChange, single_changes
from syncwall.answer.many import TimedLayout, timed_layouts
from syncwall.answer.open_fields import CHOSEN
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.settled import ways
from syncwall.catalogue import searched_first
from syncwall.cost.software import framework
from syncwall.describe import Layout, Run
from syncwall.describe.layout import Shard
from syncwall.describe.rules import broken_rules, not_offered
from syncwall.public import Part, published
from syncwall.work.memory import fits

WORTH: Final = 0.005
"""Share of a step that a change must save to be named."""
_HOST: Final = ("offload_optimizer", "offload_gradients", "offload_weights")
"""What may move to the host, that which costs least first."""
_TIMES: Final = (2, 4, 8, 16, 32, 64)
"""Times the nodes that are tried."""


@published("change gained_s memory_bytes layout=fields also nodes=run.nodes")
@dataclass(frozen=True, slots=True)
class Improvement:
    """A change and what it is predicted to bring."""

    _remedy = Part("change gained_s", text="A change that helps against the verdict.")
    _option = Part("change gained_s fits", text="A field of the best layout, changed.")
    change: str
    """In the words of the keys of a run."""
    run: Run
    gained_s: float
    """Seconds of the step that it saves."""
    memory_bytes: float
    """Memory that it needs more (or less, if negative)."""
    fields: dict[str, Any]
    """Fields of the layout that change, with their new values; None: filled in again."""
    fits: bool = True
    also: dict[str, Any] = field(default_factory=dict)
    """What was open and is chosen otherwise because of the change."""

    def __repr__(self) -> str:
        return f"<Improvement {self.change}: step {-self.gained_s:+.4g} s>"


def improvements(prediction: Prediction, count: int = 3) -> list[Improvement]:
    """The `count` single changes of the layout that save most of the step and still fit.

    If the run itself does not fit, the fastest changes that make it fit; if there is none, the
    fewest nodes on which it fits, and the least that the memory of the host would have to take.

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
    least_s = WORTH * prediction.step_s if prediction.fits else float("-inf")
    with searched_first(prediction.pricing.catalogue):
        found = [one for one in changed(prediction) if one.fits and one.gained_s > least_s]
        if not found and not prediction.fits:
            nodes = (one for one in with_more_nodes(prediction) if one.fits)
            return [*islice(nodes, 1), *islice(_on_the_host(prediction), 1)]
    distinct = {one.run.layout: one for one in reversed(found)}  # said in two ways, once
    return sorted(distinct.values(), key=lambda one: -one.gained_s)[:count]


def changed(prediction: Prediction, fields: tuple[str, ...] = ()) -> list[Improvement]:
    """Every single change of the layout (or of some of its `fields`) that is possible, priced.

    What was open stays open: each is what `predict` says of the run with that one thing stated.
    """
    run = prediction.run
    tried = list(_changes(prediction, fields))
    layouts = [layout for _, several in tried for layout in several]
    times = iter(timed_layouts(prediction.pricing, run.model, run.cluster, layouts, run.seq))
    found, before = [], _not_offered(run, run.layout)
    for change, several in tried:
        best = min(islice(times, len(several)), key=lambda one: one.step_s)
        missing = _not_offered(run, best.layout)
        if missing <= before and not missing & set(change.fields):
            found.append(_improvement(prediction, change, best))
    return found


def _not_offered(run: Run, layout: Layout) -> set[str]:
    """What of `layout` the framework of the run cannot run."""
    family, experts = framework(run.software.framework), run.model.moe is not None
    return not_offered(family, run.software.date, layout, experts=experts)


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
    """Fields that are chosen otherwise."""
    values = {name: getattr(after, name) for name in CHOSEN if name not in change.fields}
    return {name: value for name, value in values.items() if value != getattr(before, name)}


def _changes(
    prediction: Prediction, fields: tuple[str, ...]
) -> Iterator[tuple[SingleChange, list[Layout]]]:
    """Changes (of `fields`, or of all) that break no rule, each with the layouts it may mean."""
    run, asked = prediction.run, prediction.settled.asked
    for change in single_changes(run, asked, framework(run.software.framework)):
        if fields and change.field not in fields:
            continue
        layout = asked.layout.model_copy(update=change.fields).placed(run.gpus)
        if not broken_rules(run.model, layout.plain(), run.seq, run.gpus):
            yield change, ways(asked.model_copy(update={"layout": layout}))[0]


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
        if other.fits and not _not_offered(other.run, other.run.layout) & set(fields):
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


def _beside(
    prediction: Prediction, other: Prediction, words: str, fields: dict[str, Any]
) -> Improvement:
    """What `other` brings, called `words`."""
    gained_s = prediction.step_s - other.step_s
    more_bytes = other.memory_bytes - prediction.memory_bytes
    return Improvement(words, other.run, gained_s, more_bytes, fields, other.fits)


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
