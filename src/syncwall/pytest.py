"""Steps of training programs in tests: `assert_step`.

from syncwall.pytest import assert_step

def test_step():
    assert_step("train.work.json.gz", cluster="dgx-h100", at_most="410ms", memory="70GiB")
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from syncwall import units
from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Cluster
from syncwall.read.recorded_program import read_program
from syncwall.show.numbers import duration, gigabytes, percent
from syncwall.units import Dimension
from syncwall.work.program import Program

_LINES = 3


def assert_step(
    program: Program | Path | str,
    *,
    cluster: Cluster | str,
    at_most: float | str | None = None,
    memory: float | str | None = None,
    compiled: bool | None = None,
) -> Prediction:
    """The prediction of a recorded step; AssertionError if it passes a limit, or may pass it.

    `program` is what `syncwall.capture` returned, or a file of `syncwall capture`. `at_most` are
    seconds ("410ms"), `memory` bytes on the fullest GPU ("70GiB"). What of the step is not known may
    take as long again.
    """
    __tracebackhide__ = True
    recorded = program if isinstance(program, Program) else read_program(program)
    found = predict(recorded, cluster=cluster, compiled=compiled)
    faults = []
    if at_most is not None:
        most_s = units.parse(at_most, Dimension.SECONDS) if isinstance(at_most, str) else at_most
        said = f"a step takes {duration(found.step_s)} of {duration(most_s)}"
        if found.step_s > most_s:
            faults += [f"{said} ({found.step_s / most_s - 1.0:+.1%}):", *_largest(found.ledger, duration)]
        elif found.step_s * (1.0 + found.unknown) > most_s:
            faults += [f"{said}, not judged: {found.unknown:.1%} of its work is not known"]
    if memory is not None:
        most = units.parse(memory, Dimension.BYTES) if isinstance(memory, str) else memory
        if found.memory_bytes > most:
            said = f"{gigabytes(found.memory_bytes)} of {gigabytes(most)} on the fullest GPU:"
            faults += [said, *_largest(found.memory_by_cause, gigabytes)]
    if faults:
        what = f"{recorded.command or 'a program'} on {recorded.world_size:,} × {found.cluster.name}:"
        raise AssertionError("\n".join((what, *faults)))
    return found


def _largest(parts: Mapping[Any, float], text: Callable[[float], str]) -> list[str]:
    """The largest parts of a whole, a line each."""
    whole = sum(map(float, parts.values()))
    ordered = sorted(parts.items(), key=lambda pair: (-float(pair[1]), pair[0]))[:_LINES]
    return [f"  {name:20} {text(float(each)):>8} {percent(float(each) / whole):>4}" for name, each in ordered]
