"""A run in which nothing is open any more, what was chosen for it, and among what.

Used for a user's run and for a published one alike.

People who tune a run take the fastest that surely fits, the one that needs less memory if several
are equally fast, and leave the rest to the framework; so do we.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from syncwall.answer.many import memory_of, seconds_of
from syncwall.answer.priced import likely_fits
from syncwall.answer.pricing import Pricing
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Device, Layout, Model, Run
from syncwall.describe.base import is_open
from syncwall.describe.choice import Dtype, text_of
from syncwall.describe.layout import ATTENTION_ALONE, PLAIN, Recompute, Schedule, Shard
from syncwall.describe.rules import broken_rules, can_share
from syncwall.describe.run import default_batch
from syncwall.describe.software import Framework, Month, at, with_switches
from syncwall.describe.switches import RecomputeModule
from syncwall.work.memory import fits

Floats = NDArray[np.float64]
CHOSEN: Final = ("shard", "micro_batch", "virtual_stages", "recompute")
"""Fields that are chosen by time and memory; a schedule, if open, follows from `virtual_stages`."""
_MICRO_BATCHES: Final = (1, 2, 4)
_OF_IMAGES: Final = (8, 16, 32, 64, 128)
"""More of them where a sequence is an image, of a few hundred tokens, or another sample."""
_SHORT_TOKENS: Final = 2**14
"""Micro batches of short sequences are doubled until they have so many tokens for each rank that
shares them: with tensor or context parallelism it takes as many times more to keep ranks busy."""
RECOMPUTED: Final = (0.125, 0.25, 0.5, 0.75, 0.875)
"""Shares of a stage's layers that are recomputed, besides all of them."""
SAFETY: Final = 0.05
"""How much slower a layout may be that fits with 90 % than the fastest that may fit."""
ADAPTER_SAFETY: Final = 0.5
"""The same where only adapters are trained: people of few GPUs checkpoint rather than try."""
_NEAR: Final[dict[str, float]] = {"shard": 0.05, "virtual_stages": 0.01, "micro_batch": 0.02}
"""Shares of the time by which a layout with the framework's usual sharding, fewer virtual stages
or smaller micro batches may be slower: nobody tunes further. By `python -m bench decisions`,
organisations left out."""
_EQUAL: Final = 0.002
"""Times that differ by less are equal: the one with the least memory is taken."""


def choices(
    model: Model,
    layout: Layout,
    open_fields: Sequence[str],
    framework: Framework,
    *,
    date: Month | None = None,
    usual: bool = True,
) -> dict[str, list[Any]]:
    """The values that each open field could have, the plainest first.

    What is `usual` for the framework is its only value, unless every value is asked for.
    """
    found: dict[str, list[Any]] = {}
    if "shard" in open_fields:
        found["shard"] = _shards(model, layout, framework, date)
    if "micro_batch" in open_fields:
        found["micro_batch"] = _micro_batches(model, layout, framework, usual)
    if "virtual_stages" in open_fields and layout.pp > 1:
        found["virtual_stages"] = _chunks(model, layout, framework, date, usual)
    if "recompute" in open_fields:
        known = framework.recompute if usual else None
        offered = framework.available(framework.recomputes, date)
        found["recompute"] = sorted(offered) if known is None else [known]
    return found


def _shards(model: Model, layout: Layout, framework: Framework, date: Month | None) -> list[Shard]:
    kinds = sorted(framework.available(framework.shards, date))
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


def _chunks(model: Model, layout: Layout, framework: Framework, date: Month | None, usual: bool) -> list[int]:
    if layout.schedule not in (None, Schedule.INTERLEAVED):
        return [1]
    counts = virtual_stage_counts(model, int(layout.pp), framework, date)
    if layout.schedule is None:
        known = framework.virtual_stages
        return [1, *([known] if known else counts)]
    known = framework.virtual_stages if usual else None
    return [known] if known else counts or [2]


