"""The best layouts: one table, why the others lost, and what less memory costs."""

from dataclasses import dataclass
from typing import Final

from syncwall.answer.improvements import Improvement
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import mfu_convention
from syncwall.plan.answers import Other, Plan
from syncwall.plan.choices import SEARCHED
from syncwall.plan.search import differences
from syncwall.plan.tuning import TunedSetting
from syncwall.public import published
from syncwall.show.blocks import Block, Code, Heading, Lines, Verdict, View, table
from syncwall.show.layout import columns, layout_words, of_tokens, sample, setting_words, speed_unit
from syncwall.show.numbers import duration, minus, percent, plural, signed, signed_percent
from syncwall.work.memory import usable_bytes

_SAME: Final = 1e-4
"""Changes below this share of a step make no difference."""
_CAUSES: Final = 5


def verdict(plan: Plan) -> str:
    """The best layout, or why there is none."""
    if plan.best:
        best = plan.best[0].prediction
        layout = best.run.layout
        what = f"{layout_words(layout)}, {layout.precision} on {plural(best.run.gpus, 'GPU')}"
        speed = f"{duration(best.step_s)} a step, MFU {percent(best.mfu, 1)}"
        likely = "" if plan.best[0].is_sure else f", {percent(best.room.probability)} likely to fit"
        return f"{what}: {speed}{likely}{_beside_yours(plan, best)}"
    nearest = plan.found.smallest
    if plan.found.fitting:
        return "none: no layout that fits is quick enough"
    if nearest is None:
        return "none: no layout is possible; is the batch a multiple of the replicas?"
    have = usable_bytes(plan.run.cluster.device)
    return (
        f"none fits: the smallest, {layout_words(nearest.layout())}, needs "
        f"{nearest.memory_bytes / 1e9:.0f} of {have / 1e9:.0f} GB"
    )


def _beside_yours(plan: Plan, best: Prediction) -> str:
    """How the best compares with the user's own layout, on as many GPUs or on others."""
    if plan.now is None:
        return ""
    if not plan.now.fits:
        return "; yours does not fit"
    other = _other_in_yours(plan, best)
    if plan.now.run.gpus == best.run.gpus:
        return f", {plan.now.step_s / best.step_s:.2f} times as fast as yours{other}"
    share = plan.cost(best) / plan.cost(plan.now)
    return f"; a token costs {share:.2f} of what it costs in yours{other}"


def _other_in_yours(plan: Plan, best: Prediction) -> str:
    """What the question states otherwise than the user's own layout, though it is not searched."""
    mine, found = plan.now.run.layout if plan.now else best.run.layout, best.run.layout
    fields = (name for name in plan.found.pinned if name not in SEARCHED)
    other = [name for name in fields if getattr(mine, name) != getattr(found, name)]
    said = ", ".join(setting_words(name, getattr(mine, name)) for name in other)
    return f" ({said})" if said else ""


def search_words(plan: Plan) -> str:
    """What was searched, and how much of it there is."""
    return (
        f"{plan.run.model.name} on {plan.run.cluster.name}, "
        f"{plural(plan.global_batch, sample(plan.run.model))}"
        f"{of_tokens(plan.run.model, plan.run.seq)} a step; "
        f"{plan.found.counted:,} layouts are possible, {plan.found.fitting:,} fit"
    )


def why_slower(plan: Plan) -> list[str]:
    """Where the second layout, and the user's own, lose."""
    best = plan.best[0].prediction
    others = [("layout 2", one.prediction) for one in plan.best[1:2]]
    others += [("yours", plan.now)] if plan.now is not None else []
    lines = []
    for name, other in others:
        apart_s = other.step_s - best.step_s
        more = f"{duration(abs(apart_s))} {'more' if apart_s >= 0 else 'less'} than layout 1"
        lost = (f"{d.cause} {signed(d.seconds)}" for d in differences(best, other)[:_CAUSES])
        lines.append(": ".join(filter(None, (f"{name} takes {more}", ", ".join(lost)))))
    return lines


def faster(plan: Plan) -> str:
    """The layout that would be faster, and what speaks against it."""
    other = plan.fastest
    if other is None:
        return ""
    one, best = other.prediction, plan.best[0].prediction
    fit = one.room.probability
    against = [f"{percent(fit)} likely to fit"] if fit < best.room.probability else []
    against += [f"{', '.join(other.unusual)}: rare in published runs"] if other.unusual else []
    gain = signed_percent(one.step_s / best.step_s - 1.0)
    return f"if you can run it: {layout_words(one.run.layout)}, {gain} time; {'; '.join(against)}"


def better_batch(plan: Plan, other: Other) -> str:
    """What a batch would bring that more numbers of replicas can share."""
    now = f" instead of {percent(plan.best[0].prediction.mfu, 1)}" if plan.best else ""
    return (
        f"{plan.global_batch:,} sequences cannot be split evenly among {other.excluded} of the "
        f"possible numbers of replicas; {other.batch:,} can: MFU "
        f"{percent(other.best.mfu, 1)}{now}, {layout_words(other.best.run.layout)}"
    )


def tuning_words(plan: Plan) -> list[str]:
    """What buckets or settings of FSDP buy in the best layout, a line each."""
    return [one.said for one in plan.tuned]


@published(
    "setting=setting.name said fields=setting.fields gained_s=setting.gained_s",
    "memory_bytes=setting.memory_bytes fits=setting.fits taken=setting.taken",
)
@dataclass(frozen=True)
class SettingBought:
    """The best other value of a setting of the best layout, against its default."""

    setting: TunedSetting
    said: str
    """In words."""


