"""A prediction on one screen, and as plain data.

Holds `prediction_page`, `prediction_record`, and their sentences `why`, `evidence` and `assumed`.
`strips`: streams over time as one line each, for the terminal.
"""

from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall import units
from syncwall.answer.evidence import Heaviest, heaviest
from syncwall.answer.improvements import Improvement, with_more_nodes
from syncwall.answer.prediction import Prediction
from syncwall.answer.priced import MFU_CONVENTION
from syncwall.answer.site import WANTED
from syncwall.answer.timeline import micro_batch_intervals
from syncwall.cause import LEAST_SHARE, Cause
from syncwall.cost.measured import Measured
from syncwall.cost.rates import nccl_generation, nic_reached
from syncwall.describe import Device
from syncwall.describe.choice import text_of
from syncwall.show.headed import Headed, ledger_table, plain_table
from syncwall.show.layout_words import run_words
from syncwall.show.numbers import duration, signed
from syncwall.show.record import plain, record
from syncwall.timeline.streams import Interval
from syncwall.units import Dimension

_LEVELS = " ▁▂▃▄▅▆▇█"
_KNOB_WORDS: Final = {"gemm": str(Cause.GEMM), "elementwise": "element-wise"}


def strips(intervals: list[Interval], width: int = 64) -> dict[str, str]:
    """For computation and for communication, how busy each part of the time is."""
    end = max(interval.end_s for interval in intervals)
    lanes = {"compute": [0.0] * width, "network": [0.0] * width}
    for interval in intervals:
        lane = lanes["compute" if interval.stream == "compute" else "network"]
        _fill(lane, interval.start_s / end * width, interval.end_s / end * width)
    return {name: "".join(map(_level, busy)) for name, busy in lanes.items()}


def _fill(lane: list[float], start: float, end: float) -> None:
    """Add the part of each cell that lies between `start` and `end`, both in cells."""
    for cell in range(int(start), min(int(end) + 1, len(lane))):
        lane[cell] += max(0.0, min(end, cell + 1) - max(start, cell))


def _level(busy: float) -> str:
    return _LEVELS[min(len(_LEVELS) - 1, round(busy * (len(_LEVELS) - 1)))]


_BAR = 22
_HIDDEN = 1.02
"""What takes so many times longer than it is waited for is partly hidden."""


def prediction_page(
    prediction: Prediction, proposals: list[Improvement], *, assumptions: bool = False
) -> RenderableType:
    """Verdict, numbers, ledger, why and next."""
    parts: list[RenderableType] = [
        Headed("Verdict", prediction.verdict.text),
        Headed("", run_words(prediction.run), "dim"),
        Text(),
        _numbers(prediction),
        Text(),
        ledger_table("where the time goes", prediction.ledger, LEAST_SHARE * prediction.step_s),
        Text(),
        *_strips(prediction),
        Headed("Why", why(prediction)),
        _next(prediction, proposals),
        Headed("Evidence", evidence(prediction)),
    ]
    if prediction.site.known:
        parts.append(Headed("Site", known_runs(prediction)))
    if prediction.assumed:
        parts.append(Headed("Open", _left_open(prediction)))
    lines = assumed(prediction)
    if assumptions:
        parts += [Text("Assumed", style="bold"), *(Text(f"  {line}") for line in lines)]
    else:
        parts += [Headed("Assumed", f"{'; '.join(lines[:2])} (all: --explain-assumptions)", "dim")]
    return Group(*parts)


def prediction_record(prediction: Prediction, proposals: list[Improvement]) -> dict[str, Any]:
    """The prediction for `json.dumps`; seconds, bytes, FLOP."""
    return prediction.to_dict() | {
        "next": [
            {
                "change": p.change,
                "gained_s": p.gained_s,
                "memory_bytes": p.memory_bytes,
                "layout": {name: plain(value) for name, value in p.fields.items()},
                "also": {name: plain(value) for name, value in p.also.items()},
                "nodes": p.run.nodes,
            }
            for p in proposals
        ],
        "assumed": assumed(prediction),
        "run": record(prediction.run),
    }


