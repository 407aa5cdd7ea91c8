"""What a training log says: drift, shifts, stalls, spikes, memory and loss.

Holds `Pace` (seconds of a step, or what is proportional to them) with `pace_of`; `log_findings`; and
`LogSummary`, the figures of a log. A log is judged against its own median; what its level should be,
only a prediction says (`explain.training_level`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from syncwall.explain.finding import Finding
from syncwall.explain.loss_spikes import spikes
from syncwall.explain.series import (
    FEWEST,
    MATTERS,
    Shift,
    deviation,
    drift_of,
    level_shifts,
    outliers_of,
    period_of,
)
from syncwall.public import published
from syncwall.read.training_log import TrainingLog
from syncwall.read.training_log_formats import FigureName

_SLOW: Final = 0.10
"""From which a run is wrong, as `watch` has it."""
_WARM_UP: Final = 1.1
"""Steps at the start that take longer than so many medians: compiling, filling caches."""
_STALL: Final = 2.0
"""Multiple of its surroundings from which a single step is a stall."""
_COSTLY: Final = (0.01, 0.10)
"""Shares of the time of a log from which what stalls are lost to is suspect, and wrong."""
_SKIPPED: Final = (0.05, 0.5)
"""The same of skipped steps."""
_CONSTANT: Final = 20
"""Lines after which a loss that is always the same is no accident."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time of the steps of a log; those of the warm-up are left out."""

    steps: Any
    """(L,)"""
    lines: Any
    """(L,)"""
    seconds: Any
    """(L,): of a step; if `what` is no step, of a token or a sample."""
    lost_s: Any
    """(L,): seconds between the step and the one before that are not in its time (timestamps)."""
    spans: Any
    """(L,): steps that a figure is the mean of."""
    what: str
    """"step", "token" or "sample"."""
    warm_up: int

    @property
    def median(self) -> float:
        """Of all steps."""
        return float(np.median(self.seconds)) if len(self.seconds) else float("nan")


_PACES: Final[tuple[tuple[FigureName, str], ...]] = (
    ("step_s", "step"),
    ("tokens_per_s_per_gpu", "token"),
    ("tokens_per_s", "token"),
    ("samples_per_s", "sample"),
)


def pace_of(log: TrainingLog) -> Pace:
    """The time of each step that tells one; of a growing batch as if it were the usual one."""
    name, what = next(((n, w) for n, w in _PACES if np.isfinite(log.figure(n)).any()), (None, "step"))
    values = timestamps_s(log) if name is None else log.figure(name)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = values if what == "step" else 1.0 / values
    batch = log.figure("batch")
    if what == "step" and np.isfinite(batch).all() and len(batch):
        values = values * (np.median(batch) / batch)
    known = np.isfinite(values) & (values > 0)
    steps, lines, values = log.steps[known], log.lines[known], values[known]
    spans = np.diff(steps, prepend=steps[:1] - 1).astype(float)
    spans[:1] = np.median(spans[1:]) if len(spans) > 1 else 1.0
    lost = _between(log, known, values if what == "step" else np.full(len(values), np.nan), spans)
    first = _warm_up(values)
    spans = spans if log.is_mean else np.ones(len(spans))
    return Pace(steps[first:], lines[first:], values[first:], lost[first:], spans[first:], what, first)


def timestamps_s(log: TrainingLog) -> Any:
    """(L,): seconds of a step as the times of the lines tell."""
    spans = np.diff(log.steps)
    gaps = np.diff(log.figure("time_s")) / np.maximum(spans, 1)
    found = np.concatenate([[np.nan], gaps])[: len(log.steps)]
    return np.where(found > 0, found, np.nan)


def seconds_of_steps(log: TrainingLog) -> Any:
    """(L,): seconds of a step, as printed or as the times of the lines tell."""
    printed = log.figure("step_s")
    return printed if np.isfinite(printed).any() else timestamps_s(log)


def _between(log: TrainingLog, known: Any, values: Any, spans: Any) -> Any:
    """Seconds between two lines that their steps do not take, beyond what clocks are rounded by."""
    gaps = np.diff(log.figure("time_s")[known], prepend=np.nan)
    lost = gaps - values * spans - 2.0
    return np.where(np.isfinite(lost) & (lost > values), lost, 0.0)


