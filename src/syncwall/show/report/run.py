"""The article of a run: verdict, numbers, where its time goes, what to change, how far it scales.

Holds `run_blocks` and `run_title`. Every sentence is computed. `scaling_blocks`: how far a run
scales, in an article.
"""

from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

from syncwall.answer.improvements import Improvement
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import MFU_CONVENTION
from syncwall.answer.timeline import micro_batch_intervals
from syncwall.cause import LEAST_SHARE
from syncwall.plan.wall.answer import LEVELS
from syncwall.show.layout_words import layout_words
from syncwall.show.numbers import duration, signed
from syncwall.show.prediction import assumed, evidence, why
from syncwall.show.report.answered import Answered
from syncwall.show.report.axes import Unit
from syncwall.show.report.bars import Bar, Names, bar_chart
from syncwall.show.report.blocks import (
    Block,
    Bullets,
    Code,
    Figure,
    Heading,
    Paragraph,
    sentence,
    table,
)
from syncwall.show.report.frame import Entry
from syncwall.show.report.lanes import layer_lanes, layer_windows, whole_lanes
from syncwall.show.report.svg import Drawing
from syncwall.show.wall import wall_record
from syncwall.show.wall_chart import svg_chart
from syncwall.units import Dimension


def scaling_blocks(answered: Answered, level: int) -> list[Block]:
    """Where efficiency falls, the curves, and what moves the wall."""
    head = Heading(level, "How far it scales")
    if answered.wall is None:
        return [head, Paragraph(f"It cannot be spread further: {answered.no_wall}.")]
    record = wall_record(answered.wall, answered.start)
    sides = list(record["sides"])
    bases = sorted({record["sides"][side]["base"]["gpus"] for side in sides})
    fewest = " and ".join(f"{gpus:,}" for gpus in bases)
    caption = (
        f"Speed of a GPU over that on {fewest} GPUs, the fewest on which it fits. "
        f"Strong: {record['global_batch']:,} sequences a step in all; "
        f"weak: {record['replica_batch']:,} for every replica. "
        "The layout stays, data parallelism grows."
    )
    now = ("as it is", *_cells({side: record["sides"][side]["walls"] for side in sides}, sides))
    moved = [(one["change"], *_cells(one["walls"], sides)) for one in record["moved"]]
    columns = [f"{side} {share:.0%}" for side in sides for share in LEVELS]
    return [
        head,
        *(Paragraph(sentence(said)) for said in record["verdict"]),
        Figure(svg_chart(answered.wall), caption),
        Paragraph("Most GPUs with at least this efficiency, as it is and with single changes:"),
        *table(("", *columns), [now, *(row for row in moved if row[1:] != now[1:])]),
        Paragraph("+ the curve ends there; what moves nothing is left out.", is_quiet=True),
    ]


def _cells(walls: dict[str, Any], sides: Sequence[str]) -> list[str]:
    return [_count(wall) for side in sides for wall in walls.get(side) or [None for _ in LEVELS]]


def _count(wall: dict[str, Any] | None) -> str:
    if wall is None:
        return ""
    if wall["holds_to_gpus"] is None:
        return "none"
    return f"{wall['holds_to_gpus']:,}{'+' if wall['falls_at_gpus'] is None else ''}"


_MEMORY: Final = Names("memory of the fullest GPU", unit=Unit("GB", 1e9))


def run_title(answered: Answered) -> str:
    """What runs where."""
    run = answered.prediction.run
    name = f"{run.model.title or run.model.name} on {run.gpus:,} × {_device(answered.prediction)}"
    return name if answered.completion is None else f"{name}, until it is done"


def run_blocks(answered: Answered, level: int) -> list[Block]:
    """The whole article; its headings have `level`."""
    prediction = answered.prediction
    return [
        *step_blocks(prediction, level),
        Heading(level, "What to change"),
        *_next(prediction, answered.proposals),
        *scaling_blocks(answered, level),
        *basis_blocks(prediction, level),
        *repeat_blocks(answered, level),
    ]


def step_blocks(prediction: Prediction, level: int) -> list[Block]:
    """Verdict, numbers and pictures of the step."""
    return [
        Paragraph(sentence(prediction.verdict.text), is_lead=True),
        Paragraph(_what(prediction)),
        *_numbers(prediction),
        Heading(level, "Where time and memory go"),
        Paragraph(sentence(why(prediction))),
        Figure(_ledger(prediction), "The step by cause. The parts add up to the whole step."),
        Figure(_memory(prediction), _memory_said(prediction)),
        Heading(level, "One micro batch"),
        *_timeline(prediction),
    ]


def basis_blocks(prediction: Prediction, level: int) -> list[Block]:
    """What the prediction rests on."""
    said = [sentence(evidence(prediction))]
    if prediction.assumed:
        taken = ", ".join(f"{name} {value}" for name, value in prediction.assumed.items())
        said.append(f"Left open, and taken as the fastest that fits: {taken}.")
    taken_for_granted = tuple(assumed(prediction))
    return [
        Heading(level, "What it rests on"),
        *(Paragraph(one) for one in said),
        Paragraph("Assumed:"),
        Bullets(taken_for_granted),
    ]


