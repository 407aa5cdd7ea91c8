"""A prediction on one screen, and as plain data.

Holds `prediction_page`, `prediction_record`, and their sentences `why`, `evidence` and `assumed`.
"""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from syncwall import units
from syncwall.answer.evidence import heaviest
from syncwall.answer.improvements import Improvement
from syncwall.answer.prediction import MFU_CONVENTION, Prediction
from syncwall.answer.timeline import micro_batch_intervals
from syncwall.cost.communication import nic_reached
from syncwall.cost.measured import Measured
from syncwall.show.ledger_table import ledger_table
from syncwall.show.measurement import duration
from syncwall.show.record import record
from syncwall.show.strip import strips
from syncwall.units import Dimension

_BAR = 22
_LEAST = 0.0005
"""Share of a step from which a cause has a line."""


def prediction_page(
    prediction: Prediction, proposals: list[Improvement], *, assumptions: bool = False
) -> RenderableType:
    """Verdict, numbers, ledger, why and next."""
    parts: list[RenderableType] = [
        Text.assemble(("Verdict   ", "bold"), prediction.verdict),
        Text(),
        _numbers(prediction),
        Text(),
        ledger_table("where the time goes", prediction.ledger, _LEAST * prediction.step_s),
        Text(),
        *_strips(prediction),
        Text.assemble(("Why       ", "bold"), why(prediction)),
        _next(proposals),
        Text.assemble(("Evidence  ", "bold"), evidence(prediction)),
    ]
    if prediction.assumed:
        parts.append(Text.assemble(("Open      ", "bold"), _left_open(prediction)))
    lines = assumed(prediction)
    if assumptions:
        parts += [Text("Assumed", style="bold"), *(Text(f"  {line}") for line in lines)]
    else:
        parts += [Text(f"Assumed   {'; '.join(lines[:2])} (all: --explain-assumptions)", "dim")]
    return Group(*parts)


def prediction_record(prediction: Prediction, proposals: list[Improvement]) -> dict[str, Any]:
    """The prediction for `json.dumps`; seconds, bytes, FLOP."""
    return prediction.to_dict() | {
        "next": [
            {"change": p.change, "gained_s": p.gained_s, "memory_bytes": p.memory_bytes}
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
        *_measured(fit.measured),
        f"compute calibrated for {calibrated}",
        f"gradients reduced in {layout.gradient_dtype}",
        f"NCCL 2.28 chooses algorithms; real links reach {reached:.0%} of NIC line rate, "
        f"{fit.network.nic_per_doubling:.1%} less with every doubling of nodes",
        f"software as {setting.framework.title}, {setting.software.date or 'the newest'}: "
        f"attention {setting.attention}, element-wise kernels {setting.kernels}",
        f"computation {fit.network.contention - 1:.0%} slower while weights or gradients move",
        f"step times of ranks vary by {fit.ranks.jitter:.1%}; the slowest sets the pace",
        "optimizer states in fp32 (12 bytes a parameter)",
        *_sureness(prediction),
    ]


def _measured(measured: Measured) -> list[str]:
    """What was measured on the machine itself."""
    kernels = len(measured.gemm) + len(measured.attention) + len(measured.elementwise)
    counts = {"kernels": kernels, "tables of collectives": len(measured.collectives)}
    said = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    where = f" ({', '.join(measured.sources)})" if measured.sources else ""
    return [f"measured on the machine itself: {said}{where}"] if said else []


def _sureness(prediction: Prediction) -> list[str]:
    """Where the interval comes from, and what would narrow it."""
    known = len(prediction.site.ratios)
    far = ", extrapolating" * prediction.interval.extrapolating
    said = [f"interval from the errors on published runs like this one{far}"]
    if known:
        runs = f"{known} known run{'s' * (known > 1)}"
        said.append(f"every time multiplied by {prediction.site.bias:.3f}, from {runs}")
    return said


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
        Text(f"  memory    {used / 1e9:.1f} of {have / 1e9:.1f} GB  {bar}"),
        Text(f"            {shares}"),
    )


def _strips(prediction: Prediction) -> list[Text]:
    """One micro batch and the optimizer over time: how busy GPU and network are."""
    drawn = strips(micro_batch_intervals(prediction)).items()
    head = "  a micro batch, forward and backward, and the optimizer"
    return [Text(head, "bold"), *(Text(f"    {lane}  {line}") for lane, line in drawn), Text()]


def why(prediction: Prediction) -> str:
    """The largest wait, or the largest work, with its share."""
    ledger, step = prediction.ledger, prediction.step_s
    waits = ("exposed", "pipeline", "host", "straggler")
    waiting = {c: float(s) for c, s in ledger.items() if c.startswith(waits)}
    working = {c: float(s) for c, s in ledger.items() if c not in waiting}
    work = max(working, key=lambda cause: working[cause])
    said = f"{work} takes {duration(working[work])} ({working[work] / step:.0%})"
    if waiting:
        wait = max(waiting, key=lambda cause: waiting[cause])
        said += (
            f"; the largest wait is {wait}, {duration(waiting[wait])} ({waiting[wait] / step:.0%})"
        )
        call = heaviest(prediction, wait)
        if call is not None:
            size = units.format(call.bytes, Dimension.BYTES, digits=3)
            said += (
                f": one {call.kind} of the {call.name} moves {size} among {call.ranks} GPUs in "
                f"{call.domains} scale-up domain{'s' * (call.domains > 1)} and takes "
                f"{duration(call.seconds)}"
            )
    return said


def _next(proposals: list[Improvement]) -> RenderableType:
    if not proposals:
        return Text.assemble(("Next      ", "bold"), "no single change of the layout helps")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for number, proposal in enumerate(proposals, 1):
        memory = f"memory {proposal.memory_bytes / 1e9:+.1f} GB"
        faster = proposal.gained_s >= 0
        gain = f"{'−' if faster else '+'}{duration(abs(proposal.gained_s))}"
        head = Text("Next    " if number == 1 else "        ", "bold")
        table.add_row(head, f"{number}", proposal.change, gain, memory)
    return table
