"""The sync wall on one screen, and as plain data.

Holds `wall_page`, `wall_record` and the sentences of both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.describe import Layout
from syncwall.describe.choice import Choice
from syncwall.plan.reference import Reference
from syncwall.plan.wall.answer import EXPLAINED, LEVELS, Moved, Peak, Side, SyncWall, Wall
from syncwall.plan.wall.moves import OUTER_EVERY, Change, island
from syncwall.plan.wall.rungs import Scaling, picked
from syncwall.show.headed import Fitting, Headed, plain_table
from syncwall.show.layout_words import layout_words, run_words
from syncwall.show.numbers import duration
from syncwall.show.record import record
from syncwall.show.wall_chart import terminal_chart
from syncwall.units import Dimension

_SHOWN_CAUSES = 3


def wall_page(answer: SyncWall, start: Reference) -> RenderableType:
    """Verdict, curve, where it falls and what moves it, why."""
    verdict = [side_verdict(side) for side in answer.sides.values()]
    parts: list[RenderableType] = [
        *(Headed("" if number else "Verdict", line) for number, line in enumerate(verdict)),
        Text(),
        _Chart(answer),
        Text(),
        Fitting(_moves(answer), _moves(answer, narrow=True)),
        Text(),
        *_other_layouts(answer),
        *(Headed("" if n else "Why", side_why(one)) for n, one in enumerate(answer.sides.values())),
        Headed("Run", _run(start)),
        Headed("Layout", _layout(answer, start)),
        Headed("Batch", _batch(answer)),
        Headed("Means", _means(answer)),
    ]
    if start.assumed:
        said = ", ".join(f"{name} {value}" for name, value in start.assumed.items())
        parts.append(Headed("Open", said))
    return Group(*parts)


def wall_record(answer: SyncWall, start: Reference) -> dict[str, Any]:
    """The same for `json.dumps`."""
    return {
        "verdict": [side_verdict(side) for side in answer.sides.values()],
        "sides": {str(scaling): _side_record(side) for scaling, side in answer.sides.items()},
        "moved": [_moved_record(moved) for moved in answer.moved],
        "most_gpus": answer.setup.most,
        "global_batch": answer.setup.batch,
        "replica_batch": answer.setup.replica_batch,
        "left_open": start.assumed,
        "layout_searched": start.layout_searched,
        "step_s": start.prediction.step_s,
        "run": record(start.run),
    }


def side_verdict(side: Side) -> str:
    """How far one way to scale holds, and what stops it."""
    wall = next(wall for wall in side.walls if wall.level == EXPLAINED)
    said = f"{side.scaling} scaling {_holds(wall)}"
    if wall.falls_at is not None:
        cause = side.main_cause
        said += f"; what stops it: {cause}" if cause else "; no single cause explains it"
    top = side.peak
    if top.why == "slower":
        said += f"; more than {top.gpus:,} GPUs make it slower"
    elif top.why == "batch":
        said += f"; the batch ends it at {top.gpus:,}"
    return said


def _holds(wall: Wall) -> str:
    if wall.holds_to is None:
        return f"never reaches {wall.level:.0%} efficiency"
    if wall.falls_at is None:
        return f"stays above {wall.level:.0%} efficiency to its end, {wall.holds_to:,} GPUs"
    return f"holds {wall.level:.0%} efficiency up to {wall.holds_to:,} GPUs"


@dataclass(frozen=True, slots=True)
class _Chart:
    """The curves, as wide as the terminal allows."""

    answer: SyncWall

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (Text(line) for line in terminal_chart(self.answer, options.max_width))


def _moves(answer: SyncWall, *, narrow: bool = False) -> Table:
    """The walls as they are and with each change; a `narrow` table has the first levels only."""
    levels = LEVELS[:2] if narrow else LEVELS
    heads = ["  most GPUs with an efficiency of"]
    for scaling in answer.sides:
        heads += [f"{'' if n else f'{scaling}  '}{level:.0%}" for n, level in enumerate(levels)]
        heads += ["fastest"] if scaling is Scaling.STRONG and not narrow else []
    table = plain_table(*heads)
    sides = answer.sides.values()
    rows = [("as it is", {s.scaling: s.walls for s in sides}, {s.scaling: s.peak for s in sides})]
    rows += [(_change(moved), moved.walls, moved.peaks) for moved in answer.moved]
    for name, walls, peaks in rows:
        cells: list[str] = []
        for scaling in answer.sides:
            found = [wall for wall in walls.get(scaling, ()) if wall.level in levels]
            cells += map(_count, found) if found else [""] * len(levels)
            if scaling is Scaling.STRONG and not narrow:
                cells.append(_top(peaks[scaling]) if found else "")
        table.add_row(f"    {name}", *cells, style="bold" if name == "as it is" else None)
    return table


def _change(moved: Moved) -> str:
    """What was changed; other layouts have a line of their own."""
    return str(moved.change) if moved.change is Change.LAYOUT else change_words(moved)


def _other_layouts(answer: SyncWall) -> Iterator[Headed]:
    """The layouts that a search found for where the walls are."""
    for moved in answer.moved:
        if moved.change is Change.LAYOUT:
            for number, (scaling, layout) in enumerate(moved.layouts.items()):
                yield Headed("" if number else "Another", f"{scaling}: {layout_words(layout)}")


def change_words(moved: Moved) -> str:
    """What was changed, with the layout that it was computed with."""
    layouts = list(moved.layouts.values())
    if moved.change is Change.DILOCO and layouts:
        return f"DiLoCo every {OUTER_EVERY} steps, {island(layouts[0]):,}-GPU copies"
    if moved.change is Change.LAYOUT:
        texts = dict.fromkeys(layout_words(layout) for layout in layouts)
        return f"layout {' / '.join(texts)}"
    return str(moved.change)


def _count(wall: Wall) -> str:
    if wall.holds_to is None:
        return "none"
    return f"{_gpus(wall.holds_to)}{'+' if wall.falls_at is None else ''}"


def _top(top: Peak) -> str:
    return f"{_gpus(top.gpus)}{'+' if top.why == 'range' else ''}"


def _gpus(count: int) -> str:
    """A count in few letters."""
    if count >= 1_000_000:
        return f"{count / 1e6:.2f}M"
    return f"{count:,}" if count < 100_000 else f"{count / 1000:.0f}k"


def side_why(side: Side) -> str:
    """What a token costs more at the wall, by cause."""
    efficiency = side.curve.efficiency(side.base)
    index = int((side.curve.gpus == side.causes_at).argmax())
    lost = 1.0 / float(efficiency[index]) - 1.0
    if not side.losses:
        return f"{side.scaling}: nothing is lost up to {side.causes_at:,} GPUs"
    named = [f"{one.cause} {one.share:.0%}" for one in side.losses[:_SHOWN_CAUSES]]
    rest = 1.0 - sum(one.share for one in side.losses[:_SHOWN_CAUSES])
    named += [f"the rest {rest:.0%}"] if abs(rest) >= 0.005 else []
    return (
        f"{side.scaling} at {side.causes_at:,} GPUs: a token costs {lost:.0%} more GPU time than "
        f"at {side.base.gpus:,}; of that {', '.join(named)}"
    )


def _run(start: Reference) -> str:
    """The run that was stated, and its step as `predict` has it."""
    return f"{run_words(start.run)}: {duration(start.prediction.step_s)}"


def _layout(answer: SyncWall, start: Reference) -> str:
    if answer.setup.chosen is not None:
        strong = answer.setup.chosen.get(Scaling.STRONG) or ()
        ends = [layout_words(one) for one in (strong[:1] + strong[-1:])]
        return "the best of each count by search: " + " ... ".join(dict.fromkeys(ends))
    how = "the best by search" if start.layout_searched else "as stated"
    return f"{layout_words(answer.setup.layout)} ({how} on {start.run.gpus:,} GPUs); dp grows"


def _batch(answer: SyncWall) -> str:
    setup = answer.setup
    tokens = units.format(float(setup.batch * setup.case.seq), Dimension.TOKENS, digits=3)
    return (
        f"strong: {setup.batch:,} sequences of {setup.case.seq:,} ({tokens}) in all; "
        f"weak: {setup.replica_batch:,} for every replica"
    )


def _means(answer: SyncWall) -> str:
    bases = {side.base.gpus: side for side in answer.sides.values()}
    counts = " and ".join(f"{gpus:,}" for gpus in bases)
    searched = answer.setup.chosen is not None
    which = "where a GPU is fastest" if searched else "the fewest on which it fits"
    return (
        f"efficiency: speed of a GPU over that on {counts} GPUs, {which}, in every row; + and "
        f"more: the curve ends there"
    )


def _side_record(side: Side) -> dict[str, Any]:
    curve = side.curve
    efficiency = curve.efficiency(side.base)
    return {
        "base": {"gpus": side.base.gpus, "tokens_per_s_per_gpu": side.base.tokens_per_s_per_gpu},
        "walls": [wall_fields(wall) for wall in side.walls],
        "fastest": peak_fields(side.peak),
        "causes_at_gpus": side.causes_at,
        "causes": {one.cause: one.share for one in side.losses},
        "main_cause": side.main_cause,
        "curve": [
            {
                "gpus": int(gpus),
                "efficiency": float(efficiency[i]),
                "tokens_per_s": float(curve.tokens_per_s[i]),
                "step_s": float(curve.step_s[i]),
                "memory_bytes": float(curve.memory_bytes[i]),
                "layout": _sizes(picked(curve.layout, i)),
            }
            for i, gpus in enumerate(curve.gpus)
        ],
    }


def _sizes(layout: Layout) -> dict[str, Any]:
    names = ("dp", "tp", "pp", "cp", "ep", "shard", "micro_batch", "global_batch", "virtual_stages")
    values = {name: getattr(layout, name) for name in names}
    return {name: v.text if isinstance(v, Choice) else v for name, v in values.items()}


def _moved_record(moved: Moved) -> dict[str, Any]:
    return {
        "change": str(moved.change),
        "layouts": {str(s): _sizes(layout) for s, layout in moved.layouts.items()},
        "walls": {str(s): [wall_fields(w) for w in found] for s, found in moved.walls.items()},
        "fastest": {str(s): peak_fields(top) for s, top in moved.peaks.items()},
    }


def wall_fields(wall: Wall) -> dict[str, Any]:
    """A wall as plain data."""
    return {"level": wall.level, "holds_to_gpus": wall.holds_to, "falls_at_gpus": wall.falls_at}


def peak_fields(top: Peak) -> dict[str, Any]:
    """Where it is fastest, as plain data."""
    return {"gpus": top.gpus, "tokens_per_s": top.tokens_per_s, "ended_by": top.why}