def assumed(prediction: Prediction) -> list[str]:
    """What the prediction takes for granted, in words."""
    layout, fit = prediction.run.layout, prediction.calibration
    setting = prediction.prices.setting
    reached = nic_reached(prediction.run.cluster, fit.network)
    calibrated = fit.device or "a generic device, because this one has no calibration"
    return [
        *_strange(prediction.cluster.device),
        *_measured(fit.measured),
        f"compute calibrated for {calibrated}",
        f"gradients reduced in {layout.gradient_dtype}",
        f"NCCL 2.28 chooses algorithms; real links reach {reached:.0%} of NIC line rate, "
        f"{fit.network.nic_per_doubling:.1%} less with every doubling of nodes",
        f"software as {setting.framework.title}, {setting.software.date or 'the newest'}: "
        f"attention {setting.attention}, element-wise kernels {setting.kernels}",
        f"computation loses {fit.network.contention:.0%} of its speed while weights or "
        "gradients move",
        f"step times of nodes vary by {fit.ranks.jitter:.1%}; the slowest sets the pace",
        "optimizer states in fp32 (12 bytes a parameter)",
        *_sureness(prediction),
    ]


def _strange(device: Device) -> list[str]:
    """That collectives are not priced by constants of their own."""
    if nccl_generation(device.architecture) is not None:
        return []
    return [f"NCCL has no constants for {device.architecture}: those of Hopper are taken"]


def _measured(measured: Measured) -> list[str]:
    """What was measured on the machine itself."""
    kernels = len(measured.gemm) + len(measured.attention) + len(measured.elementwise)
    counts = {"kernels": kernels, "tables of collectives": len(measured.collectives)}
    said = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    where = f" ({', '.join(measured.sources)})" if measured.sources else ""
    return [f"measured on the machine itself: {said}{where}"] if said else []


def _sureness(prediction: Prediction) -> list[str]:
    """Where the interval comes from, and what would narrow it."""
    far = ", extrapolating" * prediction.interval.extrapolating
    said = [f"interval from the errors on published runs like this one{far}"]
    return [*said, known_runs(prediction)] if prediction.site.known else said


def known_runs(prediction: Prediction) -> str:
    """How many known runs are used, what they made of the prices, and how many more would help."""
    count = len(prediction.site.known)
    turned = prediction.pricing.knobs.by_name().items()
    prices = ", ".join(f"{_KNOB_WORDS.get(name, name)} x {value:.3f}" for name, value in turned)
    said = f"prices of this site from {count} known run{'s' * (count > 1)}: {prices}"
    if count >= WANTED:
        return said
    return f"{said}; give {WANTED}: one alone may be an outlier, three tell the prices apart"


def evidence(prediction: Prediction) -> str:
    """The nearest published run and how well it is predicted."""
    nearest = prediction.interval.nearest
    if nearest is None:
        return "no published run to compare with"
    far = "; nothing like it was validated: extrapolating" * prediction.interval.extrapolating
    return (
        f"nearest validated run {nearest.id} ({nearest.source}): predicted {nearest.ratio:.2f} of "
        f"its measured time{far}"
    )


def _left_open(prediction: Prediction) -> str:
    """What the user left open and what it was taken to be."""
    return ", ".join(f"{name} {value}" for name, value in prediction.assumed.items())


def _numbers(prediction: Prediction) -> RenderableType:
    low, high = prediction.step_interval_s
    have = prediction.run.cluster.device.memory.size_bytes
    used = prediction.memory_bytes
    filled = min(_BAR, round(_BAR * used / have))
    bar = "█" * filled + "░" * (_BAR - filled)
    parts = prediction.memory.by_cause().items()
    shares = " · ".join(f"{cause} {size / 1e9:.1f}" for cause, size in parts if size > 5e7)
    return Group(
        Text(
            f"  step      {duration(prediction.step_s)}  "
            f"(80 % interval {duration(low)} to {duration(high)})"
            f"     {prediction.tokens_per_s_per_gpu:,.0f} tokens/s/GPU"
            f"     MFU {prediction.mfu:.1%}  HFU {prediction.hfu:.1%}  ({MFU_CONVENTION})"
        ),
        Text(f"  memory    {used / 1e9:.1f} of {have / 1e9:.1f} GB  {bar}  {_room(prediction)}"),
        Text(f"            {shares}"),
    )


