"""`syncwall compare`: runs, machines, layouts and recorded programs beside each other.

Holds `compare`.
"""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.predict import JobFlags, stated_job
from syncwall.cli.run_flags import LayoutFlags, RunFlags, SoftwareFlags, Whose
from syncwall.problems import InputError, refuse_unknown

if TYPE_CHECKING:
    from syncwall.answer import Prediction
    from syncwall.answer.program import ProgramPrediction
    from syncwall.job.completion import Completion

_OF_RUN: Final = ("model", "cluster", "nodes", "gpus_per_node", "gpus", "seq")
_BETWEEN: Final = re.compile(r",(?=[\w.-]+=)")
"""Commas before a key; those inside of a value are part of it."""
_EITHER: Final = {"nodes": "gpus", "gpus": "nodes"}


def compare(  # noqa: PLR0913, PLR0917 - the flags of the verb
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    others: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="OTHER")] = (),
    against: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE,...")] = (),
    tokens: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    steps: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    job: JobFlags = JobFlags(),  # noqa: B008
    out: Output = OutputFlags(),  # noqa: B008
) -> int:
    """Compare runs with the first of them: time, tokens/s, MFU, memory, cost, and where time goes.

    Each is predicted as `predict` does, and the answer says whether they can be told apart.

    Exit code 1 if one of them does not fit.

    Args:
        whose: The first run; flags hold for all of them.
        others: Further run files or job files (YAML), or programs that `capture` recorded.
        against: The first run with other values, one word for each further run:
            cluster=gb200-nvl72,gpus=576.
        tokens: Tokens to train on (15T): compare whole jobs, too, when they end and what they cost.
        steps: Optimizer steps, as another way to say how long a job is.
        job: The jobs, as in a job file: start 2027-01-01, price, spares 8, ...
        out: Where the answer goes.
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.job.compare import comparison

    out.check()
    files: list[Path | None] = [path for path in (whose.file, *others) if path is not None]
    asked: list[tuple[Path | None, dict[str, str]]] = [(file, {}) for file in files or [None]]
    asked += [(asked[0][0], _changes(words)) for words in against]
    if len(asked) < 2:
        raise InputError.of(
            "write two runs: compare A.yaml B.yaml, or one and what is otherwise: "
            "--against cluster=NAME"
        )
    length = stated_job(job, tokens, steps)
    with searched_first(whose.catalogue), bar("comparing") as progress:
        found = []
        for number, (file, changes) in enumerate(asked):
            found.append(_answered(replace(whose, file=file), changes, length))
            progress((number + 1) / len(asked))
        _refuse_measured_elsewhere(whose, [one[0].cluster.name for one in found])
        answer = comparison(found)
        out.write(answer)
    return 0 if answer.fits else 1


def _answered(
    whose: RunFlags, changes: dict[str, str], length: dict[str, str]
) -> "tuple[Prediction | ProgramPrediction, Completion | None]":
    """One of the runs, predicted with the flags and with its own changes."""
    from syncwall.answer import predict
    from syncwall.describe.job_file import job_with
    from syncwall.describe.overrides import run_with
    from syncwall.job.compare import answered_job
    from syncwall.report.programs import is_program

    if whose.file is not None and is_program(whose.file):
        return _program(whose, changes, length), None
    settings = whose.settings()
    whose.check(settings)
    stated = {key: text for key, text in whose.stated.items() if _EITHER.get(key) not in changes}
    own = {key: text for key, text in changes.items() if not key.startswith("job.")}
    run = run_with(whose.file, stated | own, settings)
    jobs = {key[4:]: text for key, text in changes.items() if key.startswith("job.")}
    known = whose.measured()
    prediction = predict(run, site=whose.site(known), measured=known)
    return answered_job(run, job_with(run, whose.file, length | jobs), prediction)


def _program(
    whose: RunFlags, changes: dict[str, str], length: dict[str, str]
) -> "ProgramPrediction":
    """A recorded program on the cluster that is named."""
    from syncwall.answer import predict
    from syncwall.cli.work_flags import WorkFlags

    if length or set(changes) - {"cluster"}:
        raise InputError.of(
            "a recorded program is compared as it is: of what is otherwise only cluster=NAME can "
            "be written, and no job",
            file=str(whose.file),
        )
    machine = replace(whose, cluster=changes.get("cluster", whose.cluster), file=None)
    found = WorkFlags(work=whose.file).recorded(machine)
    return predict(
        found.program, cluster=found.cluster, software=found.software, measured=found.measured
    )


def _changes(words: str) -> dict[str, str]:
    """The keys of one --against in full: "tp=4" is layout.tp."""
    found = {}
    for word in _BETWEEN.split(words):
        key, equals, value = word.partition("=")
        if not equals:
            raise InputError.of(f'--against: "{word}" is not KEY=VALUE: write cluster=gb200-nvl72')
        name = key.strip().removeprefix("--").replace("-", "_")
        in_full = dict(_keys())
        refuse_unknown(name, in_full, f'--against: unknown key "{key}"')
        found[in_full[name]] = value
    return found


def _keys() -> Iterator[tuple[str, str]]:
    """Every key, short and in full, with its full form."""
    yield from ((name, name) for name in _OF_RUN)
    for part, flags in (("software", SoftwareFlags), ("layout", LayoutFlags), ("job", JobFlags)):
        for name in _names(flags()):
            yield f"{part}.{name}", f"{part}.{name}"
            if part != "job":
                yield name, f"{part}.{name}"


def _names(flags: Any) -> Iterator[str]:
    """The keys of a description and, with a dot, those of its parts."""
    for one in fields(flags):
        value = getattr(flags, one.name)
        if is_dataclass(value):
            yield from (f"{one.name}.{name}" for name in _names(value))
        else:
            yield one.name


def _refuse_measured_elsewhere(whose: RunFlags, clusters: list[str]) -> None:
    """What was measured on one machine says nothing of another one."""
    if (whose.calibration or whose.known_run) and len(set(clusters)) > 1:
        raise InputError.of(
            "--calibration and --known-run are of one machine, and these runs are on several: "
            "leave them out, or predict each run in Python and give the answers to sw.compare"
        )
