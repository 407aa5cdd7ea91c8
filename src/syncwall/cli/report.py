"""`syncwall report`: results, runs and jobs as an article.

Holds `report`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from syncwall.ask.question import Argument, LocalFile
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.documents import read_text
from syncwall.problems import InputError, Problem

if TYPE_CHECKING:
    from syncwall.describe import Cluster
    from syncwall.report import Source


class ReportCommand(Command):
    """Make one article of results, runs and jobs: the conclusion, a comparison, all details.

    A terminal shows the conclusion and the comparison; pages have all of it.
    """

    results: Annotated[tuple[LocalFile, ...], Argument("RESULT", positional=True)] = ()
    """JSON files that `measure` and `lab run` wrote; run files, job files (YAML) and programs that
    `capture` recorded, which are predicted here."""
    html: LocalFile | None = None
    """Write one page here that needs no other file."""
    markdown: LocalFile | None = None
    """Write Markdown here, and its pictures beside it as NAME-1.svg, ..."""
    notes: LocalFile | None = None
    """Add this text (Markdown) under "Notes"."""
    allow_busy: bool = False
    """Also take results from a machine that was busy with something else; the article says so
    first."""
    cluster: Annotated[str | None, Argument("NAME")] = None
    """The machine that recorded programs run on."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.cli.output import bar
        from syncwall.report import (
            Answered,
            ReportRequest,
            Source,
            answered_program,
            is_program,
            read_any,
            report_answers,
        )
        from syncwall.show.article import article

        if not self.results:
            raise InputError.of("write the results to report: report RESULT ... --html FILE")
        out = Output(html=self.html, markdown=self.markdown)
        out.check()
        said = read_text(self.notes) if self.notes else ""
        programs = [path for path in self.results if is_program(path)]
        machine = _machine(self.cluster) if programs else None
        read = [read_any(path) for path in self.results if path not in programs]
        if not self.allow_busy:
            _refuse_busy(one for one in read if isinstance(one, Source))
        with bar("computing") as progress:
            sources: list[Source | Answered] = [
                report_answers(one, progress) if isinstance(one, ReportRequest) else one for one in read
            ]
            sources += [answered_program(path, machine) for path in programs if machine is not None]
        out.write_view(article(sources, said))
        return 0


def _machine(name: str | None) -> "Cluster":
    from syncwall.describe import lookup

    if name is None:
        raise InputError.of("write --cluster NAME: the machine that recorded programs run on")
    return lookup.cluster(name)


def _refuse_busy(sources: "Iterable[Source]") -> None:
    """InputError for results of which little can be concluded."""
    from syncwall.report import loads_of
    from syncwall.show.measurement import busy_words

    found = [(one.file, busy_words(loads_of(one.result, one.data))) for one in sources]
    advice = "measure again when it is quiet, or write --allow-busy for an article that warns"
    problems = [Problem(file, 0, 0, f"{busy}; {advice}") for file, busy in found if busy]
    if problems:
        raise InputError(problems)
