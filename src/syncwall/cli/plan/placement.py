"""`syncwall plan placement`: where several jobs should stand on one fabric.

Holds `placement`.
"""

from pathlib import Path
from typing import Annotated

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.network import Routing
from syncwall.problems import InputError


def placement(  # noqa: PLR0913, PLR0917 - the flags of the verb
    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    fabric: Annotated[str, tyro.conf.arg(metavar="NAME")] = "tiers",
    routing: Routing = "ecmp",
    qps: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
    save: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    catalogue: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = (),
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
) -> int:
    """Where jobs should stand on a fabric: nodes and rank order, and what sharing costs each.

    Args:
        file: Jobs: a cluster, its nodes, and of each job its run and the nodes that it has.
        fabric: A kind of `plan fabric`, with a ratio if it is not non-blocking (fat-tree-2,4:1),
            `tiers` for those of the cluster, or a file of ibnetdiscover, topograph, NetQ or Slurm.
        routing: How flows find their way: hashed (ecmp), by fixed tables, over whatever is free
            (adaptive), or over a random group of a dragonfly first.
        qps: Queue pairs of a connection, each hashed by itself.
        save: Write for each job a host file for Slurm, the ranks of nodes for torchrun, and hints
            for Kueue and Volcano here.
        catalogue: Folder with entries of your own, searched before the built-in ones.
        out: Where the answer goes.
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.fabric_flags import check_qps, links_named
    from syncwall.cli.progress import bar
    from syncwall.documents import write_whole
    from syncwall.plan.placement.hints import hint_files
    from syncwall.plan.placement.question import read_jobs
    from syncwall.plan.questions import placement as asked

    out.check()
    check_qps(qps)
    if save is not None and not save.is_dir():
        raise InputError.of(f"--save: there is no folder {save}")
    with searched_first(catalogue), bar("placements") as progress:
        question = read_jobs(file)
        links = links_named(fabric, question.machine, places=True)
        answer = asked(
            question, links, folder=file.parent, name=fabric, routing=routing, qps=qps,
            progress=progress,
        )  # fmt: skip
    if save is not None:
        for name, text in hint_files(answer, question.machine.gpus_per_node).items():
            write_whole(save / name, text)
    out.write(answer)
    return 0
