"""The one front end of bench: `python -m bench TOOL [PART] [options]`.

`TOOLS` lists every tool with its parts. A part is a function: its parameters are the flags, its
docstring is the help, what it returns is the exit code. Adding one is a line here. The module of a
part is loaded when the part is asked for, and nothing is computed or written before its flags are
read.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import cleandoc
from typing import Any

import tyro

TOOLS: dict[str, dict[str, tuple[str, str]]] = {
    "accuracy": {
        "": ("accuracy.gate:accuracy", "errors on published runs; --check is the gate of CI"),
        "ranking": ("accuracy.ranking:ranking", "whether layouts rank as measured; --check"),
        "collectives": ("accuracy.collectives:collectives", "times of collectives"),
        "site": ("accuracy.site:site", "larger runs of sources, known on one node alone"),
        "gaps": ("accuracy.gaps:gaps", "hidden causes of slow runs among the first suspects"),
        "stacks": ("accuracy.published:stacks", "models that are no transformers"),
        "layouts": ("accuracy.published:layouts", "published layouts beside the best ones"),
        "benchmarks": ("accuracy.explained:benchmarks", "nccl-tests judged, healthy and faulty"),
        "days": ("accuracy.explained:days", "changes named on the steps of real traces"),
        "ranks": ("accuracy.explained:ranks", "one slow rank among a thousand in traces"),
        "capture": ("accuracy.capture:agreement", "recorded programs beside descriptions; --check"),
        "torchtitan": ("accuracy.capture:torchtitan", "published runs as a script; --check"),
        "recorded": ("accuracy.recorded:together", "recorded programs beside real runs; --check"),
        "throughputs": ("accuracy.throughputs:throughputs", "published ones of public programs"),
        "steps": ("accuracy.steps:steps", "real steps beside recorded ones, on this machine"),
        "contention": ("accuracy.contention:contention", "real flows on shared links (root)"),
    },
    "oncall": {
        "": ("tests.oncall.score:oncall", "what explain says of on-call cases, beside their answers"),
    },
    "gate": {
        "": ("accuracy.changes:changes", "changes of training programs: known ones flagged, others silent"),
    },
    "decisions": {
        "": ("accuracy.decisions:decisions", "regret of what is chosen and recommended"),
    },
    "programs": {
        "": ("accuracy.programs:programs", "public training programs under capture, as they are"),
    },
    "fit": {
        "kernels": ("fit.kernels:fit", "multiplication and attention, per device; --check"),
        "collectives": ("fit.collectives:fit", "collectives, per device and network; --check"),
        "training": ("fit.training:fit", "constants that training runs decide; --check"),
        "residuals": ("fit.intervals:fit_residuals", "errors behind the intervals; --check"),
        "widths": ("fit.intervals:fit_widths", "widths of the intervals; --check"),
        "pairs": ("fit.pairs:fit_pairs", "error that two predictions share; --check"),
        "register": ("fit.register:register", "first predictions of unseen sources; --check"),
        "unsaid": ("fit.unsaid:fit", "what is usual where a source does not say; --check"),
        "sites": ("fit.sites:fit_sites", "how much sites differ; --check"),
        "stalls": ("fit.stalls:fit", "how often runs stall; --check"),
        "nodes": ("fit.sites:fit_nodes", "how much nodes differ"),
    },
    "scale": {
        "layouts": ("scale.speed:layouts", "layouts a second through all rules"),
        "predictions": ("scale.speed:predictions", "predictions a second in arrays"),
        "search": ("scale.speed:search", "the whole space of GPT-3 on 1,024 GPUs"),
        "jobs": ("scale.speed:jobs", "10,000 simulated jobs"),
        "links": ("scale.speed:links", "shared links of 102,400 GPUs"),
        "serve": ("scale.serve:serve", "many people at once on `syncwall serve`"),
        "connections": ("scale.serve:connections", "visitors who mean harm"),
        "pages": ("docs.pictures:weight", "bytes and first paint of every page"),
        "watch": ("scale.watch:watch", "overhead, deaths, hangs, stragglers ... of real jobs"),
        "faults": ("scale.faults:faults", "faults told by watch and by TraceML, side by side"),
        "expected": ("scale.watch:expected", "live runs slower than an earlier one"),
        "life": ("scale.watch:life", "goodput over three kills and restarts"),
        "curve": ("scale.curve:curve", "spikes of a loss told from noise"),
        "rounds": ("scale.rounds:rounds", "one round of judging at 10,000 nodes"),
        "relay": ("scale.rounds:relay", "what relaying costs the first node"),
        "lab-rates": ("tests.lab.rates:rates", "what a link of a lab gives (root)"),
        "lab-cycles": ("tests.lab.cycles:cycles", "whether labs leave anything behind (root)"),
    },
    "docs": {
        "schemas": ("docs.pages:schemas", "docs/schemas; --release promises them"),
        "glossary": ("docs.pages:glossary", "docs/reference/glossary.md"),
        "licences": ("docs.pages:licences", "docs/reference/data-licences.md"),
        "assumed": ("docs.pages:assumed", "docs/reference/assumed-numbers.md"),
        "replays": ("docs.replays:replays", "docs/explanation/replays.md"),
        "programs": ("accuracy.programs:page", "docs/reference/programs.md"),
        "accuracy": ("docs.pages:accuracy", "what the Accuracy page of the program shows"),
        "refresh": ("docs.pages:refresh", "what commands print today, on all pages"),
        "screenshots": ("docs.pictures:screenshots", "docs/images/serve-*.png"),
        "tour": ("docs.pictures:tour", "docs/images/tour.gif"),
    },
    "fuzz": {
        "descriptions": ("tests.fuzz.descriptions:descriptions", "runs and jobs that nobody means"),
        "readers": ("tests.fuzz.readers:readers", "damaged files"),
        "hostile": ("tests.fuzz.readers:hostile", "files made to cost time and memory"),
    },
    "mutants": {
        "": ("mutants:mutants", "whether the tests notice a wrong formula (weekly in CI)"),
    },
}
"""By tool and part ("" without one): where its function stands, and what it does."""


def overview(*tools: str) -> str:
    calls = [(f"{name} {part}".strip(), TOOLS[name][part][1]) for name in tools for part in TOOLS[name]]
    return "\n".join(f"  python -m bench {call:22} {does}" for call, does in calls)


def function_of(tool: str, part: str) -> Callable[..., int | None]:
    module, _, name = TOOLS[tool][part][0].partition(":")
    found: Callable[..., int | None] = getattr(
        import_module(module if module.startswith("tests.") else f"bench.{module}"), name
    )
    return found


def main(words: list[str]) -> int:
    """Exit code: 0 done, 1 the answer is no, 2 the call is wrong."""
    tool, *rest = words or ["--help"]
    asks = ("-h", "--help")
    if tool not in TOOLS:
        wrong = tool not in asks
        said = f"there is no {tool!r}; " if wrong else ""
        print(f"{said}usage: python -m bench TOOL [PART] [--help]\n{overview(*TOOLS)}")
        return 2 * wrong
    part = rest.pop(0) if rest[:1] and rest[0] in TOOLS[tool] else ""
    if part not in TOOLS[tool]:
        print(f"usage: python -m bench {tool} PART [--help]\n{overview(tool)}")
        return 0 if rest[:1] and rest[0] in asks else 2
    function = function_of(tool, part)
    text = cleandoc(function.__doc__ or "").partition("\nArgs:")[0]
    if not part and len(TOOLS[tool]) > 1:
        text += f"\n\nOther parts:\n{overview(tool)}"
    how: dict[str, Any] = {"args": rest, "prog": f"python -m bench {tool} {part}".strip()}
    found = tyro.cli(function, description=text, config=(tyro.conf.FlagCreatePairsOff,), **how)
    return found or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
