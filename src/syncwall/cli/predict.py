"""`syncwall predict`: one training step, priced, placed in time, explained; or a whole job.

Holds `predict`. `JobFlags` and `stated_job`: the flags with which `predict` takes a job: every key
of a job file, as text.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from syncwall.cli.fabric_flags import FabricFlags, Fabrics
from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.predict_around import predict_around, section_asked
from syncwall.cli.run_flags import RunFlags, Whose, as_flags, stated
from syncwall.cli.work_flags import WorkFlags, Works
from syncwall.describe import Job
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.describe import Run
    from syncwall.show.blocks import View
    from syncwall.show.records.prediction import PredictRecord

JobFlags: Any = as_flags("JobFlags", Job, elsewhere=("run", "tokens", "steps"))


def stated_job(job: Any, tokens: str | None, steps: str | None) -> dict[str, str]:
    """The flags that were given, by their names ("tokens", "failures.repair"), for `job_with`."""
    length = {"tokens": tokens, "steps": steps}
    return {name: text for name, text in length.items() if text is not None} | stated(job, "")


def predict(  # noqa: PLR0913, PLR0917 - the flags of the verb
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    tokens: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    steps: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    measured: Annotated[str | None, tyro.conf.arg(metavar="SPEED")] = None,
    job: JobFlags = JobFlags(),  # noqa: B008
    life: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    rl: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    islands: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None,
    out: Output = OutputFlags(),  # noqa: B008
    timeline: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    explain_assumptions: bool = False,
    recorded: Works = WorkFlags(),  # noqa: B008
    links: Fabrics = FabricFlags(),  # noqa: B008
) -> int:
    """Predict a training step: time, tokens/s/GPU, MFU, memory, and where the time goes.

    Exit code 1 if the run does not fit.

    Args:
        whose: The run.
        tokens: Tokens to train on (15T): predict the whole job, from failures to the bill.
        steps: Optimizer steps, as another way to say how long the job is.
        measured: How fast the run really is (5100tok/s/gpu, 9.1s, 38%mfu; the key of a run file):
            what would explain the gap, and how to tell.
        job: The job, as in a job file: spares 8, checkpoints.interval 30min, failures.like NAME.
        life: What `syncwall watch --life FILE` wrote about this job: predict the rest of it, with
            the steps, checkpoints, failures and restarts that it has had.
        rl: Predict a step of reinforcement learning whose policy trains as the run: a file with
            rollouts and updates, or its keys ('{prompts: 64, ...}'; the section `rl` of a run
            file).
        islands: Predict islands that meet seldom (DiLoCo), each of which trains as the run: a file,
            or its keys ('{count: 8, every: 100, link: 1Gb/s}'; the section `islands` of a run
            file).
        out: Where the answer goes.
        timeline: Write the intervals of one micro batch here (Chrome trace, for Perfetto).
        explain_assumptions: List everything that is taken for granted.
        recorded: A program in place of the run.
        links: A fabric on which flows share links.
    """
    if recorded.work is not None and links.fabric is not None:
        raise InputError.of("--fabric is priced for a run, not for --work: leave it out")
    if recorded.work is not None and measured is not None:
        raise InputError.of("--measured is explained for a run, not for --work: leave it out")
    if recorded.work is not None and (rl or islands):
        raise InputError.of("--rl and --islands are for a run, not for --work: leave them out")
    if recorded.work is not None:
        return _program(recorded, whose, out, timeline)
    beside = {"tokens": tokens, "steps": steps, "measured": measured, "life": life}
    beside |= {"fabric": links.fabric, **stated(job, "job.")}
    if asked := section_asked(whose, {"rl": rl, "islands": islands}, beside):
        return predict_around(asked, whose, out, timeline, assumptions=explain_assumptions)
    from syncwall.answer import predict as answer
    from syncwall.answer.improvements import improvements
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import completed
    from syncwall.show.records.job import job_record
    from syncwall.show.records.prediction import prediction_record
    from syncwall.show.views.job import job_view
    from syncwall.show.views.prediction import prediction_view

    out.check()
    with searched_first(whose.catalogue):
        run, known = whose.run(measured=measured), whose.measured()
        whole = _whole(run, whose.file, stated_job(job, tokens, steps), life)
        shared = links.shared(run.cluster)
        prediction = answer(run, network=shared, site=whose.site(known), measured=known)
        proposals = improvements(prediction)
        ended = completed(whole, prediction) if whole is not None else None
    if timeline is not None:
        prediction.timeline().save(timeline)

    def view() -> "View":
        if ended is not None:
            return job_view(*ended, assumptions=explain_assumptions)
        return prediction_view(prediction, proposals, assumptions=explain_assumptions)

    def record() -> "PredictRecord":
        return prediction_record(prediction, proposals, job_record(*ended) if ended else None)

    with searched_first(whose.catalogue):  # words of an answer ask for entries, too
        out.write("predict", view, record)
    return 0 if (ended[0] if ended else prediction).fits else 1


def _whole(run: "Run", file: Path | None, stated: dict[str, str], life: Path | None) -> Job | None:
    """The job of a run, or what is left of it after its life; None if nobody speaks of a job."""
    from syncwall.describe.job_file import job_with

    if life is None:
        return job_with(run, file, stated)
    from syncwall.watch.life import life_of, rates_of, read_life, rest_of

    lived = life_of(read_life(life))
    rates = rates_of(lived)
    if rates is None:
        raise InputError.of(f"{life}: no step of the job counts yet")
    if rates.nodes != run.nodes:
        raise InputError.of(f"{life}: a job on {rates.nodes} nodes; the run has {run.nodes}")
    whole = job_with(run, file, {**rates.job_keys(), **stated})
    return rest_of(whole, lived) if whole is not None else None


def _program(recorded: WorkFlags, whose: RunFlags, out: OutputFlags, timeline: Path | None) -> int:
    """Predict a recorded program on the cluster that is named."""
    from syncwall.answer import predict as answer
    from syncwall.answer.program_changes import program_changes
    from syncwall.catalogue import searched_first
    from syncwall.show.records.program import program_record
    from syncwall.show.views.program import program_view

    out.check()
    with searched_first(whose.catalogue):
        found = recorded.recorded(whose)
        prediction = answer(
            found.program, cluster=found.cluster, software=found.software, compiled=found.compiled,
            measured=found.measured,
        )  # fmt: skip
        changes = program_changes(prediction)
        if timeline is not None:
            prediction.timeline().save(timeline)
        out.write(
            "predict work",
            lambda: program_view(prediction, changes),
            lambda: program_record(prediction, changes),
        )
    return 0 if prediction.fits else 1
