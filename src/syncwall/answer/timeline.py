"""The intervals of a predicted step, and their export.

Holds `micro_batch_intervals` (one micro batch of the last pipeline rank and its optimizer step) and
`perfetto`, which writes them as a Chrome trace: one track a stream, no overlap on a track.
"""

import json
from pathlib import Path
from typing import Any

from syncwall.answer.prediction import Prediction
from syncwall.timeline.segments import segments
from syncwall.timeline.streams import Clock, Interval


def micro_batch_intervals(prediction: Prediction) -> list[Interval]:
    """Every operation of one micro batch, forward and backward, and of the optimizer step."""
    prices = prediction.prices
    clock = Clock(intervals=[])
    stage = prediction.work.stages[-1]
    for block in (*stage.forward, *stage.last_backward):
        clock.run(segments(block, prices), block.rounds)
    clock.join()
    for block in stage.finish:
        clock.run(segments(block, prices), block.rounds)
    assert clock.intervals is not None
    return clock.intervals


def perfetto(prediction: Prediction, path: Path) -> None:
    """Write the intervals to `path`; open it at ui.perfetto.dev or in chrome://tracing."""
    events: list[dict[str, Any]] = []
    streams: dict[str, int] = {}
    for interval in micro_batch_intervals(prediction):
        track = streams.setdefault(interval.stream, len(streams))
        events.append(
            {
                "name": interval.name,
                "cat": interval.cause,
                "ph": "X",
                "pid": 0,
                "tid": track,
                "ts": round(interval.start_s * 1e6, 3),
                "dur": round((interval.end_s - interval.start_s) * 1e6, 3),
                "args": {"cause": interval.cause, "phase": interval.phase},
            }
        )
    names = [
        {"name": "thread_name", "ph": "M", "pid": 0, "tid": track, "args": {"name": stream}}
        for stream, track in streams.items()
    ]
    title = f"{prediction.run.model.name}, one micro batch, predicted by syncwall"
    process = {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": title}}
    path.write_text(json.dumps({"traceEvents": [process, *names, *events]}))
