"""A prediction: verdict, numbers, ledger, memory, timeline, why, what to change, evidence.

Of a run, or of a recorded program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from syncwall import units
from syncwall.answer.contention import Contention
from syncwall.answer.evidence import Heaviest, heaviest
from syncwall.answer.gap import Gap
from syncwall.answer.improvements import Improvement, not_offered_in
from syncwall.answer.prediction import PluggedPart, Prediction, plugged_parts
from syncwall.answer.priced import MemoryMargin, likely_fits
from syncwall.answer.site import WANTED
from syncwall.answer.timeline import Timeline
from syncwall.catalogue import catalogue_overlay
from syncwall.cause import LEAST_SHARE, Cause, CauseKind
from syncwall.cost.contended_network import SharedLinks
from syncwall.cost.measured import MachineMeasurements
from syncwall.cost.rates import nccl_generation, nic_reached
from syncwall.cost.torus import REACHED, Torus
from syncwall.describe import Cluster, Device, Run
from syncwall.describe.choice import text_of
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
from syncwall.show.capture import notes_table
from syncwall.show.contention import contention_words, flows_words
from syncwall.show.draw.svg import Drawing
from syncwall.show.gap import gap_blocks, gap_verdict
from syncwall.show.layout import run_title, run_words, speed_unit
from syncwall.show.numbers import (
    byte_size,
    duration,
    gigabytes,
    likelihood,
    minus,
    percent,
    plural,
    signed,
    signed_percent,
)
from syncwall.timeline.ledger import Ledger
from syncwall.timeline.streams import Interval
from syncwall.units import Dimension
from syncwall.work.program import Program
from syncwall.work.program_variants import ProgramChangeKind

_KNOB_WORDS: Final = {"gemm": str(Cause.GEMM), "elementwise": "element-wise"}
_PROGRAM_CHANGES: Final = {
    ProgramChangeKind.COMPILE: "join memory-bound kernels: torch.compile",
    ProgramChangeKind.HOST_WAITS: "do not wait for the device within a step",
    ProgramChangeKind.PADDING: "shard along a dimension that the ranks divide",
    ProgramChangeKind.RECOMPUTE: "compute nothing again, if memory allows",
    ProgramChangeKind.PREFETCH: "ask for sharded weights earlier, at best",
    ProgramChangeKind.BUCKETS: "reduce gradients in larger buckets",
}
_PLACES: Final = 3
"""Lines or parameters that a sentence names."""
_MODULES: Final = 12
_HIDDEN: Final = 1.02
"""What takes so many times longer than it is waited for is partly hidden."""


def prediction_title(prediction: Prediction) -> str:
    """What is predicted."""
    if prediction.is_recorded:
        return prediction.program.command or "a recorded program"
    return run_title(prediction.run)


def prediction_words(prediction: Prediction) -> str:
    """What runs where."""
    if not prediction.is_recorded:
        return run_words(prediction.run)
    program, cluster = prediction.program, prediction.cluster
    how = "compiled" if program.compiled else "eager"
    count = units.format(program.parameters, Dimension.TOKENS, digits=3).removesuffix(" tokens")
    size = f"{count} parameters, " if program.parameters else ""
    where = f"{plural(program.world_size, 'rank')} on {cluster.title or cluster.name}"
    return f"{size}{where}, {how}, recorded with torch {program.torch}"


def why(prediction: Prediction) -> str:
    """The largest work and the largest wait, with their shares."""
    ledger, step_s = prediction.ledger, prediction.step_s
    waits = {c: float(s) for c, s in ledger.items() if c.is_wait}
    works = {c: float(s) for c, s in ledger.items() if not c.is_wait}
    work = max(works, key=lambda cause: works[cause])
    words = f"{work} takes {duration(works[work])} ({percent(works[work] / step_s)})"
    if not waits:
        return words
    wait = max(waits, key=lambda cause: waits[cause])
    share = percent(waits[wait] / step_s)
    words += f"; the largest wait is {wait}, {duration(waits[wait])} ({share})"
    sent = heaviest(prediction, wait)
    return words if sent is None else f"{words}: {_sent(sent, waits[wait])}"


def _sent(sent: Heaviest, waiting_s: float) -> str:
    """What is sent, how often, and how long it takes; `waiting_s` of it and its like are seen."""
    where = "" if sent.block in sent.of else f" ({sent.block})"
    hidden = ", partly hidden" if sent.total_s > _HIDDEN * waiting_s else ""
    return (
        f"{plural(sent.calls, sent.kind)} of {' and '.join(sent.of)}{where}, "
        f"{byte_size(sent.bytes)} among {sent.ranks:,} GPUs in "
        f"{plural(sent.domains, 'scale-up domain')}, {duration(sent.each_s)} each, "
        f"{duration(sent.total_s)} a step{hidden}"
    )


def evidence(prediction: Prediction) -> str:
    """The nearest published run and how well it is predicted; of a program, what is not known."""
    if prediction.is_recorded:
        words = "few published runs can be recorded, so the interval is that of unlike programs"
        if prediction.unknown < LEAST_SHARE:
            return words
        return f"{words}; {percent(prediction.unknown, 1)} of its work is not known"
    nearest = prediction.interval.nearest
    if nearest is None:
        return "no published run to compare with"
    far = "; extrapolating" * prediction.interval.extrapolating
    far += "; without the plug-in that this one rests on" * bool(plugged_parts(prediction))
    run = nearest.run
    speed = f", measured {run.measured}" if run.measured else ""
    return (
        f"nearest validated run: {run.what}{speed}, predicted {nearest.ratio:.2f} of its measured time "
        f"({run.link}; `syncwall show run {nearest.id}`){far}{_width_reasons(prediction)}"
    )


def _width_reasons(prediction: Prediction) -> str:
    """What makes the interval wide beyond what every prediction of an unknown site has."""
    reasons = prediction.interval.reasons
    if not reasons or prediction.site.known:
        return ""
    return f"; the interval is wide because {', '.join(reasons)}"


def known_runs(prediction: Prediction) -> str:
    """How many known runs are used, what they made of the prices, and how many more would help."""
    count = len(prediction.site.known)
    left_out = "; ".join(map(_left_out, prediction.site.left_out))
    if not count:
        return left_out
    turned = prediction.pricing.knobs.by_name().items()
    prices = ", ".join(f"{_KNOB_WORDS.get(name, name)} × {value:.3f}" for name, value in turned)
    words = f"prices of this site from {plural(count, 'known run')}: {prices}"
    words += f"; {left_out}" if left_out else ""
    if count >= WANTED:
        return words
    return f"{words}; give {WANTED}: one alone may be an outlier, three tell the prices apart"


def _left_out(ratio: float) -> str:
    return (
        f"a known run is not used: it took {ratio:.2f} times as long as predicted, so its "
        "description or its machine is wrong (`syncwall predict` on its file says what may be)"
    )


def left_open(fields: dict[str, str]) -> str:
    """What the user left open, and what was chosen for it."""
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def no_change(prediction: Prediction) -> str:
    """What is left if no single change of the layout helps."""
    if prediction.is_recorded:
        return "no single change of the program that was tried helps"
    if not prediction.fits:
        return (
            "no single change, nor up to 64 times the nodes, nor the memory of the hosts, makes it "
            "fit: see `plan layouts`"
        )
    return "no single change of the layout that is usual for such a run helps"


def change_words(proposal: Improvement) -> str:
    """What to change, and what would then be chosen otherwise; in a program, where."""
    if isinstance(proposal.source, Program):
        named = ", ".join(proposal.where[:_PLACES])
        left = len(proposal.where) - _PLACES
        more = f" and {left} more" if left > 0 else ""
        return _PROGRAM_CHANGES[proposal.kind] + (f" ({named}{more})" if named else "")
    also = ", ".join(f"{name} {text_of(value)}" for name, value in proposal.also.items())
    return f"{proposal.change} (then {also})" if also else proposal.change


def _unsupported(prediction: Prediction) -> list[str]:
    """What of the layout the framework would refuse, though it is priced."""
    with catalogue_overlay(prediction.pricing.catalogue):
        return [f"{reason}, but is priced as stated" for reason in not_offered_in(prediction.run).values()]


def assumed(prediction: Prediction) -> list[str]:
    """What the prediction takes for granted."""
    layout, fit = prediction.run.layout, prediction.calibration
    setting = prediction.prices.setting
    reached = nic_reached(prediction.run.cluster, fit.network)
    calibrated = fit.device or "a generic device, because this one has no calibration"
    far = ", extrapolating" * prediction.interval.extrapolating
    machine = prediction.cluster
    origin = (machine.provenance or {}).get("source")
    build = [machine.note] if machine.note and origin == "syncwall-assumption" else []
    return [
        *_unsupported(prediction),
        *prediction.without_effect,
        *_images(prediction.run),
        *_plugged(prediction),
        *_unvalidated(prediction.cluster),
        *build,
        *_measured(fit.measured),
        f"compute calibrated for {calibrated}",
        f"gradients reduced in {layout.gradient_dtype}",
        *_collectives(prediction, reached),
        f"software as {setting.framework.title}, {setting.software.date or 'the newest'}: "
        f"attention {setting.attention}, element-wise kernels {setting.kernels}",
        f"computation loses {percent(fit.network.contention)} of its speed while weights or gradients move",
        "a tuned run: data loading, logging, garbage collection and checkpoints hold up no step",
        f"step times of nodes vary by {percent(fit.ranks.jitter, 1)}; the slowest sets the pace",
        "optimizer states in fp32 (12 bytes a parameter)",
        f"interval from the errors on runs of organisations that no fit had seen{far}",
        *([known_runs(prediction)] if prediction.site.was_asked else []),
    ]


def _images(run: Run) -> list[str]:
    """What a model that sees is given to see."""
    encoder = run.model.encoder
    if encoder is None or encoder.patches is None:
        return []
    count, side = run.layout.images or encoder.each, encoder.patches.image
    kind = "image" if count == 1 else "images or tiles"
    tokens = count * encoder.given_tokens
    return [
        f"{count} {kind} of {side} x {side} pixels in each sequence, {tokens:,} of its {run.seq:,} tokens"
    ]


def _plugged(prediction: Prediction) -> list[str]:
    """What of the answer is not syncwall's own, a line for each entry of a package."""
    parts: dict[PluggedPart, list[str]] = {}
    for part in plugged_parts(prediction):
        parts.setdefault(replace(part, what=""), []).append(part.what)
    return [
        f"{', '.join(what)} by {part.by} of {part.package}, a plug-in"
        + (f" ({part.formula})" if part.formula else "")
        for part, what in parts.items()
    ]


