"""A prediction: verdict, numbers, ledger, memory, timeline, why, what to change, evidence.

Holds `prediction_view` and `prediction_blocks`; `memory_row`, `memory_figure`, `chosen`,
`assumptions_lines` and `timeline_figures` for other views; `strips` draws streams over time in
letters.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from syncwall.answer.contention import Contention
from syncwall.answer.gap import Gap
from syncwall.answer.improvements import Improvement
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import Room, mfu_convention
from syncwall.answer.timeline import Timeline
from syncwall.cause import LEAST_SHARE, CauseKind
from syncwall.cost.contended_network import SharedLinks
from syncwall.describe import Device, Run
from syncwall.show.blocks import (
    Block,
    Bullets,
    Figure,
    Lines,
    Verdict,
    View,
    ledger,
    table,
    wrapped,
)
from syncwall.show.draw.svg import Drawing
from syncwall.show.numbers import (
    duration,
    gigabytes,
    minus,
    percent,
    plural,
    signed,
    signed_percent,
)
from syncwall.show.views.gap import gap_blocks
from syncwall.show.words.contention import contention_words, flows_words
from syncwall.show.words.gap import gap_verdict
from syncwall.show.words.layout import counted, run_title, run_words
from syncwall.show.words.prediction import (
    assumed,
    change_words,
    evidence,
    known_runs,
    left_open,
    no_change,
    why,
)
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.streams import Interval

_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_WIDEST_STRIP: Final = 64
_LEAST_BYTES: Final = 5e7
"""Memory from which a part of it is listed."""


def prediction_view(prediction: Prediction, *, assumptions: bool = False) -> View:
    """All of it; `assumptions` lists everything that is taken for granted."""
    blocks = prediction_blocks(prediction, prediction.improvements, assumptions=assumptions)
    return View(run_title(prediction.run), tuple(blocks))


def ledger_view(found: Ledger) -> View:
    """Where the time goes."""
    return View(
        "Where the time goes", (ledger("where the time goes", found, least=0.0, total="all"),)
    )


def timeline_view(found: Timeline) -> View:
    """The streams in time."""
    return View(found.title, tuple(timeline_figures(found)))


def prediction_blocks(
    prediction: Prediction, proposals: list[Improvement], *, assumptions: bool = False
) -> list[Block]:
    """What there is to say of a step."""
    least_s, gap = LEAST_SHARE * prediction.step_s, prediction.gap
    return [
        *_verdict(prediction, gap),
        *numbers(prediction),
        ledger("where the time goes", prediction.ledger, least=least_s),
        memory_figure(prediction.memory.by_cause(), prediction.run.cluster.device),
        *timeline_figures(prediction.timeline()),
        Lines("Why", (why(prediction),)),
        *_links(prediction),
        *_next(prediction, proposals),
        Lines("Evidence", (evidence(prediction),)),
        *(
            [Lines("Site", (known_runs(prediction),))]
            if prediction.site.known or prediction.site.left_out
            else []
        ),
        *chosen(prediction.assumed),
        *assumptions_lines(prediction, everything=assumptions),
    ]


def _verdict(prediction: Prediction, gap: Gap | None) -> list[Block]:
    """What limits the run; before that, what was measured beside it."""
    said = Verdict((prediction.verdict.text,), run_words(prediction.run))
    if gap is None:
        return [said]
    return [replace(said, lines=(gap_verdict(gap), *said.lines)), *gap_blocks(gap)]


def _in_all(run: Run, speed: float) -> str:
    """The speed of all GPUs; where tokens are patches, in images too."""
    tokens = f"{speed * run.gpus:,.0f} {counted(run.model)}/s in all"
    if run.model.patches is None:
        return tokens
    return f"{tokens}, {speed * run.gpus / run.seq:,.0f} images/s"


def numbers(prediction: Prediction) -> list[Block]:
    """The numbers that people ask for, with their 80% intervals."""
    step_s, (low_s, high_s) = prediction.step_s, prediction.step_interval_s
    speed, mfu = prediction.tokens_per_s_per_gpu, prediction.mfu
    slow, fast = step_s / high_s, step_s / low_s
    rows = [
        ("step", duration(step_s), f"{duration(low_s)} to {duration(high_s)}", ""),
        (f"{counted(prediction.run.model)}/s/GPU", f"{speed:,.0f}",
         f"{speed * slow:,.0f} to {speed * fast:,.0f}",
         _in_all(prediction.run, speed)),
        ("MFU", percent(mfu, 1), f"{percent(mfu * slow, 1)} to {percent(mfu * fast, 1)}",
         mfu_convention(prediction.run.model)),
        ("HFU", percent(prediction.hfu, 1), "", "with what is computed twice"),
        memory_row(prediction.room),
    ]  # fmt: skip
    if prediction.host_memory_bytes:
        rows.append(("on the host", gigabytes(prediction.host_memory_bytes), "",
                     "a node, by offloading; pinned copies of it come on top"))  # fmt: skip
    return table(("", "predicted", "80% interval", ""), rows, ends_in_words=True)


def memory_row(room: Room) -> tuple[str, str, str, str]:
    """The memory of the fullest GPU, and how likely it fits."""
    low, high = (f"{bound / 1e9:.0f}" for bound in room.interval_bytes)
    sure = percent(min(max(room.probability, 0.01), 0.99))
    about = f"of {gigabytes(room.size_bytes)} a GPU; fits with {sure}"
    return "memory", gigabytes(room.memory_bytes), f"{low} to {high} GB", about


def chosen(fields: dict[str, str]) -> list[Block]:
    """What was left open."""
    return [Lines("Chosen", (left_open(fields),))] if fields else []


def memory_figure(bytes_by_cause: Mapping[str, float], device: Device) -> Figure:
    """The fullest GPU, part by part."""
    from syncwall.show.draw.bars import memory_chart

    parts = sorted(bytes_by_cause.items(), key=lambda pair: -pair[1])
    listed = (f"{cause} {size / 1e9:.1f}" for cause, size in parts if size > _LEAST_BYTES)
    used, have = sum(bytes_by_cause.values()), float(device.memory.size_bytes)
    end = f"{gigabytes(abs(have - used))} {'stay free' if have >= used else 'too much'}"
    caption = f"memory of the fullest GPU: {gigabytes(used)} of {gigabytes(have)}, {end}"
    return Figure(
        partial(memory_chart, parts), caption, partial(wrapped, f"GB: {' · '.join(listed)}")
    )


def timeline_figures(timeline: Timeline, what: str = "one micro batch") -> list[Block]:
    """One micro batch and the optimizer, stream by stream."""
    from syncwall.show.draw.lanes import layer_lanes, layer_windows, whole_lanes

    intervals = timeline.intervals
    end_s = max(one.end_s for one in intervals)
    caption = f"{what}, forward and backward, and the optimizer: {duration(end_s)}"
    drawn = partial(strips, intervals)
    layers = [
        Figure(
            partial(layer_lanes, intervals, window),
            f"{window.name}: {duration(window.end_s - window.start_s)}",
        )
        for window in layer_windows(intervals)
    ]
    return [Figure(partial(whole_lanes, intervals), caption, drawn), *layers]


def strips(intervals: list[Interval], width: int) -> list[str]:
    """How busy computation and communication are over time, a line for each."""
    wide = min(width - 10, _WIDEST_STRIP)
    end_s = max(interval.end_s for interval in intervals)
    lanes = {"compute": [0.0] * wide, "network": [0.0] * wide}
    for interval in intervals:
        computes = interval.stream == "compute"
        if computes and interval.cause.kind is CauseKind.WAIT:
            continue  # the optimizer on the host
        lane = lanes["compute" if computes else "network"]
        start, end = interval.start_s / end_s * wide, interval.end_s / end_s * wide
        for cell in range(int(start), min(int(end) + 1, wide)):
            lane[cell] += max(0.0, min(end, cell + 1) - max(start, cell))
    return [f"{name}  {''.join(map(_level, busy))}".rstrip() for name, busy in lanes.items()]


def _level(busy: float) -> str:
    return _LEVELS[min(len(_LEVELS) - 1, round(busy * (len(_LEVELS) - 1)))]


def _next(prediction: Prediction, proposals: list[Improvement]) -> list[Block]:
    """Single changes that help, each predicted like the run itself."""
    if not proposals:
        return [Lines("Next", (no_change(prediction),))]
    rows = [
        (f"{number}", change_words(one), signed(-one.gained_s),
         signed_percent(-one.gained_s / prediction.step_s),
         minus(f"{one.memory_bytes / 1e9:+.1f} GB"))
        for number, one in enumerate(proposals, 1)
    ]  # fmt: skip
    head = ("", "change", "step", "of the step", "memory")
    return table(head, rows, words=2, label="Next", spare=("of the step",))


def _links(prediction: Prediction) -> list[Block]:
    """What flows that share links do to the step, if a fabric was given."""
    found, network = prediction.contention, prediction.pricing.network
    if found is None:
        return []
    said = Lines("Links", contention_words(found), True)
    if not found.flows or not isinstance(network, SharedLinks):
        return [said]
    return [said, _flows_figure(prediction, found, network)]


def _flows_figure(prediction: Prediction, found: Contention, network: SharedLinks) -> Figure:
    """The flows that the busiest link slows, on links as wide as they are busy."""
    from syncwall.show.draw.flows import flows_drawing

    slowest, run = found.flows[0], prediction.run
    what = f"{flows_words(slowest, run.layout)} on {found.fabric}, {found.routing} routing"
    caption = f"{what}: the median of {plural(found.draws, 'draw')}"

    def drawn() -> Drawing:
        return flows_drawing(network.carried(slowest, run.cluster), what)

    return Figure(drawn, caption)


def assumptions_lines(prediction: Prediction, *, everything: bool) -> list[Block]:
    """What is taken for granted: the first of it, or everything."""
    lines = tuple(assumed(prediction))
    if everything:
        return [Lines("Assumed", ("all of this:",)), Bullets(lines)]
    return [Lines("Assumed", (f"{'; '.join(lines[:2])} (all: --explain-assumptions)",), True)]
