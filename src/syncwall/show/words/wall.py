"""The sentences of a sync wall.

Holds `verdict`; `side_verdict` and `side_why`, of one way to scale; `change_words`; `layout_grows`,
`batch_words` and `efficiency_means`.
"""

from typing import Final

from syncwall.plan.choices import Scaling
from syncwall.plan.reference import Reference
from syncwall.plan.wall.answer import EXPLAINED, MOST, Moved, Side, SyncWall, Wall, WallPlan
from syncwall.plan.wall.moves import OUTER_EVERY, Setup, WallChange, island
from syncwall.show.numbers import percent, plural
from syncwall.show.words.layout import layout_words, of_tokens, sample

_CAUSES: Final = 3
"""Causes of a loss that are named."""


def verdict(plan: WallPlan) -> list[str]:
    """A line for each way to scale."""
    return [side_verdict(side) for side in plan.wall.sides.values()]


def side_verdict(side: Side) -> str:
    """How far one way to scale holds, and what stops it."""
    wall = next(wall for wall in side.walls if wall.level == EXPLAINED)
    said = f"{side.scaling} scaling {_holds(wall)}"
    if wall.falls_at_gpus is not None:
        said += f"; {_stopped_by(side)}"
    top = side.peak
    if top.ended_by == "slower":
        said += f"; more than {plural(top.gpus, 'GPU')} make it slower"
    elif top.ended_by == "batch":
        said += f"; the batch ends it at {top.gpus:,}"
    return said


def _stopped_by(side: Side) -> str:
    if side.main_cause:
        return f"what stops it: {side.main_cause}"
    exposed = sum(lost.share for lost in side.losses if lost.cause.is_exposed)
    if exposed >= MOST:
        return "what stops it: exposed communication"
    return "no single cause explains it"


def _holds(wall: Wall) -> str:
    level = percent(wall.level)
    if wall.holds_to_gpus is None:
        return f"never reaches {level} efficiency"
    gpus = plural(wall.holds_to_gpus, "GPU")
    if wall.falls_at_gpus is None:
        return f"stays above {level} efficiency to its end, {gpus}"
    return f"holds {level} efficiency up to {gpus}"


def side_why(side: Side) -> str:
    """What a token costs more at the wall, by cause."""
    at, base = plural(side.causes_at, "GPU"), f"{side.base.gpus:,}"
    if not side.losses:
        return f"{side.scaling}: nothing is lost up to {at}"
    efficiency = side.curve.efficiency(side.base)
    lost = 1.0 / float(efficiency[int((side.curve.gpus == side.causes_at).argmax())]) - 1.0
    named = [f"{one.cause} {percent(one.share)}" for one in side.losses[:_CAUSES]]
    rest = 1.0 - sum(one.share for one in side.losses[:_CAUSES])
    named += [f"the rest {percent(rest)}"] if abs(rest) >= 0.005 else []
    return (
        f"{side.scaling} at {at}: a token costs {percent(lost)} more GPU time than at {base}; "
        f"of that {', '.join(named)}"
    )


def change_words(moved: Moved) -> str:
    """What was changed, with the layout that it was computed with."""
    layouts = list(moved.layouts.values())
    if moved.change is WallChange.DILOCO and layouts:
        return f"DiLoCo: {plural(island(layouts[0]), 'GPU')}, every {OUTER_EVERY} steps"
    if moved.change is WallChange.LAYOUT:
        texts = dict.fromkeys(layout_words(layout) for layout in layouts)
        return f"layout {' / '.join(texts)}"
    return str(moved.change)


def layout_grows(answer: SyncWall, start: Reference) -> str:
    """Where the layout comes from, and how it changes with the GPUs."""
    if answer.setup.chosen is not None:
        strong = answer.setup.chosen.get(Scaling.STRONG) or ()
        ends = dict.fromkeys(layout_words(one) for one in strong[:1] + strong[-1:])
        return f"the best of each count by search: {' ... '.join(ends)}"
    how = "the best by search" if start.layout_searched else "as stated"
    return f"{layout_words(answer.setup.layout)} ({how} on {start.run.gpus:,} GPUs); dp grows"


def batch_words(setup: Setup, way: Scaling) -> str:
    """What stays the same when GPUs are added."""
    strong = way is Scaling.STRONG
    case = setup.case
    several = plural(setup.batch if strong else setup.replica_batch, sample(case.model))
    long = of_tokens(case.model, case.seq)
    return f"{several}{long} {'in all' if strong else 'for every replica'}"


def efficiency_means(answer: SyncWall) -> str:
    """What the numbers of the table are."""
    counts = dict.fromkeys(plural(side.base.gpus, "GPU") for side in answer.sides.values())
    searched = answer.setup.chosen is not None
    which = "where a GPU is fastest" if searched else "the fewest on which it fits"
    return (
        f"efficiency: speed of a GPU over that on {' and '.join(counts)}, {which}, in every row; "
        "+ and more: the curve ends there"
    )
