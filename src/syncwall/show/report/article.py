"""One article of any number of results, runs and jobs.

Holds `article`.
"""

from collections.abc import Sequence
from pathlib import Path

from syncwall.measure.result import Result
from syncwall.show.report.answered import Answered
from syncwall.show.report.blocks import Article, Block, Heading, Notes
from syncwall.show.report.job import job_blocks
from syncwall.show.report.lab import lab_blocks
from syncwall.show.report.reading import LabData, Source
from syncwall.show.report.run import run_blocks, run_title
from syncwall.show.report.sections import measurement_blocks
from syncwall.show.report.setup import machine_blocks

_TITLES = {
    "collectives": "Collectives", "links": "Links between ranks", "matmul": "Kernels",
    "step": "A training step", "lab": "An experiment",
}  # fmt: skip


def article(sources: Sequence[Source | Answered], notes: str = "") -> Article:
    """All `sources`, one after the other; a single one gives the article its title."""
    blocks: list[Block] = []
    for source in sources:
        title = _title(source)
        blocks += [Heading(2, title)] if len(sources) > 1 else []
        blocks += _blocks(source, 2 if len(sources) == 1 else 3)
    if notes.strip():
        blocks += [Heading(2, "Notes"), Notes(notes)]
    title = _title(sources[0]) if len(sources) == 1 else f"{len(sources)} results"
    return Article(title, tuple(blocks))


def _title(source: Source | Answered) -> str:
    if isinstance(source, Answered):
        return run_title(source)
    if isinstance(source.data, LabData):
        asked = source.data.experiment
        return asked.title or asked.name
    return f"{_TITLES[source.result.kind]}: {_what(source.result) or Path(source.file).stem}"


def _what(result: Result) -> str:
    """What ran, where the settings say so."""
    model = result.settings.get("model")
    if isinstance(model, dict) and result.kind == "step":
        return f"{model.get('name', '')} {result.settings.get('shard', '')}".strip()
    return ""


def _blocks(source: Source | Answered, level: int) -> list[Block]:
    if isinstance(source, Answered):
        if source.completion is not None:
            return job_blocks(source, source.completion, level)
        return run_blocks(source, level)
    if isinstance(source.data, LabData):
        return lab_blocks(source.result, source.data, level)
    measured = measurement_blocks(source.data, source.result.job)
    return [*machine_blocks(source.result), *measured]
