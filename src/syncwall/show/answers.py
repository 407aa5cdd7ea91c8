"""How every answer of the Python interface is shown: the views of the verbs.

Holds `view`, `screen` (text, as a terminal would have it) and `notebook` (HTML). Views are loaded
for the answer that is shown.
"""

from html import escape
from importlib import import_module
from typing import Any, Final

from syncwall.public import Answer
from syncwall.show.blocks import View

_COLUMNS: Final = 100
_FRAME: Final = 'style="width: 100%; height: 40em; border: 0"'
"""A frame keeps the rules of the page and those of the notebook apart."""
_VIEWS: Final = {
    "Prediction": "prediction:prediction_view",
    "Gap": "gap:gap_view",
    "RlPrediction": "rl_and_islands:rl_view",
    "IslandsPrediction": "rl_and_islands:islands_view",
    "Comparison": "compare:comparison_view",
    "Gate": "gate:gate_view",
    "Completion": "job:job_view",
    "CapturedStep": "capture:capture_view",
    "Plan": "layouts:layouts_view",
    "WallPlan": "wall:wall_view",
    "NetworkPlan": "network:network_view",
    "FabricAnswer": "fabric:fabric_view",
    "PlacementAnswer": "placement:placement_view",
    "Explanation": "explanation:explanation_view",
    "Report": "validation:validation_view",
    "Ledger": "prediction:ledger_view",
    "Timeline": "prediction:timeline_view",
}
"""By the name of the answer's type: module and function in `syncwall.show`."""


def view(answer: Answer, **how: Any) -> View:
    """The blocks of an answer; `how` is what the verb's own flags say."""
    found = next(_VIEWS[one.__name__] for one in type(answer).__mro__ if one.__name__ in _VIEWS)
    module, _, name = found.partition(":")
    made: View = getattr(import_module(f"syncwall.show.{module}"), name)(answer, **how)
    return made


def screen(answer: Answer) -> str:
    """The lines of a terminal."""
    from syncwall.show.write.terminal import rendered

    return "\n".join(line.plain.rstrip() for line in rendered(answer.view(), _COLUMNS))


def notebook(answer: Answer) -> str:
    """The page that --html writes, in a frame."""
    from syncwall.show.write.whole_files import page

    found = answer.view()
    title, inside = escape(found.title), escape(page(found))
    return f'<iframe title="{title}" sandbox="allow-scripts" {_FRAME} srcdoc="{inside}"></iframe>'
