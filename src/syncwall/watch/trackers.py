"""Figures of a watched run in experiment trackers: Weights & Biases, MLflow, TensorBoard.

Holds `flat_figures`, a snapshot as one flat dict with names that all of them take, and `figures`,
the same for a loop that logs by itself; `Tracking`, a listener that hands them over by a thread, so
that a slow service delays nobody; `WandbRun`, `MlflowRun` and `EventFiles`, one run or folder for
each agent, in which findings are alerts, tags or texts; `checked_tracker`, which knows the packages
that they need. Accounts, addresses and projects are those of their own variables (WANDB_*, MLFLOW_*).
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import Any, Final, NamedTuple, Protocol

from syncwall.problems import InputError, did_you_mean, first_line
from syncwall.watch.events import Finding, grouped
from syncwall.watch.place import folder
from syncwall.watch.summary import Live, Recent, Snapshot, name_in, read_snapshot

_PREFIX: Final = "syncwall/"


def flat_figures(found: Snapshot) -> dict[str, float]:
    """Step time, its groups, tokens/s, MFU, loss, goodput and findings: what is known of them.

    "syncwall/finding/dead_rank" is 1 while a finding of this kind holds, then 0.
    """
    losses = [one for one in found.losses if one is not None]
    named = {
        "step_s": found.step_s,
        "tokens_per_s": found.tokens_per_s,
        "mfu": found.mfu,
        "goodput": found.goodput,
        "remaining_s": found.finish_s[1] if found.finish_s else None,
        "loss": losses[-1] if losses else None,
        "findings": float(len(found.findings)),
        **{f"ledger_s/{group}": spent_s for group, spent_s in grouped(found.seconds).items()},
        **{f"finding/{one.kind}": 0.0 for one in found.past},
        **{f"finding/{one.kind}": 1.0 for one in found.findings},
    }
    return {_PREFIX + key.replace(" ", "_"): value for key, value in named.items() if value is not None}


def figures() -> dict[str, float]:
    """What the agent of this process knows now; empty if nobody watches it.

    For loops and callbacks that log by themselves: `wandb.log(figures())`.
    """
    try:
        found = read_snapshot(folder(os.environ))
    except InputError:
        return {}
    return flat_figures(found) if found.status().is_current else {}


class Tracker(Protocol):
    """A run of a service, or a folder, that takes figures."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Figures at a step, which is lower than before once ranks were started anew."""

    def tell(self, step: int, finding: Finding) -> None:
        """A finding, once."""

    def close(self) -> None:
        """Send what is left."""


class WandbRun:
    """A run of Weights & Biases beside that of the training, whose id it carries if there is one."""

    def __init__(self, name: str, _: str) -> None:
        import wandb

        given = os.environ.get("WANDB_RUN_ID")
        self._run: Any = wandb.init(
            name=name,
            job_type="syncwall watch",
            id=f"{given}-syncwall-{os.getpid()}" if given else None,
            resume="allow",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_code=True),
        )
        self._run.define_metric(f"{_PREFIX}*", step_metric=f"{_PREFIX}step")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """A row of its history."""
        self._run.log({**values, f"{_PREFIX}step": step})

    def tell(self, step: int, finding: Finding) -> None:
        """An alert, which W&B hands on as its user has said."""
        self._run.alert(title=f"syncwall: {finding.kind}", text=finding.evidence)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class MlflowRun:
    """A run of MLflow, or the one that MLFLOW_RUN_ID names."""

    def __init__(self, name: str, _: str) -> None:
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # the terminal is the training's
        from mlflow import MlflowClient

        self._client: Any = MlflowClient()
        self._told = 0
        given = os.environ.get("MLFLOW_RUN_ID")
        self._owns = given is None
        self._id = given or self._client.create_run(self._experiment(), run_name=name).info.run_id

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "Default")
        known = self._client.get_experiment_by_name(name)
        found: str = known.experiment_id if known else self._client.create_experiment(name)
        return os.environ.get("MLFLOW_EXPERIMENT_ID", found)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Metrics, in one batch."""
        from mlflow.entities import Metric

        now_ms = int(time.time() * 1e3)
        self._client.log_batch(self._id, [Metric(key, value, now_ms, step) for key, value in values.items()])

    def tell(self, step: int, finding: Finding) -> None:
        """A tag, numbered."""
        said = f"{finding.kind} at step {step}: {finding.evidence}"
        self._client.set_tag(self._id, f"{_PREFIX}finding.{self._told}", said)
        self._told += 1

    def close(self) -> None:
        """End the run, unless it is the training's."""
        if self._owns:
            self._client.set_terminated(self._id)


