"""What was recorded of a user's own program.

Holds `capture_view` and `notes_table`.
"""

from collections.abc import Iterator
from typing import Final

from syncwall import units
from syncwall.show.blocks import Block, Lines, Verdict, View, table
from syncwall.show.numbers import byte_size, duration, gigabytes, percent, plural
from syncwall.show.records.capture import (
    CaptureRecord,
    NoteRecord,
    RecordedRankRecord,
    capture_record,
)
from syncwall.units import Dimension
from syncwall.work.program import Program
from syncwall.work.recorded import NOTABLE, unknown_share

_MOST_NOTES: Final = 12


def capture_view(program: Program, file: str = "", seconds: float | None = None) -> View:
    """Verdict, what each class of ranks does and keeps, what is not known, what to type next."""
    found = capture_record(program, file, seconds)
    torch = f"PyTorch {program.torch}" if program.torch else ""
    took = f"took {duration(seconds)}" if seconds is not None else ""
    about = ", ".join(filter(None, (program.command, torch, took)))
    blocks = [
        Verdict(tuple(_verdict(found, unknown_share(program))), about),
        Lines("Model", (_model(program),)),
        *_ranks(found["ranks"]),
        *_communication(found["ranks"]),
        *notes_table(found["notes"]),
    ]
    if file:
        blocks.append(Lines("Next", (f"syncwall predict --work {file} --cluster dgx-h100",)))
    return View(f"Recorded: {program.command or 'a program'}", tuple(blocks))


def _verdict(found: CaptureRecord, unknown: float) -> Iterator[str]:
    ranks = found["ranks"]
    operations = max(one["operations"] for one in ranks)
    calls = max(sum(row["calls"] for row in one["communication"]) for one in ranks)
    yield (
        f"One optimizer step on {plural(found['world_size'], 'rank')}: "
        f"{plural(operations, 'kernel')} and {plural(calls, 'collective')} a rank"
    )
    if unknown > NOTABLE:
        yield f"{percent(unknown)} of the work is not known: any price of it is a rough one"


def _model(program: Program) -> str:
    parts = [
        f"{_count(program.parameters)} parameters" if program.parameters else "",
        f"{_count(program.tokens)} tokens" if program.tokens else "",
        f"{_count(program.samples)} samples" if program.samples else "",
        f"{_flop(program.model_flops)} a step",
    ]
    return " · ".join(filter(None, parts))


def _count(count: float) -> str:
    return units.format(count, Dimension.TOKENS, digits=3).removesuffix(" tokens")


def _flop(flops: float) -> str:
    return units.format(flops, Dimension.FLOP, digits=3)


def _ranks(ranks: list[RecordedRankRecord]) -> list[Block]:
    head = ("rank", "alike", "kernels", "host waits", "work", "again", "memory traffic",
            "memory at most", "of it")  # fmt: skip
    rows = []
    for one in ranks:
        parts = sorted(one["held"].items(), key=lambda part: -part[1])
        rows.append((
            str(one["rank"]), f"{one['alike']:,}", f"{one['operations']:,}",
            f"{one['host_waits']:,}", _flop(one["model_flops"]),
            percent(one["recompute_flops"] / one["model_flops"]) if one["recompute_flops"] else "",
            byte_size(one["memory_traffic_bytes"]), gigabytes(one["held_bytes"]),
            " · ".join(f"{name} {size / 1e9:,.1f}" for name, size in parts if size >= 5e7),
        ))  # fmt: skip
    return table(head, rows, ends_in_words=1, spare=("memory traffic", "host waits"))


def _communication(ranks: list[RecordedRankRecord]) -> list[Block]:
    head = ("rank", "communication", "group", "ranks", "calls", "bytes")
    rows = [
        (str(one["rank"]), row["kind"], row["axis"], f"{row['ranks']:,.0f}", f"{row['calls']:,}",
         byte_size(row["bytes"]))
        for one in ranks
        for row in one["communication"]
    ]  # fmt: skip
    return table(head, rows, words=3)


def notes_table(notes: list[NoteRecord]) -> list[Block]:
    """What a recording does not know exactly, with its shares of a step."""
    rows = [
        (str(one["kind"]), one["what"], " ".join(filter(None, (one["module"], one["source"]))),
         f"{one['count']:,}", percent(one["flops_share"], 1), percent(one["bytes_share"], 1))
        for one in notes[:_MOST_NOTES]
    ]  # fmt: skip
    left = len(notes) - len(rows)
    more = [Lines("Left out", (f"{plural(left, 'more note')}: --json has all",))] if left else []
    head = ("not exact", "what", "where", "times", "of FLOP", "of bytes")
    return [*table(head, rows, words=3, spare=("times",)), *more]
