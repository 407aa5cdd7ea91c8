"""The sentences of a recorded program.

Holds `program_title`, `program_words`, `changed_words`, `batch_words` and `program_evidence`.
"""

from typing import Final

from syncwall.answer.program import ProgramChange, ProgramChangeKind, ProgramPrediction
from syncwall.cause import LEAST_SHARE
from syncwall.show.numbers import percent, plural

_MOST: Final = 3
"""Lines or parameters that a sentence names."""
_CHANGES: Final = {
    ProgramChangeKind.COMPILE: "join memory-bound kernels: torch.compile",
    ProgramChangeKind.HOST_WAITS: "do not wait for the device within a step",
    ProgramChangeKind.PADDING: "shard along a dimension that the ranks divide",
    ProgramChangeKind.RECOMPUTE: "compute nothing again, if memory allows",
    ProgramChangeKind.PREFETCH: "ask for sharded weights earlier, at best",
    ProgramChangeKind.BUCKETS: "reduce gradients in larger buckets",
}


def program_title(prediction: ProgramPrediction) -> str:
    """What was recorded."""
    return prediction.program.command or "a recorded program"


def program_words(prediction: ProgramPrediction) -> str:
    """What runs where."""
    program, cluster = prediction.program, prediction.cluster
    how = "compiled" if prediction.compiled else "eager"
    size = f"{program.parameters / 1e9:.3g}B parameters, " if program.parameters else ""
    where = f"{plural(program.world_size, 'rank')} on {cluster.title or cluster.name}"
    return f"{size}{where}, {how}, recorded with torch {program.torch}"


def changed_words(change: ProgramChange) -> str:
    """The change in words, with where it is to be made."""
    named = ", ".join(change.where[:_MOST])
    more = f" and {len(change.where) - _MOST} more" if len(change.where) > _MOST else ""
    return _CHANGES[change.kind] + (f" ({named}{more})" if named else "")


def batch_words(times: float | None) -> str | None:
    """How much larger the batch could be."""
    if times is None or times == 1.0:
        return None
    if times < 1.0:
        return f"a batch of {percent(times)} of this one would fit"
    return f"the batch of a rank could be {times:.2g} times as large and still fit"


def program_evidence(prediction: ProgramPrediction) -> str:
    """Why the interval is as wide as it is."""
    words = "few published runs can be recorded, so the interval is that of unlike programs"
    if prediction.unknown < LEAST_SHARE:
        return words
    return f"{words}; {percent(prediction.unknown, 1)} of its work is not known"
