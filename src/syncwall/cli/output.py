"""Where an answer goes: the terminal, and files for people and programs; how far it has come."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from syncwall.ask.question import Argument, LocalFile, LocalFolder, Question
from syncwall.cli.commands import as_flag
from syncwall.describe.base import Description, Whole
from syncwall.problems import InputError, Problem, option, visible

if TYPE_CHECKING:
    from syncwall.public import Answer
    from syncwall.show.blocks import View

_STDOUT: Final = "-"
_OURS: Final = ('"schema_version"', '"syncwall"')
"""Keys that files written by syncwall have near their start."""


class Output(Description):
    """Where the answer goes besides the terminal."""

    json_file: Annotated[str | None, Argument("[FILE.json]", group="output"), Field(alias="json")] = None
    """Print JSON (SI units, see `syncwall schema`), or write it to FILE.json."""
    html: LocalFile | None = None
    """Write the answer as one HTML page that needs no other file."""
    markdown: LocalFile | None = None
    """Write the answer as Markdown, its pictures beside it as NAME-1.svg, ..."""

    @property
    def prints_json(self) -> bool:
        """True if nothing but JSON goes to standard output."""
        return self.json_file == _STDOUT

    def check(self, question: "Question | None" = None) -> None:
        """Refuse, before anything is computed, what could not be written or would be lost."""
        from syncwall.documents import refuse_unwritable

        for flag, path in (("json", self._file), ("html", self.html), ("markdown", self.markdown)):
            if path is not None and not path.parent.is_dir():
                raise InputError.of(f"there is no folder {path.parent}", key=flag)
            if path is not None:
                refuse_unwritable(path)
        if self._file is not None and self._file.is_file() and not _is_ours(self._file):
            raise InputError.of(
                f"{self._file} exists and was not written by syncwall: name another file, "
                "or write --json last to print JSON",
                key="json",
            )

    def save(self, answer: Any) -> None:
        """Write the files of this verb alone."""

    def how(self, answer: "Answer") -> dict[str, Any]:
        """What the flags of this verb say of its view."""
        return {}

    def write(self, answer: "Answer", **how: Any) -> None:
        """Print `answer` and write its files; `how` goes to its view."""
        self.save(answer)
        self._write(lambda: answer.view(**self.how(answer), **how), answer.to_dict)

    def write_data(self, verb: str, view: "Callable[[], View]", data: Callable[[], Any]) -> None:
        """The same for what is no answer of the Python interface."""
        from syncwall.records import json_data

        self._write(view, lambda: json_data(verb, data()))

    def _write(self, view: "Callable[[], View]", data: Callable[[], Mapping[str, Any]]) -> None:
        try:
            self._write_json(data)
        finally:  # a full disk must not take the answer from the screen too
            if not self.prints_json or self.html is not None or self.markdown is not None:
                self.write_view(view())

    def _write_json(self, data: Callable[[], Mapping[str, Any]]) -> None:
        from syncwall.records import json_text

        if self._file is not None:
            _save(self._file, json_text(data()))
        elif self.json_file is not None:
            in_ascii = "utf" not in (sys.stdout.encoding or "utf-8").lower()
            sys.stdout.write(json_text(data(), in_ascii=in_ascii))

    def write_view(self, made: "View") -> None:
        """Print a view, unless JSON is printed, and write its pages."""
        from syncwall.show.write.terminal import print_view

        if not self.prints_json:
            print_view(made)
        for path, text in self._pages(made):
            _save(path, text)

    def _pages(self, made: "View") -> Iterator[tuple[Path, str]]:
        from syncwall.show.write.whole_files import markdown, page

        if self.html is not None:
            yield self.html, page(made)
        if self.markdown is not None:
            written = markdown(made, self.markdown.stem.replace(" ", "-"))
            yield self.markdown, written.text
            for name, picture in written.pictures.items():
                yield self.markdown.with_name(name), picture

    @property
    def _file(self) -> Path | None:
        return Path(self.json_file) if self.json_file and self.json_file != _STDOUT else None


class PredictOutput(Output):
    """What `predict` writes."""

    timeline: LocalFile | None = None
    """Write the intervals of one micro batch here (Chrome trace, for Perfetto)."""
    explain_assumptions: bool = False
    """List everything that is taken for granted."""

    def save(self, answer: Any) -> None:
        """The timeline."""
        if self.timeline is not None:
            inside = ("prediction", "update", "inner")  # of a job, of what a step is part of
            step = next((getattr(answer, one) for one in inside if hasattr(answer, one)), answer)
            step.timeline().save(self.timeline)

    def how(self, answer: "Answer") -> dict[str, Any]:
        """Whether all assumptions are listed; a recorded program has them on its screen."""
        return {"assumptions": True} if self.explain_assumptions else {}


class CompareOutput(Output):
    """What `compare` shows."""

    details: bool = False
    """Show every quantity with its interval, where the time goes, and what doubts rest on."""

    def how(self, answer: "Answer") -> dict[str, Any]:
        """Whether all of it is shown."""
        return {"details": True} if self.details and answer.verb == "compare" else {}


class LayoutsOutput(Output):
    """What `plan layouts` writes."""

    best: Annotated[LocalFile | None, Argument("FILE"), Field(alias="save")] = None
    """Write the best one here as a run file, which `predict` reads."""
    save_settings: LocalFile | None = None
    """Write these settings here."""

    def check(self, question: "Question | None" = None) -> None:
        """Also that there are settings to write."""
        super().check(question)
        if self.save_settings is not None and getattr(question, "settings", None) is None:
            raise InputError.of(f"write {option('settings')} FORMAT, too", key="save_settings")

    def save(self, answer: Any) -> None:
        """The best layout as a run file and as settings; what they leave out is said."""
        from syncwall.describe.files import run_text
        from syncwall.documents import write_whole

        for note in answer.notes:
            print(Problem("", 0, 0, note).spelled(as_flag), file=sys.stderr)
        if self.save_settings is not None and answer.settings:
            write_whole(self.save_settings, answer.settings)
        if self.best is not None and answer.best:
            write_whole(self.best, run_text(answer.best[0].prediction.run))


class WallOutput(Output):
    """What `plan wall` writes."""

    chart: LocalFile | None = None
    """Write the curves here (SVG)."""

    def save(self, answer: Any) -> None:
        """The curves."""
        if self.chart is None:
            return
        from syncwall.documents import write_whole
        from syncwall.show.wall import svg_chart

        write_whole(self.chart, svg_chart(answer.wall).file())


class FabricOutput(Output):
    """What `plan fabric` writes."""

    drawing: LocalFile | None = None
    """Write a picture of the proposed fabric here (SVG)."""

    def save(self, answer: Any) -> None:
        """The picture."""
        if self.drawing is None or answer.chosen is None:
            return
        from syncwall.documents import write_whole
        from syncwall.show.draw.fabric import fabric_drawing

        write_whole(self.drawing, fabric_drawing(answer.chosen).file())


class PlacementOutput(Output):
    """What `plan placement` writes."""

    hints: Annotated[LocalFolder | None, Argument("DIR"), Field(alias="save")] = None
    """Write for each job a host file for Slurm, the ranks of nodes for torchrun, and hints for
    Kueue and Volcano here."""

    def check(self, question: "Question | None" = None) -> None:
        """Also the folder."""
        super().check(question)
        if self.hints is not None and not self.hints.is_dir():
            raise InputError.of(f"there is no folder {self.hints}", key="save")

    def save(self, answer: Any) -> None:
        """The files of each job."""
        from syncwall.documents import write_whole
        from syncwall.plan.placement.best_placement import hint_files

        if self.hints is not None:
            for name, text in hint_files(answer, answer.gpus_per_node).items():
                write_whole(self.hints / name, text)


class ValidateOutput(Output):
    """What `validate` shows."""

    worst: Annotated[int, Whole(0), Argument("N")] = 10
    """How many of the runs that are furthest off are listed."""

    def how(self, answer: "Answer") -> dict[str, Any]:
        """How many are listed."""
        return {"worst": self.worst}


def with_json_file(words: Sequence[str]) -> list[str]:
    """`words` in which --json has its file, or "-": only a word that ends in .json is one."""
    found: list[str] = []
    for number, word in enumerate(words):
        found.append(word)
        after = words[number + 1] if number + 1 < len(words) else ""
        if word == "--json" and not (after.endswith(".json") or after == _STDOUT):
            found.append(_STDOUT)
    return found


def _save(path: Path, text: str) -> None:
    from syncwall.documents import write_whole

    write_whole(path, text)
    print(visible(f"wrote {path}"), file=sys.stderr)


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return any(key in file.read(2048) for key in _OURS)


_FIRST_LINE_S: Final = 2.0
_NEXT_LINE_S: Final = 5.0


class Lines:
    """A share that is done, as plain lines: the first after two seconds, then one every five."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.clock = what, clock
        self.started = clock()
        self.due = self.started + _FIRST_LINE_S

    def __call__(self, share: float) -> None:
        """Say, if it is time, which share is done and how long the rest will take."""
        now = self.clock()
        if now < self.due:
            return
        self.due = now + _NEXT_LINE_S
        left_s = (now - self.started) * (1.0 / share - 1.0) if share > 0.0 else 0.0
        left = f"{left_s:.0f} s" if left_s < 100.0 else f"{left_s / 60.0:.0f} min"
        _say(self.what, f"{share:.0%}, about {left} left" if share > 0.0 else "0%")


def _say(what: str, said: str) -> None:
    print(visible(f"{what}: {said}"), file=sys.stderr, flush=True)


@contextmanager
def bar(what: str, *, hidden: bool = False) -> Iterator[Callable[[float], None]]:
    """Shows the share that is done; the work calls what this gives with it."""
    if hidden or not sys.stderr.isatty():
        yield (lambda share: None) if hidden else Lines(what)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=1.0)
        yield lambda share: shown.update(task, completed=share)


@contextmanager
def status(what: str) -> Iterator[Callable[[str], None]]:
    """Shows what is going on, where nobody knows the share; the work calls what this gives."""
    if not sys.stderr.isatty():
        yield lambda said: _say(what, said)
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as shown:
        yield lambda said: shown.update(visible(f"{what}: {said}"))
