"""What a run should be like, as plain data: predicted, or seen in an earlier run.

Holds `expectation`, the one owner of what `--expect`, `watch.start(expect=)` and the variable
SYNCWALL_WATCH_EXPECT mean: a file and flags, in the words of `syncwall predict`. `expected` is the
same for agents, which go on without. `leave` and `left` carry the words from whoever has them to
the agent.
"""

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from syncwall.cause import Cause
from syncwall.problems import InputError
from syncwall.watch.events import OF_A_STEP, Expectation, group_of

if TYPE_CHECKING:
    from syncwall.answer.prediction import Prediction
    from syncwall.cost.measured import MachineMeasurements

_FILE: Final = "expect"
_WATCHED: Final = "watch"
"""The verb whose JSON is an earlier run."""


def expected(words: str) -> tuple[Expectation | None, str]:
    """What the words mean; None and why if that cannot be known."""
    try:
        return expectation(words), ""
    except Exception as error:  # noqa: BLE001 - the run is watched without it
        return None, f"nothing to compare with: {error}"


def expectation(words: str) -> Expectation:
    """What the words mean; InputError if they name nothing.

    A run file, a run file with `measured` (a known run, to which its prediction is anchored), a
    recorded program with --cluster, or the JSON that `syncwall watch` wrote about an earlier run.
    """
    asked = _Words().parse_args(_split(words))
    seen = seen_before(asked.file)
    if seen is not None:
        return _as_before(seen, words)
    return _predicted(_prediction(asked), words)


class _Words(argparse.ArgumentParser):
    """The flags of `syncwall predict` that an expectation takes."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.add_argument("file", type=Path)
        self.add_argument("--cluster")
        self.add_argument("--known-run", type=Path, nargs="+", action="extend", default=[])
        self.add_argument("--calibration", type=Path, nargs="+", action="extend", default=[])

    def error(self, message: str) -> NoReturn:
        raise InputError.of(f"--expect: {message}")


def _split(words: str) -> list[str]:
    """One file whose name has spaces is no list of words."""
    if Path(words).is_file():
        return [words]
    try:
        return shlex.split(words)
    except ValueError as error:
        raise InputError.of(f"--expect: {error}") from None


def _prediction(asked: Any) -> "Prediction":
    """As `syncwall predict` does with the same flags."""
    from syncwall.answer.known import site_of
    from syncwall.answer.prediction import predict
    from syncwall.describe.reading import validated
    from syncwall.describe.run import KnownRun
    from syncwall.describe.stated import StatedRun
    from syncwall.documents import read_document
    from syncwall.read.detect import first_bytes
    from syncwall.read.machine_measured import read_machine_measured
    from syncwall.read.recorded_program import FORMAT

    measured = read_machine_measured(asked.calibration) if asked.calibration else None
    if FORMAT.encode() in first_bytes(asked.file):
        return _of_a_program(asked, measured)
    if asked.cluster is not None:
        raise InputError.of("--expect: --cluster is for a recorded program; a run file names its")
    document, known = read_document(asked.file), asked.known_run
    if isinstance(document.value, dict) and "measured" in document.value:
        site = site_of([asked.file, *known], measured)
        return predict(validated(document, KnownRun), measured=measured, site=site)
    run = StatedRun.of_file(asked.file).run()
    return predict(run, measured=measured, site=site_of(known, measured))


def _of_a_program(asked: Any, measured: "MachineMeasurements | None") -> "Prediction":
    from syncwall.answer.prediction import predict
    from syncwall.describe import lookup
    from syncwall.read.recorded_program import read_program

    if asked.cluster is None:
        raise InputError.of(
            f'--expect: name the machine of the recorded program: "{asked.file} --cluster NAME"'
        )
    if asked.known_run:
        raise InputError.of("--expect: --known-run is for a run file")
    cluster = lookup.cluster(asked.cluster)
    return predict(read_program(asked.file), cluster=cluster, measured=measured)


def _predicted(found: "Prediction", words: str) -> Expectation:
    low_s, high_s = found.step_interval_s
    ledger = {cause: float(found.ledger[cause]) for cause in found.ledger}
    tokens = float(found.work.tokens)
    per_token = float(found.work.model_flops) / tokens if tokens else None
    return Expectation(
        found.step_s,
        low_s,
        high_s,
        ledger,
        words,
        per_token,
        found.peak_flop_per_s,
        int(found.work.gpus),
    )


def seen_before(path: Path) -> dict[str, Any] | None:
    """The answer of an earlier `syncwall watch --json`; None if the file is something else."""
    from syncwall.read.detect import first_bytes
    from syncwall.read.limited import whole_json

    if b'"ledger_s"' not in first_bytes(path):
        return None
    found = whole_json(path.read_bytes(), str(path), "a watched run")
    return found if isinstance(found, dict) and found.get("verb") == _WATCHED else None


def _as_before(seen: dict[str, Any], words: str) -> Expectation:
    """Its steps, checkpoints and evaluations left out; as sure as one run makes of the next."""
    from syncwall.answer.interval import PredictionInterval
    from syncwall.answer.site import deviation_of_repeats

    try:
        spent = {Cause(key): float(spent_s) for key, spent_s in seen["ledger_s"].items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError.of(f"{words}: its ledger is damaged") from None
    ledger = {cause: spent_s for cause, spent_s in spent.items() if group_of(cause) in OF_A_STEP}
    step_s = sum(ledger.values())
    if not step_s:
        raise InputError.of(f"{words}: no step was seen in that run")
    interval = PredictionInterval(deviation_of_repeats(1), None, extrapolating=False)
    return Expectation(step_s, *interval.around(step_s), ledger, words, ranks=seen.get("world"))


def leave_expectation(home: Path, words: str) -> None:
    """Let the agent of a folder find the words; files are named as they are found from here."""
    named = [str(Path(one).absolute()) if Path(one).is_file() else one for one in _split(words)]
    new = home / f"{_FILE}-{os.getpid()}.new"
    new.write_text(shlex.join(named), encoding="utf-8")
    new.rename(home / _FILE)


def left(home: Path) -> str | None:
    """The words that somebody left for the agent of a folder; None so far."""
    try:
        return (home / _FILE).read_text("utf-8")
    except OSError:
        return None
