"""The numbers of the page "How a step works": a data-parallel step, worker by worker.

Holds `AskedStep` and `team_step`. What is drawn is the last micro batch and the update, as
`timeline.team` plays them with the prices of the prediction.
"""

from dataclasses import asdict
from typing import Any, Final, Literal

import numpy as np
from pydantic import Field

from syncwall.answer import Prediction
from syncwall.problems import InputError
from syncwall.show.layout_words import said
from syncwall.timeline.step import reduction_window
from syncwall.timeline.team import Watched, seconds_of, watched
from syncwall.timeline.team_waits import Idle, idle_of, share_of
from syncwall.web.answers.known import prediction_of
from syncwall.web.answers.step_drawn import chunks_of, flights_of
from syncwall.web.answers.step_events import events_of, phases_of, verdict_of
from syncwall.web.asked import Asked, AskedRun
from syncwall.work.sharing import reduced_at_once

MOST_LAYERS: Final = 512
"""Of one pipeline stage; more cannot be told apart on a screen."""
MOST_IDLE: Final = 400
"""Idle times of a worker that are drawn, the longest; all are counted."""


_ELSE: Final = "host, accumulation, messages between stages, usual differences between ranks"


class AskedStep(Asked):
    """A run, and how to look at its step."""

    run: AskedRun
    mode: Literal["run", "ddp", "fsdp"] = Field(
        "run", description="Sharding: that of the run, or another one to compare with."
    )
    workers: int = Field(6, ge=2, le=8, description="Data-parallel workers that are drawn.")
    slow: float = Field(1.0, ge=1, le=5, description="One worker computes this many times slower.")
    worker: int = Field(3, ge=1, le=8, description="Which one, from 1.")

    def changed(self) -> AskedRun:
        """The run with the sharding of `mode`."""
        if self.mode == "run":
            return self.run
        layout = {k: v for k, v in self.run.layout.items() if k not in ("shard", "shard_degree")}
        return self.run.model_copy(update={"layout": layout | {"shard": self.mode}})


def team_step(asked: AskedStep) -> dict[str, Any]:
    """Every worker's last micro batch and update, drawn coarsely, counted exactly."""
    prediction = prediction_of(asked.changed())
    layout = prediction.run.layout
    refuse_too_many_layers(prediction)
    workers = min(asked.workers, int(layout.dp or 1))
    slow = min(asked.worker, workers) - 1
    slowness = [asked.slow if worker == slow else 1.0 for worker in range(workers)]
    seen = watched(prediction.work.stages[-1], prediction.prices, slowness)
    if not np.isfinite(seen.end_s).all():
        raise InputError.of("a part of the step takes forever: is a speed zero?", file="cluster")
    drawn = chunks_of(prediction, seen)
    flights = flights_of(prediction, seen)
    idle = [idle_of(seen.team, worker) for worker in range(workers)]
    steady = 0 if slow else workers - 1
    kinds = sorted({steady, slow})  # all that are not slow are alike
    answer = {
        "workers": workers,
        "slow": asked.slow,
        "worker": slow,
        "marks": {
            name: getattr(seen, name).tolist()
            for name in ("forward_s", "backward_s", "met_s", "end_s")
        },
        "span_s": float(seen.end_s.max()),
        "chunks": drawn,
        "flights": flights,
        "idle": [_runs(idle[one], float(seen.end_s.max())) for one in kinds],
        "idle_of": [kinds.index(slow if worker == slow else steady) for worker in range(workers)],
        "shares": [
            asdict(share_of(seen.team, worker, pieces, float(seen.end_s[worker])))
            for worker, pieces in enumerate(idle)
        ],
        **_of_the_run(prediction),
        **_lost(prediction, seen, slowness),
    }
    return answer | {
        "phases": phases_of(answer),
        "events": events_of(answer),
        "verdict": verdict_of(answer),
    }


def refuse_too_many_layers(prediction: Prediction) -> None:
    """InputError if a stage has more layers than can be played in reasonable time."""
    stage = prediction.work.stages[-1]
    rounds = sum(float(block.rounds) for block in stage.forward)
    if rounds > MOST_LAYERS:
        said_ = f"{rounds:,.0f} layers on a pipeline stage cannot be drawn; {MOST_LAYERS} can"
        raise InputError.of(said_, file="model")


def _of_the_run(prediction: Prediction) -> dict[str, Any]:
    run, layout = prediction.run, prediction.run.layout
    microbatches = int(layout.microbatches)
    return {
        "step_s": prediction.step_s,
        "fits": prediction.fits,
        "memory_bytes": prediction.memory_bytes,
        "memory_size_bytes": float(run.cluster.device.memory.size_bytes),
        "layout": said(layout),
        "shard": layout.shard.text,
        "pp": int(layout.pp),
        "dp": int(layout.dp or 1),
        "gpus": int(run.gpus),
        "gpus_each": int(layout.model_ranks),
        "layers": int(run.model.layers),
        "microbatches": microbatches,
        "micro_batch": int(layout.micro_batch),
        "sequences_each": microbatches * int(layout.micro_batch),
        "tokens_each": microbatches * int(layout.micro_batch) * int(run.seq or 0),
        "seq": int(run.seq or 0),
        "bucket_bytes": float(layout.bucket_bytes),
        "overlap": bool(layout.overlap_gradients),
        "at_once": bool(reduced_at_once(layout)),
        "inside": " x ".join(f"{axis} {getattr(layout, axis)}" for axis in ("tp", "cp")
                             if getattr(layout, axis) > 1),
    }  # fmt: skip


def _lost(prediction: Prediction, seen: Watched, slowness: list[float]) -> dict[str, Any]:
    """What the step is made of, and what the slow worker costs."""
    stage, prices = prediction.work.stages[-1], prediction.prices
    microbatches = float(prediction.work.microbatches)
    window = float(reduction_window(prediction.run.layout, microbatches))
    usual = seconds_of(stage, prices, [1.0] * len(slowness), window)
    slowed = seconds_of(stage, prices, slowness, window)
    lost_s = max(slowed.of_step(microbatches) - usual.of_step(microbatches), 0.0)
    before_s = (microbatches - 1) * usual.micro_s
    bubble_s = float(prediction.ledger["pipeline bubble"])
    parts = {
        "the micro batches before": before_s,
        "this micro batch and the update": usual.final_s,
        "pipeline bubble": bubble_s,
    }
    rest_s = prediction.step_s - sum(parts.values())
    alone_s = seconds_of(stage, prices, [1.0] * len(slowness)).final_s
    return {
        "lost_s": lost_s,
        "hidden_s": alone_s - usual.final_s,
        "slow_step_s": prediction.step_s + lost_s,
        "parts_s": parts | {_ELSE: rest_s},
    }


def _runs(pieces: list[Idle], span_s: float) -> list[dict[str, Any]]:
    """Idle times between which nothing is computed, each as one, with its seconds by reason."""
    found: list[dict[str, Any]] = []
    for piece in pieces:
        if not found or found[-1]["end_s"] < piece.start_s:
            start = {"wires_s": 0.0, "worker_s": 0.0, "host_s": 0.0, "whom": None}
            found.append({"start_s": piece.start_s, **start})
        run = found[-1]
        run["end_s"] = piece.end_s
        run[f"{piece.why}_s"] += piece.seconds
        run["whom"] = piece.whom if piece.whom is not None else run["whom"]
    seen = [run for run in found if run["end_s"] - run["start_s"] > 2e-4 * span_s]
    longest = sorted(seen, key=lambda run: run["start_s"] - run["end_s"])[:MOST_IDLE]
    return sorted(longest, key=lambda run: run["start_s"])