def _room(prediction: Prediction) -> str:
    """The interval of the memory, and how likely it fits."""
    room = prediction.room
    low, high = room.interval_bytes
    sure = f"{min(max(room.probability, 0.01), 0.99):.0%}".replace("%", " %")
    return f"(80 % interval {low / 1e9:.0f} to {high / 1e9:.0f} GB, fits with {sure})"


def _strips(prediction: Prediction) -> list[Text]:
    """One micro batch and the optimizer over time: how busy GPU and network are."""
    drawn = strips(micro_batch_intervals(prediction)).items()
    head = "  a micro batch, forward and backward, and the optimizer"
    return [Text(head, "bold"), *(Text(f"    {lane}  {line}") for lane, line in drawn), Text()]


def why(prediction: Prediction) -> str:
    """The largest wait, or the largest work, with its share."""
    ledger, step = prediction.ledger, prediction.step_s
    waiting = {c: float(s) for c, s in ledger.items() if c.is_wait}
    working = {c: float(s) for c, s in ledger.items() if not c.is_wait}
    work = max(working, key=lambda cause: working[cause])
    said = f"{work} takes {duration(working[work])} ({working[work] / step:.0%})"
    if waiting:
        wait = max(waiting, key=lambda cause: waiting[cause])
        said += (
            f"; the largest wait is {wait}, {duration(waiting[wait])} ({waiting[wait] / step:.0%})"
        )
        sent = heaviest(prediction, wait)
        said += f": {_sent(sent, waiting[wait])}" if sent is not None else ""
    return said


def _sent(sent: Heaviest, waiting_s: float) -> str:
    """What is sent, how often, and how long it takes; `waiting_s` of it and its like are seen."""
    where = "" if sent.block in sent.of else f" ({sent.block})"
    size = units.format(sent.bytes, Dimension.BYTES, digits=3)
    hidden = ", partly hidden" if sent.total_s > _HIDDEN * waiting_s else ""
    return (
        f"{sent.calls:,.0f} {sent.kind}{'s' * (sent.calls >= 1.5)} of {' and '.join(sent.of)}"
        f"{where}, {size} among {sent.ranks:,} GPUs in {sent.domains:,} scale-up "
        f"domain{'s' * (sent.domains > 1)}, {duration(sent.each_s)} each, "
        f"{duration(sent.total_s)} a step{hidden}"
    )


def _next(prediction: Prediction, proposals: list[Improvement]) -> RenderableType:
    if not proposals:
        return Text.assemble(("Next      ", "bold"), _no_change(prediction))
    table = plain_table()
    for number, proposal in enumerate(proposals, 1):
        memory = f"memory {proposal.memory_bytes / 1e9:+.1f} GB".replace("-", "−")
        head = Text("Next    " if number == 1 else "        ", "bold")
        table.add_row(head, f"{number}", _change(proposal), signed(-proposal.gained_s), memory)
    return table


def _no_change(prediction: Prediction) -> str:
    """What is left if no single change of the layout helps."""
    if not prediction.fits:
        return "no single change, nor up to 64 times the nodes, makes it fit: see `plan layouts`"
    more = next(with_more_nodes(prediction), None)
    said = "no single change of the layout helps"
    if more is None or not more.fits:
        return said
    return f"{said}; {more.change}: {duration(prediction.step_s - more.gained_s)} a step"


def _change(proposal: Improvement) -> str:
    """What to change, and what would then be chosen otherwise."""
    also = ", ".join(f"{name} {text_of(value)}" for name, value in proposal.also.items())
    return f"{proposal.change} (then {also})" if also else proposal.change