def _collectives(prediction: Prediction, reached: float) -> list[str]:
    """How NCCL's collectives are priced; nothing of machines that do not run it."""
    if Torus.of(prediction.cluster) is not None:
        return []
    nics = prediction.cluster.node.nics
    if nics is not None and nics.transport == "tcp":
        return [
            f"NCCL over TCP sockets, through host memory: {percent(reached)} of NIC line rate; "
            "write `nics: {link: roce-25}` or the like if the adapters do RDMA"
        ]
    lost = percent(prediction.calibration.network.nic_per_doubling, 1)
    return [
        f"NCCL 2.28 chooses algorithms; real links reach {percent(reached)} of NIC line rate, "
        f"{lost} less with every doubling of nodes"
    ]


def _unvalidated(cluster: Cluster) -> list[str]:
    """That collectives are priced by what no measurement of such a machine was held against."""
    torus, architecture = Torus.of(cluster), cluster.device.architecture
    if torus is not None:
        shape = " x ".join(map(str, torus.axes))
        return [
            f"collectives as rings in both directions along the axes of a torus of {shape}, at "
            f"{percent(REACHED)} of the links' rate: unvalidated, no such machine was measured"
        ]
    if nccl_generation(architecture) is not None:
        return []
    return [f"NCCL has no constants for {architecture}: those of Hopper are taken"]


