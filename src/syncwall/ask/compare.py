"""`compare`: runs, machines, layouts and recorded programs beside each other.

Holds `CompareQuestion`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from syncwall.ask.predict import PredictQuestion
from syncwall.ask.question import Argument, LocalFile, Progress, RunQuestion, quiet
from syncwall.catalogue import catalogue_overlay
from syncwall.describe import Job, Layout, Run, Software
from syncwall.describe.base import Description, part_of
from syncwall.describe.choice import translated
from syncwall.describe.files import RunFile, run_keys
from syncwall.describe.stated import StatedRun, stated_keys
from syncwall.problems import InputError, option, refuse_unknown
from syncwall.report import is_program

if TYPE_CHECKING:
    from syncwall.answer.gate import Gate
    from syncwall.job.job_comparison import Comparison

_OF_RUN: Final = ("model", "cluster", "nodes", "gpus_per_node", "gpus", "seq")
_BATCH: Final = "layout.global_batch"
_BETWEEN: Final = re.compile(r",(?=[\w.-]+=)")
"""Commas before a key; those inside of a value are part of it."""


class CompareQuestion(RunQuestion):
    """Compare runs with the first of them: time, tokens/s, MFU, memory, cost, and where time goes.

    Each is predicted as `predict` does, what all leave open is chosen alike, and the answer says
    whether they can be told apart.

    Exit code 1 if one of them does not fit; with --fail-above if a limit is passed, and 3 if that
    cannot be judged.
    """

    verb = "compare"
    working = "comparing"

    others: Annotated[tuple[LocalFile, ...], Argument("OTHER", positional=True)] = ()
    """Further run files or job files (YAML), or programs that `capture` recorded."""
    against: Annotated[tuple[str | dict[str, Any], ...], Argument("KEY=VALUE,...")] = ()
    """The first run with other values, one word for each further run:
    cluster=gb200-nvl72,gpus=576."""
    tokens: Annotated[Any, Argument("TOKENS", group="job")] = None
    """Tokens to train on (15T): compare whole jobs, too, when they end and what they cost."""
    steps: Annotated[Any, Argument("N", group="job")] = None
    """Optimizer steps, as another way to say how long a job is."""
    job: Annotated[dict[str, Any], Argument(keys_of=Job, elsewhere=("run", "tokens", "steps"))] = Field(
        default_factory=dict
    )
    """The jobs, as in a job file: start 2027-01-01, price, spares 8, ..."""
    fail_above: Annotated[str | None, Argument("LIMITS")] = None
    """Compare two recordings of one program, before and after a change: by how much step, memory and
    waits for communication may grow ("step 2%, memory 1%, exposed 5%"), also on 8 and 1,024 GPUs."""
    best_layout: bool = False
    """Search the best layout of every run; what is stated of a layout stays."""

    def answer(self, progress: Progress = quiet) -> "Comparison | Gate":
        """Each run, predicted, beside the first."""
        from syncwall.job.completion import Completion
        from syncwall.job.job_comparison import comparison

        with catalogue_overlay(self.catalogue):
            asked = self._asked()
            if self.fail_above is not None:
                return self._gate(asked, self.fail_above)
            if len(asked) < 2:
                raise InputError.of(
                    "write two runs: compare A.yaml B.yaml, or one and what is otherwise: "
                    f"{option('against')} cluster=NAME"
                )
            found: list[Any] = []
            searched: list[Run] = []
            for number, one in enumerate(asked, 1):
                if self.best_layout:
                    one, stated = _placed(one)  # noqa: PLW2901
                    searched.append(stated)
                found.append(one.answer())
                progress(number / len(asked))
            jobs = [(one.prediction, one) if isinstance(one, Completion) else (one, None) for one in found]
            answer = comparison(jobs, alike=not self.best_layout)
            pairs = zip(answer.runs, searched, strict=False)
            runs = [replace(one, searched=stated) for one, stated in pairs]
            answer = replace(answer, runs=tuple(runs)) if runs else answer
        clusters = {one.prediction.cluster.name for one in answer.runs}
        if (self.calibration or self.known_run or self.site) and len(clusters) > 1:
            raise InputError.of(
                f"{option('calibration')}, {option('known_run')} and {option('site')} are of one "
                "machine, and these runs are on several: leave them out, or predict each run in "
                "Python and give the answers to sw.compare"
            )
        return answer

    def _gate(self, asked: list[PredictQuestion], limits: str) -> "Gate":
        from syncwall.answer.gate import gate, limits_of

        if len(asked) != 2 or any(one.work is None for one in asked) or self.against or self.best_layout:
            raise InputError.of(
                f"{option('fail_above')} is for two recordings of one program: compare "
                f"base.work.json.gz head.work.json.gz {option('cluster')} dgx-h100"
            )
        before, after = (one.recorded() for one in asked)
        return gate(before, after, limits=limits_of(limits))

    def _asked(self) -> list[PredictQuestion]:
        """The first run, those of other files, and the first with other values."""
        named = isinstance(self.run, Run) or self.run.file.exists or not self.others
        found = [self._question(self.run, {})] if named else []
        others = (replace(self.stated, file=RunFile(path)) for path in self.others)
        found += [self._question(one, {}) for one in others]
        return found + [self._question(self.run, _changes(one)) for one in self.against]

    def _question(self, run: Run | StatedRun, changes: Mapping[str, Any]) -> PredictQuestion:
        machine = {"known_run": self.known_run, "calibration": self.calibration, "site": self.site}
        path = run.file.path if isinstance(run, StatedRun) else None
        if path is not None and isinstance(run, StatedRun) and is_program(path):
            if self.tokens or self.steps or self.job or set(changes) - {"cluster"}:
                raise InputError.of(
                    "a recorded program is compared as it is: of what is otherwise only "
                    "cluster=NAME can be written, and no job",
                    file=str(path),
                )
            here = replace(run, file=RunFile()).with_keys(changes)
            return PredictQuestion(run=here, work=path, **machine)
        if isinstance(run, StatedRun):
            run.file.run(site=True)  # refuses sections, which `predict` alone answers
        job = {key[4:]: value for key, value in changes.items() if key.startswith("job.")}
        own = {key: value for key, value in changes.items() if not key.startswith("job.")}
        return PredictQuestion(
            run=run.with_keys(own) if isinstance(run, StatedRun) else run,
            tokens=self.tokens,
            steps=self.steps,
            job={**self.job, **job},
            **machine,
        )


def _placed(question: PredictQuestion) -> tuple[PredictQuestion, Run]:
    """The question about the best layout of its run, and the run as it was stated."""
    from syncwall.plan.reference import PlanInputs, searched, usual_batch

    if question.work is not None:
        raise InputError.of(f"{option('best_layout')} is for descriptions, not for recorded programs")
    run = question.run
    stated = run if isinstance(run, StatedRun) else StatedRun.of_keys(run_keys(run))
    batch = stated.get(_BATCH)
    if batch is None and stated.has_batch:  # it follows from settings
        batch = stated.run().layout.global_batch
    if batch is None:
        bare = stated.without_layout().run()
        batch, _ = usual_batch(bare.model, bare.seq, bare.gpus)
    known = question.measurements()
    inputs = PlanInputs(stated.with_keys({_BATCH: batch}), known, question.known_site(known))
    layout = run_keys(searched(inputs).run)["layout"]
    del layout["dp"]  # it follows
    found = stated.without_layout().with_keys({"layout": layout})
    return question.model_copy(update={"run": found}), stated.with_keys({_BATCH: None}).run()


def _changes(words: str | Mapping[str, Any]) -> dict[str, Any]:
    """The keys of one --against in full: "tp=4" is layout.tp."""
    if not isinstance(words, str):
        return dict(words)
    known, found = _keys(), {}
    for word in _BETWEEN.split(words):
        key, equals, value = word.partition("=")
        if not equals:
            message = f'"{word}" is not KEY=VALUE: write cluster=gb200-nvl72'
            raise InputError.of(message, key="against")
        key, value = translated(key.strip(), value) or (key, value)
        name = key.strip().removeprefix("--").replace("-", "_")
        refuse_unknown(name, known, f'{option("against")}: unknown key "{key}"')
        found[known[name]] = value
    return stated_keys(found)


@cache
def _keys() -> dict[str, str]:
    """Every key, short and in full, with its full form."""
    found = {name: name for name in _OF_RUN}
    for part, described in (("software", Software), ("layout", Layout), ("job", Job)):
        for name in _names(described, nested=part == "job"):
            found[f"{part}.{name}"] = f"{part}.{name}"
            if part != "job":
                found[name] = f"{part}.{name}"
    return found


def _names(described: type[Description], *, nested: bool) -> Iterator[str]:
    """The keys of a description and, with a dot, those of its parts."""
    for name, one in described.model_fields.items():
        part = part_of(one.annotation) if nested else None
        if part is not None and name != "run":
            yield from (f"{name}.{inner}" for inner in _names(part, nested=True))
        else:
            yield one.alias or name
