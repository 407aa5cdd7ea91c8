"""A run in which nothing is open any more, what was chosen for it, and among what.

Used for a user's run and for a published one alike.

People who tune a run take the fastest that fits, shard and recompute no more than they must, and
leave the rest to the framework; so do we.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from syncwall.answer.many import memory_of, seconds_of
from syncwall.answer.pricing import Pricing
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Model, Run
from syncwall.describe.base import is_open
from syncwall.describe.choice import text_of
from syncwall.describe.layout import PLAIN, Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules, can_share
from syncwall.describe.software import Framework, with_switches
from syncwall.work.memory import fits

CHOSEN: Final = ("shard", "micro_batch", "virtual_stages", "recompute")
"""Fields that are chosen by time and memory; a schedule, if open, follows from `virtual_stages`."""
_MICRO_BATCHES: Final = (1, 2, 4)
_OF_IMAGES: Final = (8, 16, 32, 64, 128)
"""More of them where a sequence is an image, of a few hundred tokens, or another sample."""


def choices(
    model: Model,
    layout: Layout,
    open_fields: Sequence[str],
    framework: Framework,
    *,
    usual: bool = True,
) -> dict[str, list[Any]]:
    """The values that each open field could have, the plainest first.

    What is `usual` for the framework is its only value, unless every value is asked for.
    """
    found: dict[str, list[Any]] = {}
    if "shard" in open_fields:
        found["shard"] = _shards(model, layout, framework)
    if "micro_batch" in open_fields:
        found["micro_batch"] = _micro_batches(model, layout, framework, usual)
    if "virtual_stages" in open_fields and layout.pp > 1:
        found["virtual_stages"] = _chunks(model, layout, framework, usual)
    if "recompute" in open_fields:
        known = framework.recompute if usual else None
        found["recompute"] = sorted(framework.recomputes) if known is None else [known]
    return found


def _shards(model: Model, layout: Layout, framework: Framework) -> list[Shard]:
    kinds = sorted(set(framework.shards))
    if not can_share(model, layout):
        return kinds[:1]
    if framework.shards_hold_cp and layout.cp > 1:
        kinds = [kind for kind in kinds if kind != Shard.DDP]
    if layout.pp > 1 and Shard.ZERO1 in kinds:  # there, ZeRO-2 is ZeRO-1
        kinds = [kind for kind in kinds if kind != Shard.ZERO2]
    return kinds


def _micro_batches(model: Model, layout: Layout, framework: Framework, usual: bool) -> list[int]:
    if usual and framework.microbatches_as_stages and layout.pp > 1:
        replica = int(layout.global_batch or 1) // int(layout.dp or 1)
        return [max(replica // int(layout.pp), 1)]
    return [*_MICRO_BATCHES, *(_OF_IMAGES if model.patches or model.stack else ())]


def _chunks(model: Model, layout: Layout, framework: Framework, usual: bool) -> list[int]:
    """Numbers of virtual stages that cut the layers of a rank evenly."""
    if layout.schedule not in (None, Schedule.INTERLEAVED):
        return [1]
    each = max(model.layers // int(layout.pp), 1)
    counts = [count for count in range(1, each + 1) if each % count == 0]
    if layout.schedule == Schedule.INTERLEAVED:
        counts = [count for count in counts if count > 1] or [2]
        known = framework.virtual_stages if usual else None
        return [known] if known else counts
    return counts


def candidates(
    model: Model, layout: Layout, seq: int, gpus: int, values: dict[str, list[Any]]
) -> tuple[list[Layout], list[str]]:
    """Every admissible layout with the `values` of its open fields, and why others are not."""
    found: list[Layout] = []
    reasons: list[str] = []
    for chosen in product(*values.values()):
        update = dict(zip(values, chosen, strict=True))
        if "virtual_stages" in update and is_open(layout, "schedule"):
            interleaved = update["virtual_stages"] > 1
            update["schedule"] = Schedule.INTERLEAVED if interleaved else Schedule.ONE_F_ONE_B
        one = layout.model_copy(update=update)
        broken = broken_rules(model, one.plain(), seq, gpus)
        reasons += [reason for _, reason in broken]
        found += [] if broken else [one]
    return found, reasons


FASTEST = "the fastest that fits"
SMALLEST = "nothing fits: the least memory"
EXCHANGE = ("dispatcher", "overlap_ep")
"""Fields that mean something only where experts are spread over ranks."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value for a field that nobody stated."""

    field: str
    value: str
    """As a run file would write it."""
    why: str
    follows: bool = False
    """True if it only follows from the framework, so that it is not a guess of its own."""


