"""One rank of each pipeline stage, recorded one after the other, as one program.

Holds `record_script` and `merged`. A stage learns from the recordings before it what it receives.
In interleaved schedules a rank also receives from stages that come later: their tensors are taken
to be like those of the last stage that is known, and if they turn out not to be, the rank is
recorded again.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from syncwall.capture.script import Limits, RecordedRank, Script, Start, record_rank, spawned
from syncwall.problems import InputError
from syncwall.work.program import Note, NoteKind, Program

_Say = Callable[[str], None]


def record_script(  # noqa: PLR0913 - a job has this many sides
    script: Script, *, world_size: int, ranks: Sequence[int] = (0,), whole_pipeline: bool = True,
    ranks_per_node: int = 8, limits: Limits | None = None, start: Start = spawned,
    say: _Say = lambda _: None,
) -> Program:  # fmt: skip
    """One optimizer step of `script` on `ranks` of a job of `world_size`, one after the other.

    With `whole_pipeline` one rank of each other stage of their pipeline is recorded, too.
    InputError has the file and the line of what keeps the script from being recorded.
    """
    with tempfile.TemporaryDirectory(prefix="syncwall-") as folder:

        def record(rank: int) -> RecordedRank:
            say(f"recording {script.name} as rank {rank} of {world_size:,}")
            return record_rank(
                script, world_size, rank, ranks_per_node, limits or Limits(),
                Path(folder, "handed_on.pickle"), start,
            )  # fmt: skip

        found = {rank: record(rank) for rank in ranks}
        if whole_pipeline:
            pipeline = found[ranks[0]].pipeline
            found |= {rank: record(rank) for rank in pipeline if rank not in found}
        _settle(found, record)
    return merged([one.program for one in found.values()], pipeline_of(found.values()))


def pipeline_of(found: Iterable[RecordedRank]) -> int:
    """Ranks of a pipeline; 0 if the program has none, or they do not agree."""
    sizes = {len(one.pipeline) for one in found}
    return sizes.pop() if len(sizes) == 1 else 0


def _settle(found: dict[int, RecordedRank], record: Callable[[int], RecordedRank]) -> None:
    """Record those again that expected other tensors than were sent to them."""
    rounds = max(len(one.pipeline) for one in found.values())
    while mistaken := _mistaken(found):
        if not rounds:
            raise InputError.of("the stages of the pipeline do not agree on what they send")
        found |= {rank: record(rank) for rank in mistaken}
        rounds -= 1


def _mistaken(found: dict[int, RecordedRank]) -> list[int]:
    sent = {stage: what for one in found.values() for stage, what in one.sent.items()}
    return [
        rank for rank, one in found.items()
        if any(sent.get(stage, what) != what for stage, what in one.received.items())
    ]  # fmt: skip


def merged(programs: Sequence[Program], pipeline: int = 0) -> Program:
    """One program of several ranks that differ, each recorded by itself.

    As many ranks are like each of them as there are pipelines, of `pipeline` ranks each. If it is
    not a pipeline (0) in which they differ, their numbers are taken as equal, and that is noted.
    """
    first = programs[0]
    if len(programs) == 1 and pipeline <= 1:
        return first
    alike = first.world_size // (pipeline or len(programs))
    said = _unsaid(len(programs), pipeline)
    return replace(
        first,
        ranks=tuple(replace(one.ranks[0], alike=alike) for one in programs),
        parameters=sum(one.parameters for one in programs),
        notes=_together(note for one in programs for note in (*one.notes, *said)),
        compiled=any(one.compiled for one in programs),
        samples=max(one.samples for one in programs),
        tokens=max(one.tokens for one in programs),
    )


def _unsaid(recorded: int, pipeline: int) -> tuple[Note, ...]:
    if not pipeline:
        what = "which ranks are like which: taken as equally many"
    elif recorded < pipeline:
        what = f"{pipeline - recorded} of {pipeline} pipeline stages"
    else:
        return ()
    return (Note(NoteKind.NOT_RECORDED, what),)


def _together(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Notes of several ranks, those that say the same as one."""
    found: dict[tuple[object, ...], Note] = {}
    for note in notes:
        key = note.kind, note.what, note.place
        other = found.get(key)
        found[key] = note if other is None else replace(
            other, count=other.count + note.count, flops=other.flops + note.flops,
            bytes=other.bytes + note.bytes, useful_bytes=other.useful_bytes + note.useful_bytes,
        )  # fmt: skip
    return tuple(found.values())
