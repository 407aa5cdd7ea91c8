"""One article of any number of results, runs and jobs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from syncwall.job.job_comparison import MOST, Comparison, comparison
from syncwall.lab.comparison import predicted_steps
from syncwall.report import Answered, LabResult, Source, measured_steps
from syncwall.show import blocks as show
from syncwall.show.compare import comparison_blocks, comparison_verdict
from syncwall.show.job import job_blocks
from syncwall.show.lab import lab_view, placed_collectives, placed_steps
from syncwall.show.lab_conclusions import conclusion
from syncwall.show.measurement import WARNING, measurement_view
from syncwall.show.prediction import prediction_blocks, prediction_title
from syncwall.show.wall import wall_blocks

_MANY = {
    "collectives": "measurements of collectives",
    "links": "measurements of links",
    "matmul": "measurements of kernels",
    "step": "training steps",
    "lab": "experiments",
}
_Any = Source | Answered


def article(sources: Sequence[_Any], notes: str = "") -> show.View:
    """All `sources`; several are compared first, and then follow one after the other."""
    if len(sources) == 1:
        return _view(sources[0], notes)
    views = _distinct(sources)
    sections: list[show.Block] = [block for view in views for block in _section(view)]
    sections += [show.Heading(2, "Notes"), show.Notes(notes)] if notes.strip() else []
    compare = [show.Heading(2, "Comparison"), *_table(sources, views)]
    top = [*_warnings(views), *_verdict(sources), *show.contents([*compare, *sections])]
    return show.View(_title(sources, views), (*top, *compare), tuple(sections))


def _view(source: _Any, notes: str = "") -> show.View:
    if isinstance(source, Source) and isinstance(source.data, LabResult):
        return lab_view(source.result, notes)
    view = measurement_view(source.result) if isinstance(source, Source) else _computed(source)
    more = (show.Heading(2, "Notes"), show.Notes(notes)) if notes.strip() else ()
    return replace(view, details=(*more, *view.details))


def _distinct(sources: Sequence[_Any]) -> list[show.View]:
    """Their views; those with equal titles are told apart by their files, or else by numbers."""
    views = [_view(source) for source in sources]
    for names in ([Path(one.file).stem for one in sources], map(str, range(1, len(views) + 1))):
        count = Counter(view.title for view in views)
        views = [
            replace(view, title=f"{view.title} ({name})") if count[view.title] > 1 else view
            for view, name in zip(views, names, strict=True)
        ]
    return views


def _title(sources: Sequence[_Any], views: Sequence[show.View]) -> str:
    """What all of them are, or the title that labs share."""
    kinds = {one.result.kind if isinstance(one, Source) else None for one in sources}
    kind = kinds.pop() if len(kinds) == 1 else None
    shared = {_view(one).title for one in sources} if kind == "lab" else set()
    if len(shared) == 1:
        return shared.pop()
    return f"{len(views)} {_MANY[kind]} compared" if kind else f"{len(views)} results"


def _section(view: show.View) -> Iterator[show.Block]:
    """A view under a heading of its own, its headings one level down."""
    yield show.Heading(2, view.title)
    for block in (*view.blocks, *view.details):
        if isinstance(block, show.Heading):
            yield replace(block, level=block.level + 1)
        elif not isinstance(block, show.Contents):
            yield block


def _warnings(views: Sequence[show.View]) -> list[show.Block]:
    found = [
        f"{view.title}: {line}"
        for view in views
        for block in view.blocks
        if isinstance(block, show.Lines) and block.label == WARNING
        for line in block.lines
    ]
    return [show.Lines(WARNING, tuple(found))] if found else []


def _verdict(sources: Sequence[_Any]) -> list[show.Block]:
    """What the steps of all of them say together."""
    predicted = _predictions(sources)
    if predicted is not None:
        return [comparison_verdict(predicted)]
    results = [one for one in sources if isinstance(one, Source)]
    steps = [step for one in results for step in measured_steps(one.result, one.data)]
    records = [r for one in results if isinstance(one.data, LabResult) for r in one.data.records]
    said = conclusion(steps, predicted_steps(records)) if len(steps) > 1 else []
    return [show.Verdict(tuple(said))] if said else []


def _predictions(sources: Sequence[_Any]) -> Comparison | None:
    """What was predicted of all of them, as `syncwall compare` has it; None if any was measured."""
    found = [(one.prediction, one.completion) for one in sources if isinstance(one, Answered)]
    return comparison(found) if len(found) == len(sources) <= MOST else None


def _table(sources: Sequence[_Any], views: Sequence[show.View]) -> list[show.Block]:
    """Runs, or steps or collectives over places, if all are that; or else what each says."""
    predicted = _predictions(sources)
    if predicted is not None:
        return comparison_blocks(predicted)
    found = [(one.result, one.data) for one in sources if isinstance(one, Source)]
    if len(found) == len(sources):
        by_source = [measured_steps(*one) for one in found]
        placed = placed_steps([step for steps in by_source for step in steps])
        alike = placed if all(by_source) else [] if any(by_source) else placed_collectives(found)
        if alike:
            return alike
    said = ([one.lines for one in view.blocks if isinstance(one, show.Verdict)] for view in views)
    rows = [(view.title, " ".join(lines[0])) for view, lines in zip(views, said, strict=True)]
    return show.table(("result", "what it says"), rows, words=2)


def _computed(answered: Answered) -> show.View:
    """A run, a program, or a job and its step; how far it scales, and how to repeat it."""
    prediction, fixed = answered.prediction, "It cannot be spread further"
    title, file = prediction_title(prediction), quote(answered.file)
    commands = f"syncwall predict {file} --explain-assumptions\nsyncwall report {file} --html report.html"
    said: list[show.Block] = [
        show.Paragraph(f"The file {answered.file}:"),
        show.Code(answered.text.strip("\n")),
        show.Paragraph("Commands that give these answers:"),
    ]
    if prediction.is_recorded:
        fixed, said = "Its number of ranks is fixed", []
        work = f"--work {file} --cluster {prediction.cluster.name}"
        commands = f"syncwall predict {work}\nsyncwall plan wall {work}"
    blocks: list[show.Block] = []
    if answered.completion is not None:
        title += ", until it is done"
        job = job_blocks(answered.completion, answered.changes, assumptions=True)
        blocks += [*job, show.Heading(2, "The step")]
    blocks += prediction_blocks(prediction, answered.proposals, assumptions=True)
    blocks.append(show.Heading(2, "How far it scales"))
    if answered.wall is None:
        blocks.append(show.Paragraph(f"{fixed}: {answered.no_wall}."))
    else:
        blocks += wall_blocks(answered.wall, answered.start)
    repeat = [show.Heading(2, "To repeat it"), *said, show.Code(commands)]
    first, *rest = blocks
    return show.View(title, (first, *show.contents([*rest, *repeat]), *rest), tuple(repeat))
