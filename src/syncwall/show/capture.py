"""What was recorded of a user's own program."""

from collections.abc import Iterator, Sequence
from typing import Final

from syncwall import units
from syncwall.show.blocks import Block, Lines, Verdict, View, table
from syncwall.show.numbers import byte_size, duration, gigabytes, percent, plural
from syncwall.units import Dimension
from syncwall.work.program import (
    NOTABLE,
    CapturedStep,
    NotedShare,
    Program,
    RankProgram,
    unknown_share,
)

_MOST_NOTES: Final = 12


def capture_view(found: CapturedStep) -> View:
    """Verdict, what each class of ranks does and keeps, what is not known, what to type next."""
    program, seconds = found.program, found.seconds
    torch = f"PyTorch {program.torch}" if program.torch else ""
    took = f"took {duration(seconds)}" if seconds is not None else ""
    about = ", ".join(filter(None, (program.command, torch, took)))
    blocks = [
        Verdict(tuple(_verdict(program)), about),
        Lines("Model", (_model(program),)),
        *_ranks(program.ranks),
        *_communication(program.ranks),
        *notes_table(program.noted),
    ]
    if found.file:
        blocks.append(Lines("Next", (f"syncwall predict --work {found.file} --cluster dgx-h100",)))
    return View(f"Recorded: {program.command or 'a program'}", tuple(blocks))


def _verdict(program: Program) -> Iterator[str]:
    unknown = unknown_share(program)
    operations = max(one.operations for one in program.ranks)
    calls = max(sum(row.calls for row in one.communication) for one in program.ranks)
    yield (
        f"One optimizer step on {plural(program.world_size, 'rank')}: "
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


def _ranks(ranks: Sequence[RankProgram]) -> list[Block]:
    head = (
        "rank",
        "alike",
        "kernels",
        "host waits",
        "work",
        "again",
        "memory traffic",
        "memory at most",
        "of it",
    )
    rows = []
    for one in ranks:
        parts = sorted(one.held_by_every_kind.items(), key=lambda part: -part[1])
        again = one.recompute_flops
        row = (
            str(one.rank),
            f"{one.alike:,}",
            f"{one.operations:,}",
            f"{one.host_waits:,}",
            _flop(one.model_flops),
            percent(again / one.model_flops) if again else "",
            byte_size(one.memory_traffic_bytes),
            gigabytes(one.held_bytes),
            " · ".join(f"{name} {size / 1e9:,.1f}" for name, size in parts if size >= 5e7),
        )
        rows.append(row)
    return table(head, rows, ends_in_words=1, spare=("memory traffic", "host waits"))


def _communication(ranks: Sequence[RankProgram]) -> list[Block]:
    head = ("rank", "communication", "group", "ranks", "calls", "bytes")
    rows = [
        (
            str(one.rank),
            row.kind,
            row.axis,
            f"{row.ranks:,.0f}",
            f"{row.calls:,}",
            byte_size(row.bytes),
        )
        for one in ranks
        for row in one.communication
    ]
    return table(head, rows, words=3)


def notes_table(notes: Sequence[NotedShare]) -> list[Block]:
    """What a recording does not know exactly, with its shares of a step."""
    rows = [
        (
            str(one.note.kind),
            one.note.what,
            " ".join(filter(None, (one.note.place.module, one.note.place.source))),
            f"{one.note.count:,}",
            percent(one.flops, 1),
            percent(one.bytes, 1),
        )
        for one in notes[:_MOST_NOTES]
    ]
    left = len(notes) - len(rows)
    more = [Lines("Left out", (f"{plural(left, 'more note')}: --json has all",))] if left else []
    head = ("not exact", "what", "where", "times", "of FLOP", "of bytes")
    return [*table(head, rows, words=3, spare=("times",)), *more]
