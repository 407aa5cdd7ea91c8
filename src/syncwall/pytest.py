"""Steps of training programs in tests: `assert_step`.

from syncwall.pytest import assert_step

def test_step():
    assert_step("train.work.json.gz", cluster="dgx-h100", at_most="410ms", memory="70GiB")
"""

from math import inf
from pathlib import Path

from syncwall import units
from syncwall.answer.prediction import Prediction, predict
from syncwall.describe import Cluster
from syncwall.read.recorded_program import read_program
from syncwall.show.numbers import duration, gigabytes
from syncwall.units import Dimension
from syncwall.work.program import Program

_LINES = 3


def assert_step(
    program: Program | Path | str,
    *,
    cluster: Cluster | str,
    at_most: float | str = inf,
    memory: float | str = inf,
    compiled: bool | None = None,
) -> Prediction:
    """The prediction of a recorded step; AssertionError if it passes a limit, or may pass it.

    `program` is what `syncwall.capture` returned, or a file of `syncwall capture`. `at_most` are
    seconds ("410ms"), `memory` bytes on the fullest GPU ("70GiB"). What is not known may take, or
    need, as much again.
    """
    __tracebackhide__ = True
    recorded = program if isinstance(program, Program) else read_program(program)
    found = predict(recorded, cluster=cluster, compiled=compiled)
    faults = [f"{recorded.command or 'a program'} on {recorded.world_size:,} × {found.cluster.name}:"]
    for what, value, parts, limit, dimension, text in (
        ("a step takes", found.step_s, found.ledger, at_most, Dimension.SECONDS, duration),
        ("needed are", found.memory_bytes, found.memory_by_cause, memory, Dimension.BYTES, gigabytes),
    ):
        most = units.parse(limit, dimension) if isinstance(limit, str) else limit
        if value > most:
            faults.append(f"{what} {text(value)} of {text(most)} ({value / most - 1.0:+.1%}):")
            largest = sorted(parts.items(), key=lambda pair: (-float(pair[1]), pair[0]))[:_LINES]
            faults += [f"  {name:20} {text(part):>8} {part / value:>4.0%}" for name, part in largest]
        elif value * (1.0 + found.unknown) > most:
            unknown = f"{found.unknown:.1%} of the work is not known"
            faults.append(f"{what} {text(value)} of {text(most)}, not judged: {unknown}")
    if len(faults) > 1:
        raise AssertionError("\n".join(faults))
    return found
