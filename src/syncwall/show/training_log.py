"""A training log on the screen: its figures, and the prediction beside them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from syncwall.explain.training_level import Level
from syncwall.explain.training_log import LogSummary
from syncwall.show.blocks import Block, table
from syncwall.show.gap import gap_verdict
from syncwall.show.measurement import flops_text
from syncwall.show.numbers import duration, percent


def level_verdict(level: Level) -> str:
    """How fast it is beside the prediction."""
    gap = level.gap
    assert gap is not None
    low, high = gap.predicted.step_interval_s
    if low <= gap.measured_s <= high:
        within = f"between {duration(low)} and {duration(high)}"
        return f"{level.figures.speed}: a step of {duration(gap.measured_s)} is as predicted, {within}"
    return f"{level.figures.speed}: {gap_verdict(gap)}"


def log_blocks(levels: Sequence[Level]) -> list[Block]:
    """What each log shows, after its warm-up."""
    blocks: list[Block] = []
    for one in levels:
        names = Path(one.figures.source).name if len(levels) > 1 else "after the warm-up"
        blocks += table((names, "median", "10 %", "90 %", "predicted"), _rows(one))
    return blocks


def _rows(level: Level) -> Iterator[tuple[str, ...]]:
    figures, predicted = level.figures, level.predicted
    if figures.step_s is not None:
        spread = (figures.step_p10_s or 0.0, figures.step_p90_s or 0.0)
        expected = "" if predicted is None else duration(predicted.step_s)
        yield "step", duration(figures.step_s), *map(duration, spread), expected
    speed = "" if predicted is None else f"{predicted.tokens_per_s_per_gpu:,.0f}"
    yield from _rate("tokens/s/GPU", figures.tokens_per_s_per_gpu, speed)
    yield from _rate("tokens/s", figures.tokens_per_s)
    yield from _rate("samples/s", figures.samples_per_s)
    if figures.flop_per_s_per_gpu is not None:
        yield "FLOP/s/GPU", flops_text(figures.flop_per_s_per_gpu), "", "", ""
    if figures.mfu is not None:
        expected = "" if predicted is None else percent(predicted.mfu, 1)
        yield "MFU", percent(figures.mfu, 1), "", "", expected
    if figures.memory_bytes is not None:
        yield "memory, at most", f"{figures.memory_bytes / 2**30:.3g} GiB", "", "", ""
    yield from _losses(figures)


def _rate(unit: str, value: float | None, expected: str = "") -> Iterator[tuple[str, ...]]:
    if value is not None:
        yield unit, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", "", "", expected


def _losses(figures: LogSummary) -> Iterator[tuple[str, ...]]:
    if figures.first_loss is not None and figures.last_loss is not None:
        yield "loss", f"{figures.first_loss:.4g} → {figures.last_loss:.4g}", "", "", ""