def _measured(measured: MachineMeasurements) -> list[str]:
    """What was measured on the machine itself."""
    kernels = len(measured.gemm) + len(measured.attention) + len(measured.elementwise)
    counts = {"kernels": kernels, "tables of collectives": len(measured.collectives)}
    words = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    where = f" ({', '.join(measured.sources)})" if measured.sources else ""
    return [f"measured on the machine itself: {words}{where}"] if words else []


_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_WIDEST_STRIP: Final = 64
_LEAST_BYTES: Final = 5e7
"""Memory from which a part of it is listed."""


def prediction_view(prediction: Prediction, *, assumptions: bool = False) -> View:
    """All of it; `assumptions` lists everything that is taken for granted."""
    blocks = prediction_blocks(prediction, prediction.improvements, assumptions=assumptions)
    return View(prediction_title(prediction), tuple(blocks))


def ledger_view(found: Ledger) -> View:
    """Where the time goes."""
    return View("Where the time goes", (ledger("where the time goes", found, least=0.0, total="all"),))


def timeline_view(found: Timeline) -> View:
    """The streams in time."""
    return View(found.title, tuple(timeline_figures(found)))


def prediction_blocks(
    prediction: Prediction, proposals: list[Improvement], *, assumptions: bool = False
) -> list[Block]:
    """What there is to say of a step."""
    least_s, is_run = LEAST_SHARE * prediction.step_s, not prediction.is_recorded
    shared = [
        *_verdict(prediction, prediction.gap if is_run else None),
        *numbers(prediction),
        ledger("where the time goes", prediction.ledger, least=least_s),
        memory_figure(prediction.memory_by_cause, prediction.cluster.device),
        *timeline_figures(prediction.timeline(), "one micro batch" if is_run else "one step"),
        *([Lines("Why", (why(prediction),)), *_links(prediction)] if is_run else ()),
        *(() if is_run else _modules(prediction)),
        *_next(prediction, proposals),
        Lines("Evidence", (evidence(prediction),)),
    ]
    if not is_run:
        return [*shared, *notes_table(prediction.program.noted)]
    return [
        *shared,
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
    said = Verdict((prediction.verdict.text,), prediction_words(prediction))
    if gap is None:
        return [said]
    return [replace(said, lines=(gap_verdict(gap), *said.lines)), *gap_blocks(gap)]


def _speeds(prediction: Prediction) -> Iterator[tuple[str, float, str, str]]:
    """What is trained, how fast on a GPU, how that is written, and more to say of all GPUs."""
    if prediction.is_recorded:
        program = prediction.program
        for name, amount in (("tokens", program.tokens), ("samples", program.samples)):
            speed = amount / prediction.step_s / program.world_size
            if amount:
                yield name, speed, ",.0f" if speed >= 100 else ".3g", ""
        return
    run, speed = prediction.run, prediction.tokens_per_s_per_gpu
    images = "" if run.model.patches is None else f", {speed * run.gpus / run.seq:,.0f} images/s"
    yield speed_unit(run.model), speed, ",.0f", images


def numbers(prediction: Prediction) -> list[Block]:
    """The numbers that people ask for, with their 80% intervals."""
    step_s, (low_s, high_s) = prediction.step_s, prediction.step_interval_s
    mfu, gpus = prediction.mfu, int(prediction.work.gpus)
    slow, fast = step_s / high_s, step_s / low_s
    rows = [("step", duration(step_s), f"{duration(low_s)} to {duration(high_s)}", "")]
    first = None if prediction.is_recorded else prediction.first_run
    if first is not None:
        about = ", ".join(f"{field} {value}" for field, value in first.differences.items())
        rows.append(("first run", duration(first.step_s), "", f"with the framework's defaults: {about}"))
    for name, speed, digits, more in _speeds(prediction):
        between = f"{speed * slow:{digits}} to {speed * fast:{digits}}"
        in_all = f"{speed * gpus:{digits}} {name}/s in all{more}"
        rows.append((f"{name}/s/GPU", f"{speed:{digits}}", between, in_all))
    mfus = f"{percent(mfu * slow, 1)} to {percent(mfu * fast, 1)}"
    rows += [
        ("MFU", percent(mfu, 1), mfus, prediction.mfu_convention),
        ("HFU", percent(prediction.hfu, 1), "", "with what is computed twice"),
        memory_row(prediction.room),
    ]
    if not prediction.is_recorded and prediction.host_memory_bytes:
        about = "a node, by offloading; pinned copies of it come on top"
        rows.append(("on the host", gigabytes(prediction.host_memory_bytes), "", about))
    return table(("", "predicted", "80% interval", ""), rows, ends_in_words=True)


def _modules(prediction: Prediction) -> list[Block]:
    """Where the computation of a program goes, by module."""
    rows = [
        (
            one.name,
            duration(one.seconds),
            f"{percent(one.seconds / prediction.step_s)} of the step",
            plural(one.calls, "kernel"),
        )
        for one in prediction.by_module()[:_MODULES]
        if one.seconds >= LEAST_SHARE * prediction.step_s
    ]
    head = ("module", "time alone", "of the step", "kernels")
    return table(head, rows, label="Where") if rows else []


def memory_row(room: MemoryMargin) -> tuple[str, str, str, str]:
    """The memory of the fullest GPU, and how likely it fits."""
    low, high = (f"{bound / 1e9:.0f}" for bound in room.interval_bytes)
    about = f"of {gigabytes(room.size_bytes)} a GPU; {likelihood(room.probability)} likely to fit"
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
    return Figure(partial(memory_chart, parts), caption, partial(wrapped, f"GB: {' · '.join(listed)}"))


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
    known = () if prediction.is_recorded else (0,)
    aim = "help" if prediction.is_recorded or prediction.has_headroom else "fit"
    rows = [
        (
            f"{number}",
            change_words(one),
            signed(-one.gained_s),
            signed_percent(-one.gained_s / prediction.step_s),
            *(minus(f"{one.memory_bytes / 1e9:+.1f} GB") for _ in known),
            *(f"{likelihood(one.probability)} likely to {aim}{_fit(prediction, one)}" for _ in known),
        )
        for number, one in enumerate(proposals, 1)
    ]
    head = ("", "change", "step", "of the step", *("memory" for _ in known), *("likelihood" for _ in known))
    spare = ("of the step",)
    found = table(head, rows, words=2, texts=head[5:], label="Next", spare=spare) if proposals else []
    none = [] if proposals else [Lines("Next", (no_change(prediction),))]
    return [*found, *none, *(_batch(prediction) if prediction.is_recorded else [])]


def _fit(prediction: Prediction, one: Improvement) -> str:
    """How likely a faster run fits, unless that is sure."""
    memory_bytes, device = prediction.memory_bytes + one.memory_bytes, prediction.cluster.device
    if not prediction.has_headroom or likely_fits(memory_bytes, device):
        return ""
    return f", {percent(MemoryMargin.on(device, memory_bytes).probability)} to fit"


def _batch(prediction: Prediction) -> list[Block]:
    """How much larger the batch of a program could be."""
    times = prediction.largest_batch
    if times is None or times == 1.0:
        return []
    words = f"a batch of {percent(times)} of this one would fit"
    if times > 1.0:
        larger = f"{times:.2g}" if times < 10 else f"{times:,.0f}"
        words = f"the batch of a rank could be {larger} times as large and still fit"
    return [Lines("Batch", (words,))]


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
    shown = len(_unsupported(prediction)) + len(prediction.without_effect) + 2
    return [Lines("Assumed", (f"{'; '.join(lines[:shown])} (all: --explain-assumptions)",), True)]