def _warm_up(values: Any) -> int:
    """Steps at the start that are slow, at most three or a fifth of all."""
    logs = np.log(values)
    count, most = 0, min(max(3, len(values) // 5), max(len(values) - 3, 0))
    while count < most:
        rest = logs[count + 1 :]
        usual = np.median(rest)
        if logs[count] - usual <= max(np.log(_WARM_UP), 3.0 * deviation(rest)):
            break
        count += 1
    return count


def log_findings(log: TrainingLog) -> Iterator[Finding]:
    """All that is out of the ordinary."""
    pace = pace_of(log)
    if len(pace.seconds) >= FEWEST:
        yield from _of_speed(log, pace)
    yield from _of_loss(log)
    yield from _of_memory(log)
    yield from _of_skips(log)
    if log.restarts:
        what = f"the run was started again {log.restarts} time{'s' * (log.restarts > 1)}"
        why = "the number of the step goes back: work since the last checkpoint was done twice"
        yield Finding("note", what, why, "look above the first step that is repeated", log.source)


def _of_speed(log: TrainingLog, pace: Pace) -> Iterator[Finding]:
    outliers, usual = outliers_of(pace.seconds)
    drift = drift_of(pace.steps, pace.seconds)
    if drift is not None:
        yield _drift(log, pace, drift)
    else:
        yield from (_shift(log, pace, one) for one in level_shifts(pace.seconds))
    yield from _of_stalls(log, pace, outliers, usual)


def _severity(ratio: float) -> Any:
    """Of a step that takes `ratio` times as long."""
    if ratio < 1 + MATTERS:
        return "note"
    return "wrong" if ratio >= 1 + _SLOW else "suspect"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _drift(log: TrainingLog, pace: Pace, ratio: float) -> Finding:
    first, last = pace.steps[[0, -1]]
    way = "slower and slower" if ratio > 1 else "faster and faster"
    return Finding(
        _severity(ratio),
        f"the run gets {way}: a {pace.what} takes {ratio:.2f} times as long at step {last:,} as at "
        f"step {first:,}",
        "it changes steadily, not at one step: something grows (lists of tensors, open files, the "
        "cache of the data loader, logs) or heats up",
        "watch memory of the hosts and clocks of the devices over time; traces of an early and a late "
        "step show which part grows: explain late/ --against early/",
        f"{log.source}:{pace.lines[-1]}",
        slowdown=ratio if ratio > 1 else None,
    )


def _shift(log: TrainingLog, pace: Pace, one: Shift) -> Finding:
    step, line = pace.steps[one.at], pace.lines[one.at]
    way = f"{abs(one.ratio - 1):.0%} {'slower' if one.ratio > 1 else 'faster'}"
    times = f": {_seconds(one.after)}, {_seconds(one.before)} before" if pace.what == "step" else ""
    return Finding(
        _severity(one.ratio),
        f"steps are {way} from step {step:,} on{times}",
        "the steps before it are of the same run: something changed there",
        "look what happened at that time: clocks and temperatures (nvidia-smi -q -d "
        "PERFORMANCE), links that went down, other jobs, another phase of the data",
        f"{log.source}:{line}",
        slowdown=one.ratio if one.ratio > 1 else None,
    )


_OF_PERIODS: Final = (
    "what a loop does every so many steps is a checkpoint, an evaluation, garbage collection or logging"
)


def _of_stalls(log: TrainingLog, pace: Pace, outliers: Any, usual: Any) -> Iterator[Finding]:
    """Regular ones together, single ones each, with what they cost."""
    excess = np.zeros(len(pace.seconds))
    excess[outliers] = ((pace.seconds - usual) * pace.spans)[outliers]
    if pace.what == "step":
        excess += pace.lost_s
    at = np.flatnonzero(excess > 0)
    whole = float((usual * np.diff(pace.steps, prepend=pace.steps[0] - 1)).sum() + excess.sum())
    period = period_of(pace.steps[at], pace.steps)
    regular = np.zeros(len(at), dtype=bool)
    if period is not None:
        regular = pace.steps[at] % period[0] == period[1]
        own = at[regular]
        share = float(excess[own].sum()) / whole
        each = float(np.median((usual * pace.spans + excess)[own] / (usual * pace.spans)[own]))
        yield Finding(
            _costly(share),
            f"every {period[0]:,} steps it takes {each:.1f} times as long: {share:.1%} of the time",
            _OF_PERIODS,
            "save asynchronously, evaluate less often or on fewer batches, or collect garbage by hand "
            "at the same step on all ranks",
            f"{log.source}:{pace.lines[own[0]]}",
            slowdown=1 / (1 - share),
        )
    rest = at[~regular]
    rest = rest[(usual * pace.spans + excess)[rest] >= _STALL * (usual * pace.spans)[rest]]
    if not len(rest):
        return
    worst = rest[np.argsort(-excess[rest])[:3]]
    share = float(excess[rest].sum()) / whole
    named = ", ".join(f"{pace.steps[one]:,}" for one in sorted(worst))
    times = float((excess + usual * pace.spans)[worst[0]] / (usual * pace.spans)[worst[0]])
    more = f" and {len(rest) - len(worst)} more" if len(rest) > len(worst) else ""
    yield Finding(
        _costly(share),
        f"stalls at step {named}{more}: up to {times:.3g} times as long as usual, {share:.1%} of the time",
        "single steps that take far longer: an evaluation or a checkpoint, a file system that hangs, a "
        "data loader that starts again, a new shape that is compiled",
        "look at what the log says before these steps; traces or py-spy dump while it stalls",
        f"{log.source}:{pace.lines[worst[0]]}",
        slowdown=1 / (1 - share),
    )


def _costly(share: float) -> Any:
    low, high = _COSTLY
    return "wrong" if share >= high else "suspect" if share >= low else "note"


def _of_loss(log: TrainingLog) -> Iterator[Finding]:
    loss, norm = log.figure("loss"), log.figure("gradient_norm")
    broken = _broken(log, loss, "loss")
    if broken is not None:
        yield broken
        return
    zero = np.flatnonzero(~np.isnan(loss))
    zeros = loss[zero] == 0.0
    if zeros.any() and zeros[np.argmax(zeros) :].all() and zeros.sum() >= 2:
        yield _lost(log, int(zero[np.argmax(zeros)]), "loss is 0")
    elif len(zero) >= _CONSTANT and len(np.unique(loss[zero])) == 1:
        yield Finding(
            "wrong",
            f"loss does not change: {loss[zero[0]]:g} in all {len(zero)} lines",
            "nothing is learned: weights are not updated, or the loss is not of this batch",
            "look at the learning rate, at skipped steps and at the parameters that the optimizer has",
            f"{log.source}:{log.lines[zero[0]]}",
            corrupts=True,
        )
    broken = _broken(log, norm, "gradient norm")
    if broken is not None:
        yield broken
    for values, what in ((loss, "loss"), (norm, "gradient norm")):
        yield from _spikes(log, values, what)


def _broken(log: TrainingLog, values: Any, what: str) -> Finding | None:
    """A value that is no number, for good or now and then."""
    known = np.flatnonzero(~np.isnan(values))
    bad = np.isinf(values[known])
    if not bad.any():
        return None
    first = int(known[np.argmax(bad)])
    if bad[-1] and (what == "loss" or bad[np.argmax(bad) :].mean() >= 0.5):
        return _lost(log, first, f"{what} is not a number")
    return Finding(
        "suspect",
        f"{what} is not a number in {int(bad.sum())} of {len(known):,} lines, first at step "
        f"{log.steps[first]:,}",
        "a gradient overflowed; with a loss scale such a step is skipped, without one weights break",
        "see that it stays rare; with fp16 try bf16 or a lower loss scale",
        f"{log.source}:{log.lines[first]}",
    )


def _lost(log: TrainingLog, row: int, what: str) -> Finding:
    return Finding(
        "wrong",
        f"{what} from step {log.steps[row]:,} to the end",
        "weights or gradients are broken: every further step is wasted",
        "stop; go back to a checkpoint before it, look at the batch, the learning rate and the number "
        "format (bf16 in place of fp16)",
        f"{log.source}:{log.lines[row]}",
        corrupts=True,
    )


def _spikes(log: TrainingLog, values: Any, what: str) -> Iterator[Finding]:
    known = np.flatnonzero(np.isfinite(values) & (values > 0))
    found = spikes(values[known].tolist())
    if not found:
        return
    worst = max(found, key=lambda one: one.spreads)
    row = known[min(worst.step, len(known) - 1)]
    more = f", the worst of {len(found)}" if len(found) > 1 else ""
    yield Finding(
        "suspect",
        f"{what} jumps to {worst.value:.4g} at step {log.steps[row]:,}, usually {worst.usual:.4g}{more}",
        f"{worst.spreads:.0f} times its spread: a bad batch, or training that becomes unstable",
        "look at the batch and the gradient norm there; if it does not come back, go back to a "
        "checkpoint and skip the batches",
        f"{log.source}:{log.lines[row]}",
    )


_FULL: Final = 0.97


def _of_memory(log: TrainingLog) -> Iterator[Finding]:
    memory, share = log.figure("memory_bytes"), log.figure("memory_share")
    if log.allocator_retries:
        at = np.nanmax(share) if np.isfinite(share).any() else None
        full = f" at {at:.1%} of the memory" if at is not None else ""
        yield Finding(
            "suspect",
            f"the allocator freed and allocated again {log.allocator_retries} times{full}",
            "each time the device waits while its cache is emptied",
            "a smaller micro-batch, more recomputation, or expandable_segments:True",
            log.source,
        )
    elif np.isfinite(share).any() and np.nanmax(share) >= _FULL:
        yield Finding(
            "suspect",
            f"{np.nanmax(share):.1%} of the memory is reserved",
            "the next longer sequence or fragmentation ends in out of memory, or in retries of the allocator",
            "a smaller micro-batch or more recomputation",
            log.source,
        )
    known = np.flatnonzero(np.isfinite(memory))
    if len(known) >= 4 * FEWEST and (grown := _creep(memory[known])) is not None:
        yield Finding(
            "suspect",
            f"memory grows all the time: by {grown:.1%} over {len(known):,} lines, {grown / 2:.1%} or "
            "more of it in the second half",
            "something keeps tensors from step to step",
            "do not keep losses or outputs with their graph (.item(), .detach()); a memory snapshot names "
            "the line",
            f"{log.source}:{log.lines[known[-1]]}",
        )


def _creep(memory: Any) -> float | None:
    """Growth of memory that does not end; None if it settles."""
    parts = [float(np.median(part)) for part in np.array_split(memory, 8)]
    grows = np.diff(parts[2:]) > 0
    whole, late = parts[-1] / parts[1] - 1, parts[-1] / parts[4] - 1
    return whole if grows.all() and whole >= MATTERS and late >= 0.35 * whole else None


def _of_skips(log: TrainingLog) -> Iterator[Finding]:
    skipped = log.figure("skipped")
    known = np.isfinite(skipped)
    of = float(log.steps[-1] - log.steps[0] + 1)
    count = float(skipped[known].sum())
    low, high = _SKIPPED
    if of < 2 * _CONSTANT or count < low * of:
        return
    yield Finding(
        "wrong" if count >= high * of else "suspect",
        f"{count:,.0f} of {of:,.0f} steps were skipped",
        "their gradients overflowed, and what they cost was for nothing",
        "bf16 in place of fp16, or a lower loss scale; look for inputs that are not numbers",
        log.source,
        corrupts=count >= high * of,
    )


@published()
@dataclass(frozen=True, slots=True)
class LogSummary:
    """Figures of a training log, after the warm-up; None where they are not printed."""

    source: str
    framework: str
    lines: int
    first_step: int
    last_step: int
    warm_up: int
    """Lines at the start that are left out."""
    step_s: float | None
    """Median."""
    step_p10_s: float | None
    step_p90_s: float | None
    tokens_per_s_per_gpu: float | None
    tokens_per_s: float | None
    samples_per_s: float | None
    flop_per_s_per_gpu: float | None
    mfu: float | None
    memory_bytes: float | None
    """The most."""
    first_loss: float | None
    last_loss: float | None

    @property
    def speed(self) -> str:
        """What the log says most directly, in words."""
        for value, unit in (
            (self.tokens_per_s_per_gpu, "tokens/s/GPU"),
            (self.flop_per_s_per_gpu and self.flop_per_s_per_gpu / 1e12, "TFLOP/s/GPU"),
        ):
            if value is not None:
                return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
        return f"{_seconds(self.step_s)} a step" if self.step_s is not None else "the speed"


def summary_of(log: TrainingLog) -> LogSummary:
    """The figures of a log in short."""
    pace = pace_of(log)
    after = np.isin(log.steps, pace.steps) if len(pace.steps) else np.ones(len(log.steps), dtype=bool)
    step_s = _finite(seconds_of_steps(log)[after])
    loss, memory = _finite(log.figure("loss")), _finite(log.figure("memory_bytes"))

    def middle(name: FigureName) -> float | None:
        values = _finite(log.figure(name)[after])
        return float(np.median(values)) if len(values) else None

    low, median, high = (
        (float(v) for v in np.percentile(step_s, [10, 50, 90])) if len(step_s) else (None,) * 3
    )
    return LogSummary(
        log.source,
        log.framework,
        len(log.steps),
        int(log.steps[0]),
        int(log.steps[-1]),
        pace.warm_up,
        median,
        low,
        high,
        middle("tokens_per_s_per_gpu"),
        middle("tokens_per_s"),
        middle("samples_per_s"),
        middle("flop_per_s_per_gpu"),
        middle("mfu"),
        float(memory.max()) if len(memory) else None,
        float(loss[0]) if len(loss) else None,
        float(loss[-1]) if len(loss) else None,
    )


def _finite(values: Any) -> Any:
    return values[np.isfinite(values)]


def settings_of_log(log: TrainingLog) -> Iterator[tuple[str, str]]:
    """What it prints of its settings, by dotted name."""
    yield "framework", log.framework
    yield from log.arguments.items()
    waiting: list[tuple[str, Any]] = list((log.config or {}).items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict) and len(name) < 200:
            waiting += [(f"{name}.{inner}", one) for inner, one in value.items()]
        elif isinstance(value, str | int | float | bool):
            yield name, str(value)
