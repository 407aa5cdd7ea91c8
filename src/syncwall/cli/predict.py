"""`syncwall predict`: one training step, priced, placed in time, explained; or a whole job.

Holds `predict`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.job_flags import JobFlags, stated_job
from syncwall.cli.run_flags import LayoutFlags, SoftwareFlags, stated
from syncwall.problems import InputError


def predict(  # noqa: PLR0913, PLR0917 - the flags of the verb
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None,
    /,
    model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    nodes: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    gpus_per_node: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    seq: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    from_file: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
    layout: LayoutFlags = LayoutFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    software: SoftwareFlags = SoftwareFlags(),  # noqa: B008
    tokens: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    steps: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    job: JobFlags = JobFlags(),  # noqa: B008
    known_run: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = (),
    calibration: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = (),
    json: bool = False,
    timeline: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    explain_assumptions: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """Predict a training step: time, tokens/s/GPU, MFU, memory, and where the time goes.

    Args:
        file: A run file or a job file (YAML); flags override what it says.
        model: Catalogue name, or a path (YAML, Hugging Face config.json or its directory).
        cluster: Catalogue name, or a path.
        nodes: Nodes used.
        gpus_per_node: GPUs used in each node.
        seq: Tokens in a sequence.
        from_file: Take the layout from settings of torchtitan (TOML), Megatron-LM (arguments),
            DeepSpeed (JSON) or Hugging Face accelerate (YAML); flags override them.
        layout: Parallel layout, as in a run file: tp 8, shard fsdp, bucket 25MiB, ...
        software: Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ...
        tokens: Tokens to train on (15T): predict the whole job, from failures to the bill.
        steps: Optimizer steps, as another way to say how long the job is.
        job: The job, as in a job file: spares 8, checkpoints.interval 30min, failures.like NAME.
        known_run: Measured runs of the same cluster (run files with `measured`): every time is
            anchored to them.
        calibration: Results of `syncwall measure` on the machine, or a calibration made of them:
            measured beats catalogue.
        json: Print JSON, quantities in SI units.
        timeline: Write the intervals of one micro batch here (Chrome trace, for Perfetto).
        explain_assumptions: List everything that is taken for granted.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
    """
    from syncwall.answer import predict as answer
    from syncwall.answer.improvements import improvements
    from syncwall.answer.known import site_of
    from syncwall.answer.timeline import perfetto
    from syncwall.catalogue import searched_first
    from syncwall.cli.completed import completed
    from syncwall.cli.from_file import settings_of
    from syncwall.describe.job_file import job_with
    from syncwall.describe.overrides import run_with
    from syncwall.measure.calibrate import read_measured
    from syncwall.show.job import job_page, job_record
    from syncwall.show.prediction import prediction_page, prediction_record
    from syncwall.show.terminal import print_json, print_page

    flags = stated(
        layout, software,
        model=model, cluster=cluster, nodes=nodes, gpus_per_node=gpus_per_node, seq=seq,
    )  # fmt: skip
    with searched_first(catalogue):
        if file is None and not (model and cluster):
            raise InputError.of("write --model NAME and --cluster NAME, or a run file")
        measured = read_measured(calibration) if calibration else None
        run = run_with(file, flags, settings_of(from_file))
        whole = job_with(run, file, stated_job(job, tokens, steps))
        prediction = answer(run, site=site_of(known_run), measured=measured)
        proposals = improvements(prediction) if json or whole is None else []
        ended = completed(whole, prediction) if whole is not None else None
    if timeline is not None:
        perfetto(prediction, timeline)
    if json:
        record = prediction_record(prediction, proposals)
        print_json(record | ({"job": job_record(*ended)} if ended else {}))
    elif ended:
        print_page(job_page(*ended, assumptions=explain_assumptions))
    else:
        print_page(prediction_page(prediction, proposals, assumptions=explain_assumptions))
    return 0
