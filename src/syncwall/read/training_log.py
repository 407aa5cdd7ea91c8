"""Logs of training runs: the figures that a framework prints every so many steps.

Holds `TrainingLog` and `read_training_log`. A log may hold lines of several programs (a launcher,
DeepSpeed below a Trainer, the progress bars of a data set): that which says most about the time of
steps is taken. What is printed for the same step by several ranks, or in several lines, is one row.
"""

import ast
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from syncwall.problems import EmptyInput, Problem
from syncwall.read.limited import LogLines, without_launcher
from syncwall.read.training_log_formats import FORMATS, FigureName, LineFormat, number_of

FIGURES: Final[tuple[FigureName, ...]] = get_args(FigureName)


@dataclass(frozen=True)
class TrainingLog:
    """Figures of L steps."""

    source: str
    framework: str
    """Megatron-LM, torchtitan, ...: what printed the lines."""
    steps: Any
    """(L,), rising: number of the step, as printed or counted from 1."""
    lines: Any
    """(L,): of the file."""
    figures: Mapping[FigureName, Any]
    """Each (L,), in SI units: NaN where it is not printed, infinite where it is printed as no number."""
    is_mean: bool = True
    """A figure is the mean since the line before; else that of one step."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """What Megatron-LM prints of its arguments, by name with underscores."""
    config: Mapping[str, Any] | None = None
    """What torchtitan prints of its configuration."""
    gpus: int | None = None
    device: str | None = None
    restarts: int = 0
    """Times that the number of the step went back."""
    allocator_retries: int = 0
    """Lines about CUDA memory that had to be freed and allocated again."""
    problems: tuple[Problem, ...] = ()

    def figure(self, name: FigureName) -> Any:
        """(L,): one of the figures; all NaN if it is never printed."""
        return self.figures.get(name, np.full(len(self.steps), np.nan))


_MOST_ROWS: Final = 1_000_000
_MOST_OF_A_LINE: Final = 256
_MOST_CONFIG: Final = 1 << 17
_BEFORE: Final = 250
"""Characters before what is said of a step in which its time is looked for."""
_OTHER_BARS: Final = re.compile(
    r"\W{0,8}(?:Map|Token|Load|Download|Generat|Validat|Sanity|Eval|Preprocess|Fetch|Sav|Filter|Running"
    r"|Test|Predict|Creat|Pack|Group|Resolv|Upload|Shard|Computing|Convert)",
    re.IGNORECASE,
)
_TIMES: Final = (
    re.compile(r"(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"),
    re.compile(r"(?P<m>\d\d)/(?P<d>\d\d)/(?P<y>20\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"),
)
_RANK: Final = re.compile(r"\[(?:default|rank)?\d{1,6}\]:")
_ARGUMENT: Final = re.compile(r"\s{0,8}([a-z]\w{1,60}) \.{3,60} (.{0,400})$")
_CONFIG: Final = re.compile(r"Running with (?:args|configs?): (?=\{)")
_MESH: Final = re.compile(r"device mesh with \[[^\]]{0,200}\], \[([\d, ]{1,80})\]")
_WORLD: Final = re.compile(r"using world size: (\d{1,7})")
_DEVICE: Final = re.compile(r"CUDA capacity: (.{2,60}?) with ")


class _Rows:
    """What one program printed."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.lines: list[int] = []
        self.columns: dict[FigureName, array[float]] = {}
        self.places: dict[int, int] = {}
        self.is_mean = True
        self.restarts = 0
        self.waiting: dict[FigureName, float] = {}
        """Figures without a step, that come before their step."""

    def row(self, step: int, line: int, *, may_go_back: bool) -> int:
        """The row of a step; rows that come after it are those of a run before a restart."""
        if step in self.places and (step >= self.steps[-1] - 1 or not may_go_back):
            return self.places[step]
        if self.steps and step <= self.steps[-1]:
            self._cut(step)
        self.places[step] = len(self.steps)
        self.steps.append(step)
        self.lines.append(line)
        for column in self.columns.values():
            column.append(np.nan)
        self.put(len(self.steps) - 1, self.waiting)
        self.waiting = {}
        return len(self.steps) - 1

    def _cut(self, step: int) -> None:
        while self.steps and self.steps[-1] >= step:
            self.places.pop(self.steps.pop())
            self.lines.pop()
            for column in self.columns.values():
                column.pop()
        self.restarts += 1

    def put(self, row: int, figures: Mapping[FigureName, float]) -> None:
        """Take figures of a row; what is printed last counts."""
        for name, value in figures.items():
            if name not in self.columns:
                self.columns[name] = array("d", [np.nan]) * len(self.steps)
            self.columns[name][row] = value

    def paced(self) -> int:
        """Rows that tell a speed."""
        names = ("step_s", "tokens_per_s_per_gpu", "tokens_per_s", "samples_per_s")
        told = [np.isfinite(self.columns[name]) for name in names if name in self.columns]
        return int(np.any(told, axis=0).sum()) if told else 0