def virtual_stage_counts(model: Model, pp: int, framework: Framework, date: Month | None = None) -> list[int]:
    """Virtual stages above one of an interleaved schedule, if the framework has it.

    They cut the layers evenly; embedding and output layer may count, with the layers of tokens
    predicted ahead. Where no number does so and stages may be listed, powers of two.
    """
    if Schedule.INTERLEAVED not in framework.schedules:
        return []
    layers, units = model.layers, model.layers + 2 + model.mtp_layers
    cuts = range(2, layers // pp + 2)
    even = [n for n in cuts if layers % (pp * n) == 0 or units % (pp * n) == 0]
    listed = [n for n in cuts if n & (n - 1) == 0 and pp * n <= layers]
    return even or (listed if at(framework.lists_stages, date) else [])


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
        memory = memory_of(run.model, layouts, run.seq)
        layout = preferred(run, layouts, seconds, memory)
    done = with_layout(run, layout)
    return SettledRun(done, run, tuple(_chosen(run, done, why)))


def preferred(
    run: Run, layouts: Sequence[Layout], seconds: Sequence[float], memory_bytes: Sequence[float]
) -> Layout:
    """Which of several layouts of `run` to take, by the time and memory of each.

    The fastest, or one that surely fits and is hardly slower; of nearly equal ones that with the
    framework's usual sharding, fewer virtual stages, smaller micro batches, less memory.
    """
    times, memory = np.array(seconds), np.array(memory_bytes)
    sure = np.where(likely_fits(memory, run.cluster.device), times, np.inf)
    worth = ADAPTER_SAFETY if run.layout.frozen_weights else SAFETY
    pick = _most_usual(run, layouts, times, memory)
    if sure.min() <= times[pick] * (1.0 + worth):
        pick = _most_usual(run, layouts, sure, memory)
    return layouts[pick]


def _most_usual(run: Run, layouts: Sequence[Layout], times: Floats, memory: Floats) -> int:
    """The place of the fastest, or of what people would rather run of those that are `_NEAR` it."""
    usual = framework_or_default(run.software.framework).shard
    left = np.flatnonzero(np.isfinite(times))
    for name, slower in _NEAR.items():
        values = np.array([_unusual(one, name, usual) for one in layouts])
        near = left[times[left] <= times[left].min() * (1.0 + slower)]
        left = left[values[left] == values[near].min()]
    equal = left[times[left] <= times[left].min() * (1.0 + _EQUAL)]
    return int(equal[memory[equal].argmin()])


def _unusual(layout: Layout, name: str, usual: Shard | None) -> int:
    """Orders layouts by one field, the most usual value first."""
    if name != "shard":
        return int(getattr(layout, name))
    is_partial = layout.shard_degree != int(layout.dp or 1) * layout.cp
    return int(usual is not None and layout.shard != usual) + is_partial


def with_layout(run: Run, layout: Layout) -> Run:
    """`run` in a layout with nothing open, and with the framework that it is taken to use."""
    family = framework_or_default(run.software.framework)
    software = run.software.model_copy(update={"framework": family.name})
    return run.model_copy(update={"layout": layout, "software": software})


def ways(run: Run) -> tuple[list[Layout], str]:
    """Layouts with nothing open that `run` may mean, of which the fastest is meant, and why.

    All fit, or it is the one that needs the least memory.
    """
    layouts = complete_layouts(run)
    if len(layouts) == 1:
        return layouts, SMALLEST if any(is_open(run.layout, name) for name in CHOSEN) else ""
    return fitting(layouts, memory_of(run.model, layouts, run.seq), run.cluster.device)


def complete_layouts(run: Run) -> list[Layout]:
    """Layouts with nothing open that `run` may mean, whether they fit or not; at least one."""
    family = framework_or_default(run.software.framework)
    left = [name for name in CHOSEN if is_open(run.layout, name)]
    values = choices(run.model, run.layout, left, family, date=run.software.date, usual=False)
    values |= _of_short_sequences(run, values.get("micro_batch", []))
    found, _ = candidates(run.model, run.layout, run.seq, run.gpus, values)
    if "shard" in left and is_open(run.layout, "shard_degree"):
        found += [part for one in found for part in _in_domains(run, one, family)]
    if "recompute" in left:
        found += [part for one in found for part in _partly(run, one, family)]
    found = found or [run.layout]  # the plain one was checked when the run was made
    return list(_all_completed(found, family, run))


def fitting(layouts: list[Layout], memory: list[float], device: Device) -> tuple[list[Layout], str]:
    """Those of `layouts` that fit and may be chosen, or the one with the least memory; and why."""
    enough = {one: used for one, used in zip(layouts, memory, strict=True) if fits(used, device)}
    if enough:
        return list(_not_in_vain(enough, device)), FASTEST
    return [layouts[memory.index(min(memory))]], SMALLEST


def _not_in_vain(memory: dict[Layout, float], device: Device) -> Iterator[Layout]:
    """Those that recompute no more than others of their kind must: it never makes a step faster.

    Of each kind the least that fits, and the least that surely does.
    """
    kinds: dict[tuple[object, ...], list[Layout]] = {}
    for one in sorted(memory, key=lambda one: -memory[one]):
        kinds.setdefault((_sizes(one), one.recompute), []).append(one)
    for (sizes, kind), several in kinds.items():
        sure = [one for one in several if likely_fits(memory[one], device)]
        plain = kinds.get((sizes, Recompute.NONE))
        if kind == Recompute.NONE or not (plain and likely_fits(memory[plain[0]], device)):
            yield from dict.fromkeys((several[0], *sure[:1]))


def _sizes(layout: Layout) -> tuple[object, ...]:
    return layout.shard, layout.shard_degree, layout.micro_batch, layout.virtual_stages, layout.schedule


def _all_completed(layouts: list[Layout], family: Framework, run: Run) -> Iterator[Layout]:
    """Layouts with nothing open; no switch depends on the size or number of what is computed."""
    known: dict[tuple[object, ...], Layout] = {}
    for one in layouts:
        key = one.shard, one.recompute, one.virtual_stages, one.schedule
        if key not in known:
            known[key] = _completed(one, family, run)
        names = ("micro_batch", "shard_degree", "recompute_layers", "recompute_modules")
        update = {name: getattr(one, name) for name in names if not is_open(one, name)}
        yield known[key].model_copy(update=update)


def _in_domains(run: Run, layout: Layout, family: Framework) -> Iterator[Layout]:
    """The same, shared by the ranks of a scale-up domain only, if ranks of several would share it."""
    whole, part = int(layout.dp or 1) * layout.cp, run.cluster.domain_gpus // int(layout.tp)
    inside = layout.model_copy(update={"shard_degree": part})
    if 1 < part < whole and layout.shard != Shard.DDP and layout.shard in family.partial_shards:
        is_held = not family.shards_hold_cp or part % layout.cp == 0
        if is_held and not broken_rules(run.model, inside.plain(), run.seq, run.gpus):
            yield inside


def _of_short_sequences(run: Run, counts: list[int]) -> dict[str, list[int]]:
    """Further micro batches, where several are tried and their sequences are short."""
    if len(counts) < 2:
        return {}
    shared = int(run.layout.tp) * int(run.layout.cp)
    most = min(max(_SHORT_TOKENS * shared // run.seq, 1), int(run.layout.global_batch or 1))
    return {"micro_batch": [*counts, *(n for n in _OF_IMAGES if counts[-1] < n <= most)]}


def _partly(run: Run, layout: Layout, family: Framework) -> Iterator[Layout]:
    """The same with more or less of a layer recomputed, or some of a stage's layers."""
    if layout.recompute_layers is not None or layout.recompute_modules != ATTENTION_ALONE:
        return
    if layout.recompute == Recompute.FULL and family.recomputes_some_layers:
        layers = -(-run.model.layers // int(layout.pp))
        for count in some_layers(layers, int(layout.virtual_stages or 1)):
            yield layout.model_copy(update={"recompute_layers": count})
    if layout.recompute == Recompute.SELECTIVE and at(family.recomputes_modules, run.software.date):
        for modules in _modules(run.model):
            yield layout.model_copy(update={"recompute_modules": modules})


def _modules(model: Model) -> Iterator[tuple[RecomputeModule, ...]]:
    """What is cheap to compute again for the memory that it frees, then the feed-forward part too."""
    light: tuple[RecomputeModule, ...] = ("layernorm",)
    if model.moe is not None:
        light += ("moe_act",)
    if model.stack is None and model.attention.latent is not None:
        light += ("mla_up_proj",)
    yield light
    yield (*light, "mlp")


def some_layers(layers: int, chunks: int = 1) -> list[int]:
    """How many of a rank's `layers` are recomputed where it is not all: equally many of each chunk."""
    counts = dict.fromkeys(chunks * round(share * layers / chunks) for share in RECOMPUTED)
    return [n for n in counts if 0 < n < layers]


def _completed(layout: Layout, family: Framework, run: Run) -> Layout:
    if is_open(layout, "shard"):  # several switches depend on it
        layout = layout.model_copy(update={"shard": layout.plain().shard})
    peaks = run.cluster.device.peak_flop_per_s
    if is_open(layout, "precision") and Dtype.BF16 not in peaks and Dtype.FP16 in peaks:  # V100, T4
        layout = layout.model_copy(update={"precision": Dtype.FP16})
    further = run.model.mtp_layers
    software = run.software
    return with_switches(layout, family, software.date, software, further_tokens=further).plain()


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
            yield Chosen(name, chosen_words(layout, name), why)
    if "global_batch" not in asked.layout.model_fields_set:
        _, why = default_batch(asked.model, asked.seq, asked.gpus)
        yield Chosen("global_batch", text_of(layout.global_batch), f"not stated: {why}")
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


def chosen_words(layout: Layout, name: str) -> str:
    """The value of a field of `CHOSEN`; recomputation with the layers or modules that it is of."""
    text = text_of(getattr(layout, name))
    if name == "shard" and layout.shard_degree != int(layout.dp or 1) * layout.cp:
        return f"{text} (shard_degree {layout.shard_degree})"
    if name != "recompute" or layout.recompute == Recompute.NONE:
        return text
    if layout.recompute == Recompute.SELECTIVE:
        return f"{text} ({', '.join(layout.recompute_modules)})"
    return (
        text if layout.recompute_layers is None else f"{text} ({layout.recompute_layers} layers of a stage)"
    )
