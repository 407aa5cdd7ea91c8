"""The figures of a live job, by the names that all exporters give them.

Holds `Figure`, `Sample` and `figures`. Names, units and help texts stand here only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from syncwall.watch.devices import DeviceState, Limit
from syncwall.watch.events import RankState
from syncwall.watch.recent import RankTotals, Recent, median_step_s

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with a name."""

    name: str
    """As in Prometheus, without "_total" of counters."""
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    unit: str = "1"
    """As in OpenTelemetry (UCUM)."""


@dataclass(slots=True)
class Sample:
    """A figure with its values, each with its labels."""

    figure: Figure
    values: list[tuple[Labels, float]] = field(default_factory=list)


STEP: Final = Figure(
    "syncwall_step_seconds", "Median time of the latest steps of a rank.", unit="s"
)
STEPS: Final = Figure("syncwall_steps", "Optimizer steps since the rank was watched.", "counter")
SPENT: Final = Figure(
    "syncwall_spent_seconds", "Time of steps by cause; the causes sum to all of it.", "counter", "s"
)
TOKENS: Final = Figure("syncwall_tokens", "Tokens that a rank has trained on.", "counter")
LOSS: Final = Figure("syncwall_loss", "Loss of the latest step.")
NORM: Final = Figure("syncwall_gradient_norm", "Gradient norm of the latest step.")
UP: Final = Figure("syncwall_rank_up", "1 while the process of a rank runs, 0 if not.")
SILENT: Final = Figure("syncwall_rank_silent_seconds", "Time since a rank's last mark.", unit="s")
FINDING: Final = Figure("syncwall_finding", "1 while a finding of a judge holds.")
FINDINGS: Final = Figure("syncwall_findings", "Findings so far.", "counter")
ECC: Final = Figure(
    "syncwall_device_ecc_errors", "Memory errors of a GPU that ECC could not correct.", "counter"
)
XID: Final = Figure("syncwall_device_xid_errors", "Xid errors of a GPU while watched.", "counter")
LIMITED: Final = Figure(
    "syncwall_device_limited", "1 while heat, power brake or power limit hold clocks of a GPU down."
)
PREDICTED: Final = Figure(
    "syncwall_predicted_step_seconds", "The predicted step, and its interval.", unit="s"
)
TOKENS_PER_S: Final = Figure("syncwall_tokens_per_second", "Tokens/s of the ranks of this node.")
MFU: Final = Figure("syncwall_mfu_ratio", "Model FLOPs utilization, recomputation not counted.")
GOODPUT: Final = Figure(
    "syncwall_goodput_ratio", "Share of the job's wall time in steps that count."
)
FINISH: Final = Figure(
    "syncwall_remaining_seconds", "Time until the job is done: P10, P50, P90.", unit="s"
)
ALL: Final = (
    STEP, STEPS, SPENT, TOKENS, LOSS, NORM, UP, SILENT, FINDING, FINDINGS, ECC, XID, LIMITED,
    PREDICTED, TOKENS_PER_S, MFU, GOODPUT, FINISH,
)  # fmt: skip


def figures(recent: Recent) -> list[Sample]:
    """All figures that have a value now, each once."""
    found = {figure.name: Sample(figure) for figure in ALL}
    for figure, labels, value in _values(recent):
        found[figure.name].values.append((labels, float(value)))
    return [sample for sample in found.values() if sample.values]


def _values(recent: Recent) -> Iterator[tuple[Figure, Labels, float]]:
    live = recent.live
    if live is None:
        return
    for state in live.ranks:
        if state.rank in recent.totals:
            yield from _of_rank(state, recent.totals[state.rank], live.now_s)
    for device in live.devices:
        yield from _of_device(device)
    for one in live.findings:
        labels = {"rank": _text(one.rank), "node": one.node, "device": _text(one.device)}
        yield FINDING, {"kind": str(one.kind), **labels}, 1.0
    for kind, number in recent.counted.items():
        yield FINDINGS, {"kind": str(kind)}, number
    if live.expected is not None:
        expected = live.expected
        bounds = ("low", expected.low_s), ("middle", expected.step_s), ("high", expected.high_s)
        for bound, seconds in bounds:
            yield PREDICTED, {"bound": bound}, seconds
    for figure, value in (
        (TOKENS_PER_S, recent.tokens_per_s), (MFU, recent.mfu), (GOODPUT, recent.goodput),
    ):  # fmt: skip
        if value is not None:
            yield figure, {}, value
    for quantile, seconds in zip(("0.1", "0.5", "0.9"), recent.finish_s or (), strict=False):
        yield FINISH, {"quantile": quantile}, seconds


def _of_device(one: DeviceState) -> Iterator[tuple[Figure, Labels, float]]:
    labels = {"device": str(one.device), "rank": _text(one.rank), "node": one.node}
    if one.ecc_errors is not None:
        yield ECC, labels, one.ecc_errors
    yield XID, labels, one.xid_count
    for limit in Limit:
        yield LIMITED, {**labels, "by": str(limit)}, limit in one.limited_s


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _of_rank(
    state: RankState, total: RankTotals, now_s: float
) -> Iterator[tuple[Figure, Labels, float]]:
    labels = {"rank": str(state.rank), "node": state.node}
    yield UP, labels, state.process == "running"
    if not state.process.is_over:
        yield SILENT, labels, max(now_s - state.phase_since_s, 0.0)
    yield STEPS, labels, total.steps
    for cause, spent_s in total.seconds.items():
        yield SPENT, {**labels, "cause": str(cause)}, spent_s
    if total.tokens:
        yield TOKENS, labels, total.tokens
    step_s = median_step_s(total)
    if step_s is not None:
        yield STEP, labels, step_s
        latest = total.latest[-1]
        for figure, value in ((LOSS, latest.loss), (NORM, latest.gradient_norm)):
            if value is not None:
                yield figure, labels, value
