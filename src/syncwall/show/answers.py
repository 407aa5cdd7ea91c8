"""How every answer of the Python interface is shown: the views and records of the verbs.

Holds `screen` (text, as a terminal would have it), `notebook` (HTML) and `data` (what `--json`
writes); `rl_shown` and `islands_shown` for the verb, too. Views and records are loaded for the
answer that is shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from syncwall.catalogue import searched_first
from syncwall.public import Answer
from syncwall.show.blocks import View

_COLUMNS: Final = 100
_FRAME: Final = 'style="width: 100%; height: 40em; border: 0"'
"""A frame keeps the rules of the page and those of the notebook apart."""


@dataclass(frozen=True)
class Shown:
    """One answer for people and for programs."""

    view: Callable[[], View]
    record: Callable[[], Mapping[str, Any]]
    verb: str = ""
    """Whose answer it is; empty for a part of one."""


def screen(answer: Answer) -> str:
    """The lines of a terminal."""
    from syncwall.show.write.terminal import rendered

    return "\n".join(line.plain.rstrip() for line in rendered(_shown(answer).view(), _COLUMNS))


def notebook(answer: Answer) -> str:
    """The page that --html writes, in a frame."""
    from syncwall.show.write.html import page

    view = _shown(answer).view()
    title, inside = escape(view.title), escape(page(view))
    return f'<iframe title="{title}" sandbox="allow-scripts" {_FRAME} srcdoc="{inside}"></iframe>'


def data(answer: Answer) -> dict[str, Any]:
    """Plain data, quantities in SI units."""
    from syncwall.show.records.interface import json_data, plain

    shown = _shown(answer)
    record = shown.record()
    return json_data(shown.verb, record) if shown.verb else dict(plain(record))


def _shown(answer: Answer) -> Shown:
    return next(_HOW[one.__name__](answer) for one in type(answer).__mro__ if one.__name__ in _HOW)


def _prediction(found: Any) -> Shown:
    from syncwall.answer.improvements import improvements
    from syncwall.show.records.prediction import prediction_record
    from syncwall.show.views.prediction import prediction_view

    proposals = improvements(found)
    return Shown(
        lambda: prediction_view(found, proposals),
        lambda: prediction_record(found, proposals),
        "predict",
    )


def _gap(found: Any) -> Shown:
    from syncwall.show.records.gap import gap_record
    from syncwall.show.views.gap import gap_view

    return Shown(lambda: gap_view(found), lambda: gap_record(found))


def _program_prediction(found: Any) -> Shown:
    from syncwall.answer.program_changes import program_changes
    from syncwall.show.records.program import program_record
    from syncwall.show.views.program import program_view

    with searched_first(found.pricing.catalogue):
        changes = program_changes(found)
    return Shown(
        lambda: program_view(found, changes),
        lambda: program_record(found, changes),
        "predict work",
    )


def rl_shown(found: Any, *, assumptions: bool = False) -> Shown:
    """A step of reinforcement learning; `assumptions` lists all that is taken for granted."""
    from syncwall.show.records.rl import rl_record
    from syncwall.show.views.rl import rl_view

    return Shown(
        lambda: rl_view(found, assumptions=assumptions), lambda: rl_record(found), "predict rl"
    )


def islands_shown(found: Any, *, assumptions: bool = False) -> Shown:
    """Islands that meet seldom; `assumptions` as above."""
    from syncwall.show.records.islands import islands_record
    from syncwall.show.views.islands import islands_view

    return Shown(
        lambda: islands_view(found, assumptions=assumptions),
        lambda: islands_record(found),
        "predict islands",
    )


def _comparison(found: Any) -> Shown:
    from syncwall.show.records.compare import comparison_record
    from syncwall.show.views.compare import comparison_view

    return Shown(lambda: comparison_view(found), lambda: comparison_record(found), "compare")


def _completion(found: Any) -> Shown:
    from syncwall.answer.improvements import improvements
    from syncwall.job.changes import changes
    from syncwall.show.records.job import job_record
    from syncwall.show.records.prediction import prediction_record
    from syncwall.show.views.job import job_view

    prediction = found.prediction
    with searched_first(prediction.pricing.catalogue):
        proposals, others = improvements(prediction), changes(found)
    return Shown(
        lambda: job_view(found, others),
        lambda: prediction_record(prediction, proposals, job_record(found, others)),
        "predict",
    )


def _program(found: Any) -> Shown:
    from syncwall.show.records.capture import capture_record
    from syncwall.show.views.capture import capture_view

    return Shown(lambda: capture_view(found), lambda: capture_record(found), "capture")


def _layouts(found: Any) -> Shown:
    from syncwall.plan.answer import Plan
    from syncwall.show.records.layouts import layouts_record
    from syncwall.show.views.layouts import layouts_view

    with searched_first(found.pricing.catalogue):
        plan = Plan.of(found, found.best())
    return Shown(lambda: layouts_view(plan), lambda: layouts_record(plan), "plan layouts")


def _wall(found: Any) -> Shown:
    from syncwall.show.records.wall import wall_record
    from syncwall.show.views.wall import wall_view

    return Shown(
        lambda: wall_view(found.wall, found.start),
        lambda: wall_record(found.wall, found.start),
        "plan wall",
    )


def _network(found: Any) -> Shown:
    from syncwall.show.records.network import network_record
    from syncwall.show.views.network import network_view

    return Shown(
        lambda: network_view(found.counts, found.start),
        lambda: network_record(found.counts, found.start),
        "plan network",
    )


def _program_wall(found: Any) -> Shown:
    from syncwall.show.records.program_plan import program_wall_record
    from syncwall.show.views.program_plan import program_wall_view

    return Shown(
        lambda: program_wall_view(found), lambda: program_wall_record(found), "plan wall work"
    )


def _program_network(found: Any) -> Shown:
    from syncwall.show.records.program_plan import program_network_record
    from syncwall.show.views.program_plan import program_network_view

    return Shown(
        lambda: program_network_view(found),
        lambda: program_network_record(found),
        "plan network work",
    )


def _fabric(found: Any) -> Shown:
    from syncwall.show.records.fabric import fabrics_record
    from syncwall.show.views.fabric import fabric_view

    return Shown(lambda: fabric_view(found), lambda: fabrics_record(found), "plan fabric")


def _placement(found: Any) -> Shown:
    from syncwall.show.records.placement import placement_record
    from syncwall.show.views.placement import placement_view

    return Shown(lambda: placement_view(found), lambda: placement_record(found), "plan placement")


def _explanation(found: Any) -> Shown:
    from syncwall.show.records.explanation import explanation_record
    from syncwall.show.views.explanation import explanation_view

    return Shown(lambda: explanation_view(found), lambda: explanation_record(found), "explain")


def _report(found: Any) -> Shown:
    from syncwall.show.records.validation import validation_record
    from syncwall.show.views.validation import validation_view

    return Shown(lambda: validation_view(found), lambda: validation_record(found), "validate")


def _ledger(found: Any) -> Shown:
    from syncwall.show.blocks import ledger

    block = ledger("where the time goes", found, least=0.0, total="all")
    return Shown(lambda: View("Where the time goes", (block,)), lambda: found)


def _timeline(found: Any) -> Shown:
    from syncwall.show.views.prediction import timeline_figures

    return Shown(lambda: View(found.title, tuple(timeline_figures(found))), found.trace)


_HOW: Final[dict[str, Callable[[Any], Shown]]] = {
    "Prediction": _prediction,
    "Gap": _gap,
    "ProgramPrediction": _program_prediction,
    "RlPrediction": rl_shown,
    "IslandsPrediction": islands_shown,
    "Comparison": _comparison,
    "Completion": _completion,
    "Program": _program,
    "SearchResult": _layouts,
    "WallPlan": _wall,
    "NetworkPlan": _network,
    "ProgramWall": _program_wall,
    "ProgramNetwork": _program_network,
    "FabricAnswer": _fabric,
    "PlacementAnswer": _placement,
    "Explanation": _explanation,
    "Report": _report,
    "Ledger": _ledger,
    "Timeline": _timeline,
}
"""By the name of the answer's type."""
