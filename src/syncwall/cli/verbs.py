"""What the command line can do.

Holds `VERBS` and `functions`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final

VERBS: Final = {
    "predict": "how long a step takes, where the time goes, what to change",
    "compare": "runs, machines or layouts side by side, and whether they differ",
    "capture": "one step of your own training script, recorded without a GPU",
    "plan": "which layout, how many GPUs, which network and fabric to take",
    "show": "devices, links, clusters, models and prices of the catalogue",
    "validate": "how far predictions are from published runs",
    "explain": "why a run is slow, from traces, logs and topologies that you have",
    "watch": "a run while it trains: where time goes, which rank hangs or drags",
    "measure": "what links, devices and steps really reach, under torchrun or srun",
    "lab": "real experiments on several hosts made on one Linux machine",
    "serve": "the same as pages in a browser: pictures, sliders, links to share",
    "report": "runs, jobs and results as an article: one HTML page, or Markdown",
    "schema": "what the JSON of a verb holds, for programs that read it",
    "completion": "a script for the Tab key of bash, zsh or fish",
}
"""Every verb with what it does; `syncwall.cli.<verb>` holds a function of that name, imported only
when the verb is called. A verb with parts is a folder: `PARTS` says what each does, and
`syncwall.cli.<verb>.<part>` holds the function."""


def functions() -> dict[str, Callable[..., int]]:
    """The function of every verb and part: "predict", "plan layouts"."""
    found = {}
    for verb in VERBS:
        module = import_module(f"syncwall.cli.{verb}")
        for part in getattr(module, "PARTS", ()):
            inside = import_module(f"syncwall.cli.{verb}.{part}")
            found[f"{verb} {part}"] = getattr(inside, part)
        if not hasattr(module, "PARTS"):
            found[verb] = getattr(module, verb)
    return found
