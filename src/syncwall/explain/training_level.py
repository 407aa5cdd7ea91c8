"""What a training log should show: the run that it is of, predicted and laid beside it.

Holds `Level` and `level_of`. The run is the one that is given, or follows from the settings that
Megatron-LM and torchtitan print into their logs, on the machine that is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from syncwall.answer.gap import Gap, gap
from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Cluster, Run
from syncwall.describe.run import MeasuredSpeed
from syncwall.describe.settings import Settings
from syncwall.describe.settings.formats import settings_in
from syncwall.describe.stated import StatedRun
from syncwall.documents import Document
from syncwall.explain.training_log import LogSummary, summary_of
from syncwall.problems import InputError
from syncwall.read.training_log import TrainingLog

_MACHINE: Final = "the machine: --cluster dgx-h100 (syncwall show clusters lists them)"
_RUN: Final = "the run: --run run.yaml"


@dataclass(frozen=True, slots=True)
class Level:
    """Figures of a log beside what they should be."""

    figures: LogSummary
    gap: Gap | None = None
    """Measured and predicted; None if they cannot be compared, ..."""
    why: str = ""
    """... and why ..."""
    give: str = ""
    """... and what to give."""

    @property
    def predicted(self) -> Prediction | None:
        """The run that the log is of."""
        return None if self.gap is None else self.gap.predicted


def level_of(
    log: TrainingLog, run: Run | None, predicted: Prediction | None, machine: Cluster | None
) -> Level:
    """The figures of `log` beside `run`, `predicted` already, or beside what the log says of itself."""
    figures = summary_of(log)
    speed = _speed(figures)
    if speed is None:
        return Level(figures, why="no times or rates are printed", give="a log with a progress bar or times")
    try:
        if predicted is None:
            run = run or _described(log, machine)
            predicted = predict(run)
        measured_s = predicted.seconds_of(speed)
        if not measured_s > 0:
            raise InputError.of("the speed of the log cannot be compared with a step")
        return Level(figures, gap(predicted, _of_step(measured_s)))
    except _UndescribedRunError as missing:
        return Level(figures, why=missing.why, give=missing.give)
    except InputError as error:
        said = error.problems[0].message if error.problems else str(error)
        return Level(figures, why=f"what the log says of the run is not enough: {said}", give=_RUN)


class _UndescribedRunError(Exception):
    """Nobody says what was run, or on what."""

    def __init__(self, why: str, give: str) -> None:
        super().__init__(why)
        self.why, self.give = why, give


def _speed(figures: LogSummary) -> MeasuredSpeed | None:
    """What tells the step most directly."""
    if figures.step_s is not None:
        return _of_step(figures.step_s)
    if figures.tokens_per_s_per_gpu is not None:
        return MeasuredSpeed.model_validate({"tokens_per_s_per_gpu": figures.tokens_per_s_per_gpu})
    if figures.tokens_per_s is not None:
        return MeasuredSpeed.model_validate({"tokens_per_s": figures.tokens_per_s})
    return None


def _of_step(seconds: float) -> MeasuredSpeed:
    return MeasuredSpeed.model_validate({"step": f"{seconds!r} s"})


def _described(log: TrainingLog, machine: Cluster | None) -> Run:
    """The run that the log prints the settings of, on `machine`."""
    if not log.arguments and log.config is None:
        raise _UndescribedRunError("no run is described", f"{_RUN}, or --against the log of a good run")
    if machine is None:
        seen = f" (it names {log.device})" if log.device else ""
        raise _UndescribedRunError(f"the log describes the run, but not the machine{seen}", _MACHINE)
    keys: dict[str, Any] = {"cluster": machine}
    if log.gpus is not None:
        keys["gpus"] = log.gpus
    return StatedRun(keys, _settings(log)).run()


def _settings(log: TrainingLog) -> Settings:
    """What is printed of settings, read as the file of them would be."""
    value: Mapping[str, Any] = log.config if log.config is not None else _command(log.arguments)
    return settings_in(Document(log.source, dict(value), {(): (1, 1)}))


_OFF: Final = {"add_bias_linear": "--disable-bias-linear"}
"""Arguments that are printed as what they switch off."""


def _command(arguments: Mapping[str, str]) -> dict[str, list[str]]:
    """Megatron-LM's arguments as they would be given."""
    found: dict[str, list[str]] = {}
    for name, value in arguments.items():
        if value == "False" and name in _OFF:
            found[_OFF[name]] = []
        elif value not in ("None", "False", "[]"):
            found[f"--{name.replace('_', '-')}"] = [] if value == "True" else [value]
    return found