def repeat_blocks(answered: Answered, level: int) -> list[Block]:
    """The file and the command that give the same answer."""
    stated = answered.stated
    kind = "run" if stated.job is None else "job"
    return [
        Heading(level, "To repeat it"),
        Paragraph(f"The {kind} file {stated.file}:"),
        Code(stated.text.strip("\n")),
        Paragraph("Commands that give these answers:"),
        Code(
            f"syncwall predict {quote(stated.file)} --explain-assumptions\n"
            f"syncwall report {quote(stated.file)} --html report.html"
        ),
    ]


def _what(prediction: Prediction) -> str:
    run = prediction.run
    parameters = f"{run.model.parameters / 1e9:,.3g} billion"
    nodes = f"{run.nodes or 1:,} node{'s' * (run.nodes != 1)}"
    return (
        f"{run.model.title or run.model.name} ({parameters} parameters) on {nodes} of "
        f"{run.cluster.title or run.cluster.name} with {run.gpus_per_node} × {_device(prediction)} "
        f"each. {run.layout.global_batch:,} sequences of {run.seq:,} tokens a step: "
        f"{layout_words(run.layout)}, {run.layout.precision}."
    )


def _device(prediction: Prediction) -> str:
    device = prediction.run.cluster.device
    return device.title or device.name


def _numbers(prediction: Prediction) -> list[Block]:
    """The numbers that people ask for, those of time with their 80 % interval."""
    step, (low, high) = prediction.step_s, prediction.step_interval_s
    speed, mfu = prediction.tokens_per_s_per_gpu, prediction.mfu
    slow, fast = step / high, step / low
    have = float(prediction.run.cluster.device.memory.size_bytes)
    rows = [
        ("step", "P50", duration(step), f"{duration(low)} to {duration(high)}"),
        ("tokens/s/GPU", f"{speed * prediction.run.gpus:,.0f} tokens/s in all", f"{speed:,.0f}",
         f"{speed * slow:,.0f} to {speed * fast:,.0f}"),
        ("MFU", MFU_CONVENTION, f"{mfu:.1%}", f"{mfu * slow:.1%} to {mfu * fast:.1%}"),
        ("HFU", "with what is computed twice", f"{prediction.hfu:.1%}", ""),
        ("waits for communication", f"{duration(prediction.exposed_s)} of each step",
         f"{prediction.exposed_s / step:.1%}", ""),
        ("memory", f"{'fits' if prediction.fits else 'too much for'} {_gb(have)}",
         _gb(prediction.memory_bytes), ""),
    ]  # fmt: skip
    return table(("number", "", "predicted", "80 % interval"), rows, words=2)


def _ledger(prediction: Prediction) -> Drawing:
    step = prediction.step_s
    causes = sorted(prediction.ledger.items(), key=lambda pair: -float(pair[1]))
    bars = [
        Bar(cause, float(s), kind="f1" if cause.is_wait else "f0")
        for cause, s in causes
        if float(s) >= LEAST_SHARE * step
    ]
    names = Names("time of a step", kinds=(Entry("works", "f0"), Entry("waits", "f1")))
    return bar_chart(bars, Dimension.SECONDS, names, lambda s: f"{duration(s)}, {s / step:.1%}")


def _memory(prediction: Prediction) -> Drawing:
    parts = sorted(prediction.memory.by_cause().items(), key=lambda pair: -pair[1])
    bars = [Bar(cause.replace("_", " "), used) for cause, used in parts if used > 0]
    return bar_chart(bars, Dimension.BYTES, _MEMORY, _gb)


def _memory_said(prediction: Prediction) -> str:
    have = float(prediction.run.cluster.device.memory.size_bytes)
    left = have - prediction.memory_bytes
    end = f"{_gb(left)} stay free" if left >= 0 else f"{_gb(-left)} too much"
    return f"Memory by cause: {_gb(prediction.memory_bytes)} of {_gb(have)}, {end}."


def _timeline(prediction: Prediction) -> list[Block]:
    intervals = micro_batch_intervals(prediction)
    streams = dict.fromkeys(["compute", *(str(one.stream) for one in intervals)])
    others = [stream for stream in streams if stream != "compute"]
    said = f"A lane for each stream of the last pipeline rank: {', '.join(streams)}. "
    said += "Where the compute lane is empty, it waits." if others else "Nothing is communicated."
    blocks: list[Block] = [Paragraph(said, is_quiet=True)]
    end = max(one.end_s for one in intervals)
    whole = (
        f"Forward, backward and the optimizer step: {duration(end)}, {len(intervals):,} operations."
    )
    blocks.append(Figure(whole_lanes(intervals), whole))
    for window in layer_windows(intervals):
        length = duration(window.end_s - window.start_s)
        caption = sentence(f"{window.name}: {length}")
        blocks.append(Figure(layer_lanes(intervals, window), caption))
    return blocks


def _next(prediction: Prediction, proposals: list[Improvement]) -> list[Block]:
    if not proposals:
        return [Paragraph("No single change of the layout helps.")]
    rows = [
        (
            one.change,
            signed(-one.gained_s),
            f"{-one.gained_s / prediction.step_s:+.1%}".replace("-", "−"),
            f"{one.memory_bytes / 1e9:+.1f} GB".replace("-", "−"),
        )
        for one in proposals
    ]
    said = "Single changes of the layout, each predicted like the run itself"
    said += "." if prediction.fits else "; the run does not fit as it is, with these it does."
    return [Paragraph(said), *table(("change", "step", "", "memory"), rows)]


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:,.1f} GB"
