"""Published throughputs of public programs beside predictions of their recordings."""

import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import syncwall as sw
from bench import ROOT, Names
from bench.accuracy.recorded import checked_out
from syncwall.answer.interval import Z80
from syncwall.capture.script import Script, record_script
from syncwall.describe import lookup
from syncwall.documents import read_document
from syncwall.problems import InputError
from syncwall.work.program import Program

FIGURES: Final = ROOT / "bench" / "accuracy" / "throughputs.yaml"
SCRIPT: Final = ROOT / "bench" / "accuracy" / "public_programs.py"
MOST: Final = 0.15
_NOT_RECORDED: Final = ("measured", "unit", "compiled", "cluster")


@dataclass(frozen=True)
class Figure:
    program: str
    settings: dict[str, Any]

    @property
    def measured_s(self) -> float:
        """Seconds of a step."""
        one, unit = self.settings, self.settings.get("unit", "samples/s")
        if unit == "ms":
            return float(one["measured"]) / 1e3
        samples = one["batch"] * one["gpus"] * one.get("accumulate", 1)
        return float(samples * (one["length"] if unit == "tokens/s" else 1) / one["measured"])

    @property
    def recorded(self) -> dict[str, Any]:
        """What the recording depends on."""
        kept = {key: value for key, value in self.settings.items() if key not in _NOT_RECORDED}
        return {"program": self.program, **kept}

    @property
    def name(self) -> str:
        keys = ("model", "size", "length", "gpus", "precision")
        words = [str(self.settings[key]) for key in keys if key in self.settings]
        return " ".join([*words, "compiled" if self.settings["compiled"] else ""]).strip()


@dataclass(frozen=True)
class Outcome:
    figure: Figure
    ratio: float
    """Predicted over measured."""
    low: float
    high: float
    """The interval over the prediction."""
    unknown: float = 0.0
    """Half-width that the recording itself adds, in deviations."""

    @property
    def is_covered(self) -> bool:
        return self.low <= 1.0 / self.ratio <= self.high


def figures(program: dict[str, Any]) -> list[Figure]:
    shared = {"cluster": program.get("cluster"), **program["all"]}
    found = []
    for own in program["figures"]:
        settings = shared | own
        if "config" in settings:
            settings["config"] = program["configs"][settings["config"]]
        found.append(Figure(program["program"], settings))
    return found


def outcomes(program: dict[str, Any], mirrors: Path) -> Iterator[Outcome | str]:
    """Errors of a program's figures; a sentence where it cannot be recorded."""
    kept: dict[str, Program] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "repository" in program:
            parts = program["repository"], program["commit"], program.get("folder", "")
            folder = stack.enter_context(checked_out(mirrors, *parts))
        for figure in figures(program):
            words = json.dumps(figure.recorded | {"folder": str(folder)})
            try:
                if words not in kept:
                    script = Script(str(SCRIPT), (words,))
                    kept[words] = record_script(script, world_size=figure.settings["gpus"])
                yield outcome(figure, kept[words])
            except InputError as error:
                yield f"{figure.name}: {error}"


def outcome(figure: Figure, program: Program) -> Outcome:
    cluster = lookup.cluster(figure.settings["cluster"])
    answer = sw.predict(program, cluster=cluster, compiled=figure.settings["compiled"])
    step_s = float(answer.step_s)
    low, high = (bound / step_s for bound in answer.interval.around(step_s))
    return Outcome(figure, step_s / figure.measured_s, low, high, answer.unknown)


def throughputs(mirrors: Path, names: Names = (), keep: Path | None = None, check: bool = False) -> int:
    """Published throughputs of public programs beside their recordings.

    Records each program of bench/accuracy/throughputs.yaml in its own code with the settings that
    were published, and predicts it on the machine that was. Prints errors, how many are in the
    interval, and how wide it should be: the error that 80% do not exceed, and what that covers of a
    program when it is left out itself.

    Args:
        mirrors: A folder with clones of the programs, as OWNER/NAME; packages are those installed.
        names: Programs; all if none are named.
        keep: A file for what was found, one line each.
        check: Fail if the mean error is above 15%.
    """
    found: list[Outcome] = []
    for program in read_document(FIGURES).value:
        if names and program["program"] not in names:
            continue
        print(program["program"], flush=True)
        for one in outcomes(program, mirrors):
            if isinstance(one, str):
                print(f"  {one}", flush=True)
                continue
            found.append(one)
            print(
                f"  {one.figure.name:50} {one.ratio - 1:+7.1%}  {'' if one.is_covered else 'outside'}",
                flush=True,
            )
            if keep:
                line = {"program": one.figure.program, "ratio": one.ratio, "unknown": one.unknown}
                with keep.open("a") as stream:
                    print(json.dumps(line), file=stream)
    if not found:
        return 1
    mean = statistics.mean(abs(one.ratio - 1) for one in found)
    covered = statistics.mean(one.is_covered for one in found)
    print(f"{len(found)} figures of {len({one.figure.program for one in found})} programs: ")
    print(f"mean error {mean:.1%}, {covered:.0%} covered")
    print_widths(found)
    return int(check and mean > MOST)


def print_widths(found: list[Outcome]) -> None:
    """How wide the interval should be, and what that covers of programs that were left out."""
    programs = {one.figure.program for one in found}
    for alike, title in ((False, "figures"), (True, "programs")):
        learned = deviation_of(found, alike)
        covered = []
        for program in programs if len(programs) > 1 else ():
            others = [one for one in found if one.figure.program != program]
            most = Z80 * deviation_of(others, alike)
            covered += [error_of(one) <= most for one in found if one.figure.program == program]
        share = f"; learned without each program in turn: {statistics.mean(covered):.0%} covered"
        print(f"{title} counted the same: deviation {learned:.2f}{share * bool(covered)}")


def error_of(one: Outcome) -> float:
    """Of the logarithm, beyond what the recording says that it does not know."""
    return max(abs(math.log(one.ratio)) - Z80 * one.unknown, 0.0)


def deviation_of(found: list[Outcome], programs_alike: bool) -> float:
    """Of a normal distribution whose middle 80% has as many of the errors."""
    counts = Counter(one.figure.program for one in found)
    errors = np.array([error_of(one) for one in found])
    weights = np.array([1.0 / counts[one.figure.program] if programs_alike else 1.0 for one in found])
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][int(np.searchsorted(reached, 0.8 - 1e-9))] / Z80)