class _Reading:
    """A log as far as it is read."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], _Rows] = {}
        """By framework and, of progress bars, by how many steps there are."""
        self.signs = Counter[str]()
        self.last_bar: tuple[str, int] | None = None
        self.arguments: dict[str, str] = {}
        self.config: list[str] | None = None
        self.config_size = 0
        self.gpus: int | None = None
        self.device: str | None = None
        self.retries = 0

    def take(self, number: int, text: str) -> None:
        """One line, or one state of a progress bar."""
        self._facts(text)
        other_bar = bool(_OTHER_BARS.match(text))
        for one in FORMATS:
            if one.sign not in text or (one.framework == "tqdm" and (other_bar or "v_num=" in text)):
                continue
            marks = list(islice(one.mark.finditer(text), _MOST_OF_A_LINE))
            if not marks:
                continue
            ends = [mark.start() for mark in marks[1:]] + [len(text)]
            for mark, end in zip(marks, ends, strict=True):
                before = text[max(mark.start() - _BEFORE, 0) : mark.start()]
                self._row(one, mark, number, text[mark.start() : end], before)
            if one.is_alone:
                return

    def _row(self, one: LineFormat, mark: re.Match[str], number: int, said: str, before: str) -> None:
        figures = _figures(one, said, before)
        groups = mark.groupdict()
        step, total = groups.get("step") or groups.get("next"), groups.get("of") or "0"
        bar = one.framework in ("Lightning", "tqdm")
        key = ("bar" if bar else one.framework, int(total) if bar and total.isdecimal() else 0)
        self.signs[one.framework] += 1
        if one.framework == "Hugging Face Trainer":
            key = self.last_bar or ("bar", 0)
        at = int(number_of(step)) if step is not None else 0
        if groups.get("epoch") and total.isdecimal():
            at += int(groups["epoch"]) * int(total)
        if bar and key not in self.found:
            self._adopt(key, at)
        rows = self.found.setdefault(key, _Rows())
        rows.is_mean = one.is_mean
        if step is not None:
            self.last_bar = key if bar else self.last_bar
        elif one.is_counted:
            at = self._counted(one, rows, figures)
        elif rows.steps:
            at = rows.steps[-1]
        else:
            rows.waiting |= figures
            return
        if len(rows.steps) < _MOST_ROWS:
            rows.put(rows.row(at, number, may_go_back=step is not None), figures)

    def _adopt(self, key: tuple[str, int], step: int) -> None:
        """Lines that were counted before the first progress bar belong to it."""
        counted = self.found.get(("bar", 0))
        if counted is not None and counted.steps and counted.steps[-1] < step:
            self.found[key] = self.found.pop(("bar", 0))

    def _counted(self, one: LineFormat, rows: _Rows, figures: Mapping[FigureName, float]) -> int:
        """The step before a line without one, unless that has such figures already."""
        if not rows.steps:
            return 1
        last = rows.steps[-1]
        known = any(
            name in rows.columns and not np.isnan(rows.columns[name][-1])
            for name in one.figures
            if name in figures
        )
        return last + 1 if known else last

    def _facts(self, text: str) -> None:
        """What is said of the run, beside its steps."""
        if self.config is not None and self.config and self.config_size < _MOST_CONFIG:
            self._configuration(text)
        if " ..." in text and (match := _ARGUMENT.match(text)):
            self.arguments[match[1]] = match[2].strip()
        elif self.config is None and (match := _CONFIG.search(text)):
            self.config = []
            self._configuration(text[match.end() :])
        elif match := _MESH.search(text) if "device mesh" in text else None:
            sizes = [int(size) for size in match[1].split(",") if size.strip().isdecimal()]
            self.gpus = self.gpus or int(np.prod(sizes, dtype=object))
        elif match := _WORLD.search(text) if "world size" in text else None:
            self.gpus = int(match[1])
        elif match := _DEVICE.search(text) if "CUDA capacity" in text else None:
            self.device = match[1]
        elif "CUDA memory allocation retries" in text:
            self.retries += 1

    def _configuration(self, text: str) -> None:
        """Lines up to the one whose bracket closes the first."""
        assert self.config is not None
        self.config.append(text)
        self.config_size += len(text)
        if text.rstrip() == "}" or (len(self.config) == 1 and text.rstrip().endswith("}")):
            self.config_size = _MOST_CONFIG

    def configuration(self) -> Mapping[str, Any] | None:
        """What torchtitan printed, as JSON or as Python writes it."""
        text = "\n".join(self.config or ())
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                continue
            return found if isinstance(found, dict) else None
        return None


def _figures(one: LineFormat, said: str, before: str) -> dict[FigureName, float]:
    """What is `said` of a step; the rate of samples may stand before it on the line."""
    figures: dict[FigureName, float] = {}
    for name, where in one.figures.items():
        here = before + said if name == "samples_per_s" else said
        values = (figure.value(here) for figure in (where if isinstance(where, tuple) else (where,)))
        value = next((value for value in values if value is not None), None)
        if value is not None and not (name == "mfu" and value < 0.0):
            figures[name] = value
    if one.loss_is_there and "loss" not in figures and not figures.get("skipped"):
        figures["loss"] = np.inf
    when = _time_of(before)
    return figures if when is None else {**figures, "time_s": when}


def _time_of(text: str) -> float | None:
    """Seconds since the epoch, as if clocks showed UTC."""
    for pattern in _TIMES:
        match = pattern.search(text)
        if match is None:
            continue
        try:
            when = datetime.strptime(
                f"{match['y']}-{match['m']}-{match['d']} {match[4]}", "%Y-%m-%d %H:%M:%S"
            ).replace(tzinfo=UTC)
        except ValueError:
            return None
        return when.timestamp() + float(f"0.{match[5] or 0}")
    return None


def read_training_log(path: Path | str) -> TrainingLog:
    """The figures of the steps that the log at `path` tells of."""
    lines, reading = LogLines(path), _Reading()
    for number, raw in lines:
        for text in _states(raw):
            reading.take(number, text)
    every = [(key, rows) for key, rows in reading.found.items() if rows.steps]
    if not every:
        raise EmptyInput.of("holds no line about a training step", file=str(path))
    most = max(rows.paced() for _, rows in every)
    (name, _), rows = min(
        ((key, rows) for key, rows in every if 2 * rows.paced() >= most), key=lambda one: _order(one[0])
    )
    return _log(str(path), _named(name, reading.signs), rows, reading, lines.problems)


def _states(raw: str) -> Iterator[str]:
    """What a line shows one after the other, without the rank that a launcher puts before it."""
    for text in raw.split("\r") if "\r" in raw else (raw,):
        bare = without_launcher(text)
        match = _RANK.match(bare)
        yield bare[match.end() :] if match else bare


def _order(key: tuple[str, int]) -> int:
    names = [one.framework for one in FORMATS]
    return names.index(key[0]) if key[0] in names else len(names)


def _named(name: str, signs: Mapping[str, int]) -> str:
    """What printed it, of bars by what else is there."""
    if name != "bar":
        return name.partition(" micro")[0]
    return next((one for one in ("Lightning", "Hugging Face Trainer") if signs.get(one)), "tqdm")


def _log(
    source: str, framework: str, rows: _Rows, reading: _Reading, problems: tuple[Problem, ...]
) -> TrainingLog:
    figures: dict[FigureName, Any] = {
        name: np.frombuffer(column, dtype=float).copy() for name, column in rows.columns.items()
    }
    if "memory_bytes" in figures:
        figures["memory_bytes"] = _carried(figures["memory_bytes"])
    if "skipped_so_far" in figures:
        so_far = _carried(figures.pop("skipped_so_far"))
        figures["skipped"] = np.diff(so_far, prepend=0.0)
    told = [figures[name] for name in FIGURES if name in figures and name not in ("memory_bytes", "time_s")]
    kept = np.any(~np.isnan(told), axis=0) if told else np.zeros(len(rows.steps), dtype=bool)
    if not kept.any():
        raise EmptyInput.of("holds no figure of a training step", file=source)
    if len(rows.steps) >= _MOST_ROWS:
        what = f"only the first {_MOST_ROWS:,} steps were read"
        problems = (*problems, Problem(source, rows.lines[-1], 0, what))
    return TrainingLog(
        source,
        framework,
        np.array(rows.steps, dtype=np.int64)[kept],
        np.array(rows.lines, dtype=np.int64)[kept],
        {name: values[kept] for name, values in figures.items()},
        rows.is_mean,
        reading.arguments,
        reading.configuration() if reading.config else None,
        reading.gpus or _whole(reading.arguments.get("world_size")),
        reading.device,
        rows.restarts,
        reading.retries,
        problems,
    )


def _carried(values: Any) -> Any:
    """`values` with what was printed last where nothing is."""
    at = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return np.where(at >= 0, values[np.maximum(at, 0)], np.nan)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None