class EventFiles:
    """A folder that TensorBoard shows."""

    def __init__(self, name: str, folder: str) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        made = f"runs/syncwall-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._writer: Any = EventFileWriter(folder or made)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Scalars."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=key, simple_value=value) for key, value in values.items()]
        self._add(step, Summary(value=scalars))

    def tell(self, step: int, finding: Finding) -> None:
        """A text."""
        from tensorboard.plugins.text.summary_v2 import text_pb

        tag = f"{_PREFIX}finding/{finding.kind}".replace(" ", "_")
        self._add(step, text_pb(tag, finding.evidence))

    def _add(self, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


_TRACKERS: Final[Mapping[str, Callable[[str, str], Tracker]]] = {
    "wandb": WandbRun,
    "mlflow": MlflowRun,
    "tensorboard": EventFiles,
}


def checked_tracker(word: str) -> tuple[str, str]:
    """Name and folder of "tensorboard:DIR"; InputError if it cannot be logged to."""
    name, colon, where = word.partition(":")
    if name not in _TRACKERS:
        known = ", ".join(_TRACKERS)
        raise InputError.of(f'no tracker is called "{name}"{did_you_mean(name, _TRACKERS) or f": {known}"}')
    if colon and (name != "tensorboard" or not where):
        raise InputError.of(f"{word}: only tensorboard:DIR has a folder")
    spec = find_spec(name)
    if spec is None or spec.origin is None:  # a folder of that name is no package
        raise InputError.of(f'{name} is missing: pip install "syncwall[{name}]"')
    return name, str(Path(where).absolute()) if where else ""


class _Row(NamedTuple):
    step: int
    values: Mapping[str, float]
    new: tuple[Finding, ...]


_EVERY_S: Final = 10.0
_WAITING: Final = 100
_TIMEOUT_S: Final = 8.0
"""For the last figures: whoever started an agent waits ten seconds for its end."""


class Tracking:
    """Tells a tracker every ten seconds, of findings at once, and at the end."""

    def __init__(self, recent: Recent, home: Path, word: str, every_s: float = _EVERY_S) -> None:
        """InputError if there is no such tracker."""
        self._recent, self._home, self._every_s = recent, home, every_s
        self._name, self._where = checked_tracker(word)
        self._next_s = 0.0
        self._waiting: Queue[_Row | None] = Queue(_WAITING)
        self._thread = Thread(target=self._deliver, name=self._name, daemon=True)
        self._thread.start()

    def round(self, live: Live) -> None:
        """Hand over what is known, if it is time."""
        if live.new or time.monotonic() >= self._next_s:
            self._put(live.new)

    def close(self) -> None:
        """Hand over the last figures, and give the tracker a while for them."""
        self._put(())
        self._waiting.put(None)
        self._thread.join(_TIMEOUT_S)

    def _put(self, new: tuple[Finding, ...]) -> None:
        found = self._recent.snapshot()
        if found is None or (found.step_s is None and not new):
            return
        self._next_s = time.monotonic() + self._every_s
        step = max((one.step for one in found.ranks), default=0)
        try:
            self._waiting.put_nowait(_Row(step, flat_figures(found), new))
        except Full:
            self._say("takes no more figures")

    def _deliver(self) -> None:
        tracker: Tracker | None = None
        try:
            while (row := self._waiting.get()) is not None:
                tracker = tracker or _TRACKERS[self._name](name_in(self._home) or "watched", self._where)
                for finding in row.new:
                    tracker.tell(row.step, finding)
                tracker.log(row.step, row.values)
            if tracker is not None:
                tracker.close()
        except Exception as error:  # noqa: BLE001 - whatever a service does, the ranks are watched
            self._say(f"takes no figures: {type(error).__name__}: {first_line(error)}")
            while self._waiting.get() is not None:
                pass

    def _say(self, text: str) -> None:
        print(f"syncwall watch: {self._name} {text}", file=sys.stderr, flush=True)
