"""The timeline of one micro batch, in columns.

Holds `timeline` and `MOST`. What operations are is said once; the intervals are arrays of the same
length. Times are whole tenths of a microsecond.
"""

from math import isfinite
from typing import Any, Final, cast

from syncwall.answer import Prediction
from syncwall.answer.timeline import Timeline, interval_count
from syncwall.cause import Cause
from syncwall.problems import InputError
from syncwall.show.operations import Wording
from syncwall.timeline.streams import Interval
from syncwall.web.answers.prediction import prediction_of
from syncwall.web.asked import AskedRun
from syncwall.work.block import Phase, Stream, Task

MOST: Final = 60_000
"""Intervals that a page draws; more are refused before any is made."""
_TICKS: Final = 1e7
"""In a second."""
_LANES: Final = {
    Stream.COMPUTE: ("compute", "computation"),
    Stream.TENSOR: ("TP", "tensor-parallel communication"),
    Stream.CONTEXT: ("CP", "context-parallel communication"),
    Stream.EXPERT: ("EP", "tokens on their way to experts"),
    Stream.GATHER: ("weights in", "sharded weights on their way in"),
    Stream.REDUCE: ("gradients out", "gradients on their way out"),
    Stream.PIPELINE: ("PP", "activations on their way to the next stage"),
    Stream.OFFLOAD: (
        "host",
        "activations and gradients on their way to the host's memory and back",
    ),
}
_LATE_HOST: Final = (
    "The host needs longer to issue this block than the device to run it; drawn at its end."
)
_PHASES: Final = {
    Phase.FORWARD: "forward", Phase.BACKWARD: "backward", Phase.FINISH: "optimizer",
}  # fmt: skip


def timeline(asked: AskedRun) -> dict[str, Any]:
    """Every operation and wait of the last micro batch and the optimizer step, in columns."""
    prediction = prediction_of(asked)
    count = interval_count(prediction)
    if count > MOST:
        said = f"{count:,} intervals in one micro batch are too many to draw (at most {MOST:,})"
        raise InputError.of(said)
    found = prediction.timeline()
    if not isfinite(found.end_s):
        raise InputError.of("the step never ends: there is nothing to draw")
    run, work = prediction.run, prediction.work
    return {
        "ticks_per_s": _TICKS,
        "end": _ticks(found.end_s),
        "end_s": found.end_s,
        "step_s": prediction.step_s,
        "microbatches": float(work.microbatches),
        "pipeline_ranks": int(run.layout.pp),
        "earlier_s": found.earlier_s,
        "phases": [
            {"name": _PHASES[span.phase], "start": _ticks(span.start_s), "end": _ticks(span.end_s)}
            for span in found.spans
            if span.end_s > span.start_s
        ],
        **_Columns(prediction, found).answer(),
    }


class _Columns:
    """Intervals as arrays, with a list of the operations that they are of."""

    def __init__(self, prediction: Prediction, found: Timeline) -> None:
        self._found = found
        self._rounds = _rounds(prediction)
        self._wording = Wording(prediction)
        self._priced: dict[tuple[str, str], int] = {}

    def answer(self) -> dict[str, Any]:
        """Lanes, operations and intervals."""
        operations: list[dict[str, Any]] = []
        known: dict[object, int] = {}
        op: list[int] = []
        every = [one for one in (*self._found.intervals, *self._found.waits) if _is_drawn(one)]
        for interval in every:
            key = _key(interval)
            at = known.get(key)
            if at is None:
                at = known[key] = len(operations)
                operations.append(self._described(interval))
            op.append(at)
        starts = [_ticks(interval.start_s) for interval in every]
        ends = [_ticks(interval.end_s) for interval in every]
        used = {operation["stream"] for operation in operations}
        return {
            "lanes": [
                {"stream": str(stream), "name": name, "about": about}
                for stream, (name, about) in _LANES.items()
                if str(stream) in used
            ],
            "operations": operations,
            "priced": [{"formula": formula, "source": source} for formula, source in self._priced],
            "op": op,
            "start": starts,
            "duration": [end - start for start, end in zip(starts, ends, strict=True)],
            "layer": [self._layer(interval) for interval in every],
        }

    def _described(self, interval: Interval) -> dict[str, Any]:
        said: dict[str, Any] = {
            "name": interval.name,
            "cause": interval.cause,
            "stream": str(interval.stream),
            "phase": str(interval.phase),
            "block": interval.block,
            "layers": self._rounds[str(interval.phase), interval.block],
        }
        if interval.what is None:
            notes = [_LATE_HOST] if interval.cause is Cause.HOST else []
            name = f"waits for {_awaited(interval.name)}"
            return said | {"name": name, "wait": True, "notes": notes}
        words = self._wording.of(cast("Task", interval.what))
        key = (words.formula, words.source)
        return said | {
            "shape": words.shape,
            "seconds": words.seconds,
            "flops": words.flops,
            "hbm_bytes": words.hbm_bytes,
            "sent_bytes": words.sent_bytes,
            "rate": words.rate,
            "rate_unit": words.rate_unit,
            "of_peak": words.of_peak,
            "priced": self._priced.setdefault(key, len(self._priced)),
        }

    def _layer(self, interval: Interval) -> int:
        """The number of the layer from 1 on; backward they are met from the last on."""
        if interval.phase in (Phase.FORWARD, Phase.FINISH):
            return interval.round + 1
        return self._rounds[str(interval.phase), interval.block] - interval.round


def _is_drawn(interval: Interval) -> bool:
    """False for what is shorter than a tick."""
    return (interval.end_s - interval.start_s) * _TICKS >= 1.0


def _key(interval: Interval) -> object:
    if interval.what is not None:
        return interval.name, id(interval.what), interval.phase, interval.block
    return interval.name, interval.cause, interval.phase, interval.block


def _awaited(name: str) -> str:
    """What is waited for; streams by their words."""
    return next((about for stream, (_, about) in _LANES.items() if stream == name), name)


def _rounds(prediction: Prediction) -> dict[tuple[str, str], int]:
    """How often each block is done, by phase."""
    stage = prediction.work.stages[-1]
    found: dict[tuple[str, str], int] = {}
    parts = (
        ((Phase.FORWARD,), stage.forward),
        ((Phase.BACKWARD, Phase.RECOMPUTE), stage.last_backward),
        ((Phase.FINISH,), stage.finish),
    )
    for phases, blocks in parts:
        for block in blocks:
            found |= {(str(phase), block.name): round(float(block.rounds)) for phase in phases}
    return found


def _ticks(seconds: float) -> int:
    return round(seconds * _TICKS)
