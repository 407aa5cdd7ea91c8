"""`syncwall plan wall`: how many GPUs are worth it, what stops a run, what moves the wall.

Holds `wall`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.run_flags import LayoutFlags, SoftwareFlags, stated


def wall(  # noqa: PLR0913, PLR0917 - the flags of the verb
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
    least: Annotated[int | None, tyro.conf.arg(metavar="GPUS")] = None,
    most: Annotated[int, tyro.conf.arg(metavar="GPUS")] = 2**20,
    replica_batch: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    best_layout: bool = False,
    chart: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """How far a run scales: where efficiency falls, why, and what moves the wall.

    Args:
        file: A run file (YAML); flags override what it says.
        model: Catalogue name, or a path (YAML, Hugging Face config.json or its directory).
        cluster: Catalogue name, or a path.
        nodes: Nodes on which the run is as stated; the fewest possible if not given.
        gpus_per_node: GPUs used in each node.
        seq: Tokens in a sequence.
        from_file: Take the layout from settings of torchtitan (TOML), Megatron-LM (arguments),
            DeepSpeed (JSON) or Hugging Face accelerate (YAML); flags override them.
        layout: Parallel layout, as in a run file; the best by search if nothing of it is given.
        software: Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ...
        least: Fewest GPUs, with which efficiency is compared; the fewest on which the run fits.
        most: Most GPUs.
        replica_batch: Sequences of a replica in weak scaling; as stated for `nodes`, else one
            micro batch, or enough to fill a pipeline.
        best_layout: Search the best layout at every count; else only dp grows.
        chart: Write the curves here (SVG).
        json: Print JSON, quantities in SI units.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.from_file import settings_of
    from syncwall.cli.progress import bar
    from syncwall.documents import write_whole
    from syncwall.plan.reference import reference
    from syncwall.plan.wall.found import wall_of
    from syncwall.show.terminal import print_json, print_page
    from syncwall.show.wall import wall_page, wall_record
    from syncwall.show.wall_chart import svg_chart

    flags = stated(
        layout, software,
        model=model, cluster=cluster, nodes=nodes, gpus_per_node=gpus_per_node, seq=seq,
    )  # fmt: skip
    with searched_first(catalogue), bar("scaling", hidden=json) as progress:
        start = reference(file, flags, settings_of(from_file))
        answer = wall_of(
            start, most, least=least, replica_batch=replica_batch, best_layout=best_layout,
            progress=progress,
        )  # fmt: skip
    if chart is not None:
        write_whole(chart, svg_chart(answer).file())
    if json:
        print_json(wall_record(answer, start))
    else:
        print_page(wall_page(answer, start))
    return 0
