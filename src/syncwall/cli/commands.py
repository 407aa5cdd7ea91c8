"""What the command line can do.

Holds `DOES`, `PARTS`, `as_flag` and `types_of`: the question of a verb with what it writes, or its
command, loaded when the verb is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from syncwall.ask.verbs import VERBS, question_type

if TYPE_CHECKING:
    from syncwall.describe.base import Description

DOES: Final = {
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
"""Every verb with what it does."""
PARTS: Final = {
    "plan": {
        "layouts": "the fastest, cheapest or smallest layouts of a model on a cluster",
        "wall": "how far a run scales, what stops it, what moves the wall",
        "network": "the slowest network on which a run stays efficient",
        "fabric": "switches, cables and failures of a fabric, its effect on a run",
        "placement": "nodes and rank order of several jobs on one fabric",
    },
    "measure": {
        "collectives": "time of all-reduce and the others over sizes, with bus bandwidth",
        "links": "rate between every pair of ranks; the slow one is named",
        "matmul": "rate of matrix multiplications and other kernels of a step",
        "step": "a real DDP or FSDP2 training step, with its ledger",
        "calibration": "results as one file for `predict --calibration`",
        "node": "one node in minutes, as one file for `predict --site`",
    },
    "lab": {
        "up": "make the hosts and links of an experiment",
        "run": "run an experiment for real, and compare with predictions",
        "down": "remove hosts and links",
        "list": "labs that exist now",
    },
}
"""Verbs with parts, and what each part does."""
_OUTPUTS: Final = {
    "predict": "PredictOutput",
    "compare": "CompareOutput",
    "plan layouts": "LayoutsOutput",
    "plan wall": "WallOutput",
    "plan fabric": "FabricOutput",
    "plan placement": "PlacementOutput",
    "validate": "ValidateOutput",
}
"""What answers of a verb are written by, in `cli.output`, where that is more than `Output`."""


_MODULES: Final = {"measure node": "measure_node"}
"""Where a command stands if not in the file of its verb."""


def as_flag(key: str) -> str:
    """A key of a question or of a run as its flag: `--layout.global-batch`."""
    return f"--{key.removeprefix('run.').replace('_', '-')}"


def commands() -> list[str]:
    """Every verb, and of a verb with parts every part: "predict", "plan layouts"."""
    return [f"{verb} {part}".strip() for verb in DOES for part in PARTS.get(verb, ("",))]


def types_of(command: str) -> "tuple[type[Description], ...]":
    """What the flags of a command fill in: a question and its output, or a command itself."""
    if command in VERBS:
        outputs = import_module("syncwall.cli.output")
        return question_type(command), getattr(outputs, _OUTPUTS.get(command, "Output"))
    words = command.split()
    name = "".join(word.capitalize() for word in words) + "Command"
    module = _MODULES.get(command, words[0])
    return (getattr(import_module(f"syncwall.cli.{module}"), name),)