def tuned_settings(plan: Plan) -> list[SettingBought]:
    """What buckets of DDP, or units, resharding and prefetch of FSDP buy in the best layout."""
    best = plan.best[0] if plan.best else None
    return [SettingBought(one, setting_bought(one, best.step_s)) for one in best.tuned] if best else []


def setting_bought(one: TunedSetting, step_s: float) -> str:
    """Seconds and memory of a setting against its default."""
    change = " and ".join(setting_words(name, value) for name, value in one.fields.items())
    same = abs(one.gained_s) <= _SAME * step_s
    gained = "saves nothing" if same else signed(-one.gained_s)
    more = minus(f"{one.memory_bytes / 1e9:+,.1f} GB")
    if one.taken:
        return f"{change}: {gained}, {more} against the default"
    left = "" if one.fits else ", does not fit"
    return f"{one.name} stays: {change} {gained}, {more}{left}"


def options(plan: Plan) -> str:
    """Fields that are not searched, and what changing each in the best layout would bring."""
    least_s = _SAME * plan.best[0].step_s
    said = [_gain(one) for one in plan.not_searched if abs(one.gained_s) > least_s]
    same = [one.change for one in plan.not_searched if abs(one.gained_s) <= least_s]
    said += [f"no difference from {' or '.join(same)}"] if same else []
    return f"not searched, but tried in layout 1: {', '.join(said)}" if said else ""


def _gain(one: Improvement) -> str:
    """Seconds that a change takes off a step, or adds."""
    return f"{one.change} {signed(-one.gained_s)}{'' if one.fits else ' but does not fit'}"


def evidence_words(plan: Plan) -> str:
    """How far to trust the times."""
    best = plan.best[0].prediction
    low_s, high_s = best.step_interval_s
    return (
        f"80% interval of layout 1: {duration(low_s)} to {duration(high_s)}; times of layouts on "
        f"one machine err together. MFU: {mfu_convention(best.run.model)}"
    )


_TEXTS: Final = ("exchange", "schedule", "recompute", "sharding")
_SPARE: Final = ("waits", "tokens/s/GPU", "samples/s/GPU", *_TEXTS, "etp", "cp", "ep")
"""What narrow screens leave out, first what follows from other columns."""


def layouts_view(plan: Plan) -> View:
    """All of it."""
    model, cluster = plan.run.model, plan.run.cluster
    title = f"Layouts of {model.title or model.name} on {cluster.title or cluster.name}"
    head = Verdict((verdict(plan),), search_words(plan))
    batch = plan.better_batch
    other = [Lines("Batch", (better_batch(plan, batch),))] if batch else []
    if not plan.best:
        return View(title, (head, *other))
    code: list[Block] = []
    if plan.settings:
        code = [Heading(2, "Settings of layout 1"), Code(plan.settings)]
    blocks = [
        head,
        *_table(plan),
        *_lines("Fastest", [faster(plan)]),
        *_lines("Why", why_slower(plan)),
        *_trade_offs(plan),
        *other,
        *(_lines("Tuned", tuning_words(plan)) if plan.best else ()),
        *_lines("Options", [options(plan)]),
        Lines("Evidence", (evidence_words(plan),), is_quiet=True),
        *code,
    ]
    return View(title, tuple(blocks))


def _lines(label: str, lines: list[str]) -> list[Block]:
    return [Lines(label, tuple(lines))] if any(lines) else []


def _table(plan: Plan) -> list[Block]:
    """A row for each layout, and for that of the user."""
    found = {f"{n}": one.prediction for n, one in enumerate(plan.best, 1)}
    found |= {"yours": plan.now} if plan.now is not None else {}
    several = len({one.run.gpus for one in found.values()}) > 1
    shown = columns([one.run.layout for one in found.values()])
    has_price = plan.price_usd_per_gpu_hour is not None
    cost = f"{'USD' if has_price else 'GPU-h'}/G{speed_unit(plan.run.model)[:-1]}"
    speed = f"{speed_unit(plan.run.model)}/s/GPU"
    head = ("#", "GPUs", *shown, "step", speed, "MFU", "memory", "fits", "waits", cost)
    rows = [
        (
            name,
            f"{one.run.gpus:,}" * several,
            *(cells[index] for cells in shown.values()),
            duration(one.step_s),
            f"{one.tokens_per_s_per_gpu:,.0f}",
            percent(one.mfu, 1),
            _memory(one),
            percent(one.room.probability),
            percent(one.exposed_s / one.step_s),
            f"{plan.cost(one):,.0f}",
        )
        for index, (name, one) in enumerate(found.items())
    ]
    spare = (*_SPARE, cost) if has_price else (cost, *_SPARE)
    return table(head, rows, words=0, texts=_TEXTS, spare=spare)


def _memory(one: Prediction) -> str:
    have = "" if one.fits else f"of {usable_bytes(one.run.cluster.device) / 1e9:.0f} "
    return f"{one.memory_bytes / 1e9:.0f} {have}GB"


def _trade_offs(plan: Plan) -> list[Block]:
    """Layouts that need less memory, or fewer GPUs, and what they cost in time."""
    several = len({point.gpus for point in plan.found.front}) > 1
    rows = [
        (
            duration(point.step_s),
            signed_percent(point.step_s / plan.best[0].step_s - 1, 0),
            f"{point.memory_bytes / 1e9:.0f} GB",
            plural(point.gpus, "GPU") if several else "",
            layout_words(point.layout()),
        )
        for point in plan.trade_offs
    ]
    head = ("step", "longer", "memory", "GPUs", "layout")
    return table(head, rows, words=0, ends_in_words=True, label="Trade-off")
