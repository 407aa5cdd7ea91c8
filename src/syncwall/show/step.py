"""A measured training step, for the terminal.

Holds `step_page`.
"""

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from syncwall.show.measurement import duration, heading, table

if TYPE_CHECKING:
    from syncwall.measure.result import JobFacts
    from syncwall.measure.step import StepData, StepSettings

_BAR = 24


def step_page(job: "JobFacts", settings: "StepSettings", data: "StepData") -> RenderableType:
    """Verdict, numbers and ledger."""
    times = data.times
    numbers = (
        f"step      {duration(times.median_s)}  (P10 {duration(times.p10_s)}, "
        f"P90 {duration(times.p90_s)}, {times.trials} steps)     "
        f"{data.tokens_per_s / job.world:,.0f} tokens/s/rank     "
        f"{data.of_matmul:.0%} of what one large multiplication reaches"
    )
    if data.mfu is not None:
        numbers += f"     MFU {data.mfu:.1%} (causal, dense 16-bit peak)"
    what = (
        f"{settings.model.name}, {settings.shard}, {settings.micro_batch} x {settings.seq} tokens"
    )
    lines = (
        (cause, "█" * round(_BAR * seconds / times.median_s), duration(seconds),
         f"{seconds / times.median_s:.0%}")
        for cause, seconds in data.ledger_s.items()
    )  # fmt: skip
    ledger = table(("where the time goes", "", "", ""), lines, words=2)
    parts: list[RenderableType] = [Text.assemble(("Verdict   ", "bold"), verdict(data)), Text(),
             Text.assemble(heading(job), f", {what}"), Text(numbers), Text(), ledger]  # fmt: skip
    return Group(*parts)


def verdict(data: "StepData") -> str:
    """What holds the step up, in one line."""
    if data.suspects:
        return "; ".join(map(str, data.suspects))
    waiting = sum(s for cause, s in data.ledger_s.items() if cause.startswith("exposed"))
    share = waiting / data.times.median_s
    return f"{share:.0%} of the step waits for communication; no rank holds the others up"