@dataclass(frozen=True, slots=True)
class SettledRun:
    """A complete run."""

    run: Run
    asked: Run
    """As it was stated."""
    chosen: tuple[Chosen, ...] = ()

    @property
    def guessed(self) -> dict[str, str]:
        """What was left open and had to be guessed, with the value taken."""
        return {one.field: one.value for one in self.chosen if not one.follows}


def settle(run: Run, pricing: Pricing) -> SettledRun:
    """`run` with a value for every open field: the one that is fastest at this `pricing`.

    Nothing fits only if no way to fill in what is open does.
    """
    layouts, why = ways(run)
    layout = layouts[0]
    if len(layouts) > 1:
        seconds = seconds_of(pricing, run.model, run.cluster, layouts, run.seq)
        layout = layouts[seconds.index(min(seconds))]
    done = with_layout(run, layout)
    return SettledRun(done, run, tuple(_chosen(run, done, why)))


def with_layout(run: Run, layout: Layout) -> Run:
    """`run` in a layout with nothing open, and with the framework that it is taken to use."""
    family = framework_or_default(run.software.framework)
    software = run.software.model_copy(update={"framework": family.name})
    return run.model_copy(update={"layout": layout, "software": software})


def ways(run: Run) -> tuple[list[Layout], str]:
    """Layouts with nothing open that `run` may mean, of which the fastest is meant, and why.

    All fit, or it is the one that needs the least memory.
    """
    family = framework_or_default(run.software.framework)
    left = [name for name in CHOSEN if is_open(run.layout, name)]
    if not left:
        return [_completed(run.layout, family, run)], ""
    lenient = family
    if family.recompute is Recompute.NONE:  # usual, but a user wants to know what would fit
        lenient = family.model_copy(update={"recompute": None})
    for usual in (True, False):
        values = choices(run.model, run.layout, left, lenient, usual=usual)
        found, _ = candidates(run.model, run.layout, run.seq, run.gpus, values)
        layouts = [_completed(one, family, run) for one in found]
        memory = memory_of(run.model, layouts, run.seq)
        fitting = [i for i, used in enumerate(memory) if fits(used, run.cluster.device)]
        if fitting:
            several = [layouts[i] for i in fitting]
            return _least(_least(several, "recompute", "shard"), "shard", "recompute"), FASTEST
    if not layouts:  # the plain one was checked when the run was made
        return [_completed(run.layout, family, run)], SMALLEST
    return [layouts[memory.index(min(memory))]], SMALLEST


def _completed(layout: Layout, family: Framework, run: Run) -> Layout:
    if is_open(layout, "shard"):  # several switches depend on it
        layout = layout.model_copy(update={"shard": layout.plain().shard})
    further = run.model.mtp_layers > 0
    software = run.software
    return with_switches(layout, family, software.date, software, further_tokens=further).plain()


def _least(layouts: Sequence[Layout], name: str, other: str) -> list[Layout]:
    """Of layouts that differ in `name` only, the one with the least of it.

    Nobody shards or recomputes more than needed.
    """
    best: dict[tuple[object, ...], Layout] = {}
    for one in layouts:
        key = (one.micro_batch, one.virtual_stages, getattr(one, other))
        before = best.get(key)
        if before is None or getattr(one, name) < getattr(before, name):
            best[key] = one
    return list(best.values())


def _chosen(asked: Run, done: Run, why: str) -> Iterator[Chosen]:
    """What of `asked` was open and matters."""
    layout = done.layout
    matters = {
        "shard": bool(can_share(done.model, layout)),
        "micro_batch": int(layout.global_batch or 1) > int(layout.dp or 1),
        "virtual_stages": layout.pp > 1 and asked.layout.schedule in (None, Schedule.INTERLEAVED),
        "schedule": False,  # said by the virtual stages
    }
    for name in CHOSEN:
        if is_open(asked.layout, name) and matters.get(name, True):
            yield Chosen(name, text_of(getattr(layout, name)), why)
    if is_open(asked.layout, "precision"):
        yield Chosen("precision", text_of(layout.precision), "usual")
    name = str(done.software.framework)
    if is_open(asked.software, "framework"):
        yield Chosen("framework", name, "most published large runs use it")
    if asked.software.date is None:
        yield Chosen("date", "newest", "not stated")
    told = {*CHOSEN, "precision", *(EXCHANGE if layout.ep == 1 else ())}
    for field in PLAIN:
        if field not in told and is_open(asked.layout, field):
            yield Chosen(field, text_of(getattr(layout, field)), f"as {name} does", follows=True)
