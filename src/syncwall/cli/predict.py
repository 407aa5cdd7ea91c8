"""`syncwall predict`: one training step, priced, placed in time, explained.

Holds `predict`.
"""

from pathlib import Path
from typing import Annotated

import tyro

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
    layout: LayoutFlags = LayoutFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    software: SoftwareFlags = SoftwareFlags(),  # noqa: B008
    known_run: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = (),
    calibration: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = (),
    json: bool = False,
    timeline: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    explain_assumptions: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """Predict a training step: time, tokens/s/GPU, MFU, memory, and where the time goes.

    Args:
        file: A run file (YAML); flags override what it says.
        model: Catalogue name, or a path (YAML, Hugging Face config.json or its directory).
        cluster: Catalogue name, or a path.
        nodes: Nodes used.
        gpus_per_node: GPUs used in each node.
        seq: Tokens in a sequence.
        layout: Parallel layout, as in a run file: tp 8, shard fsdp, bucket 25MiB, ...
        software: Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ...
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
    from syncwall.describe.overrides import run_with
    from syncwall.measure.calibrate import read_measured
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
        prediction = answer(run_with(file, flags), site=site_of(known_run), measured=measured)
        proposals = improvements(prediction)
    if timeline is not None:
        perfetto(prediction, timeline)
    if json:
        print_json(prediction_record(prediction, proposals))
    else:
        print_page(prediction_page(prediction, proposals, assumptions=explain_assumptions))
    return 0
