"""`syncwall report`: results, runs and jobs as an article.

Holds `report`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.problems import InputError


def report(
    results: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RESULT")],
    /,
    html: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    notes: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
) -> int:
    """Make one article of results, runs and jobs: set-up, tables, plots, and what they say.

    Args:
        results: JSON files that `measure` and `lab run` wrote; run files and job files (YAML),
            which are predicted here.
        html: Write one page here that needs no other file.
        markdown: Write Markdown here, and its pictures beside it as NAME-1.svg, ...
        notes: Add this text (Markdown) at the end, under "Notes".
    """
    from syncwall.cli.progress import bar
    from syncwall.documents import write_whole
    from syncwall.show.report.answered import answered
    from syncwall.show.report.article import article
    from syncwall.show.report.page import markdown as written_as_markdown
    from syncwall.show.report.page import page
    from syncwall.show.report.stated import Stated, read_any

    if not results:
        raise InputError.of("write the results to report: report RESULT ... --html FILE")
    if html is None and markdown is None:
        raise InputError.of("say where to write: --html FILE or --markdown FILE")
    said = _read(notes) if notes else ""
    read = [read_any(path) for path in results]
    with bar("computing") as progress:
        sources = [answered(one, progress) if isinstance(one, Stated) else one for one in read]
    made = article(sources, said)
    if html is not None:
        write_whole(html, page(made))
    if markdown is not None:
        written = written_as_markdown(made, markdown.stem.replace(" ", "-"))
        write_whole(markdown, written.text)
        for name, picture in written.pictures.items():
            write_whole(markdown.with_name(name), picture)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError.of(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise InputError.of("is not UTF-8 text", file=str(path)) from None
