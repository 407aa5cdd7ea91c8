"""`syncwall plan layouts`: the best ways to spread a model over a cluster.

Holds `layouts`.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from syncwall.cli.run_flags import LayoutFlags, SoftwareFlags, stated
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.describe import Run
    from syncwall.show.layouts import Plan

Format = Literal["torchtitan", "megatron", "deepspeed", "accelerate"]


def layouts(  # noqa: PLR0913, PLR0917 - the flags of the verb
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None,
    /,
    model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    nodes: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    gpus_per_node: Annotated[str | None, tyro.conf.arg(metavar="N")] = None,
    gpus: Annotated[str | None, tyro.conf.arg(metavar="COUNTS")] = None,
    seq: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None,
    from_file: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
    layout: LayoutFlags = LayoutFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    software: SoftwareFlags = SoftwareFlags(),  # noqa: B008
    objective: Literal["fastest", "cheapest", "smallest"] = "fastest",
    within: Annotated[str | None, tyro.conf.arg(metavar="TIME")] = None,
    headroom: Annotated[str, tyro.conf.arg(metavar="SHARE")] = "5%",
    price: Annotated[float | None, tyro.conf.arg(metavar="USD")] = None,
    top: Annotated[int, tyro.conf.arg(metavar="N")] = 5,
    settings: Format | None = None,
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
) -> int:
    """Find the best layouts of a model on a cluster: all that are possible are evaluated.

    Exit code 1 if none fits.

    Args:
        file: A run file (YAML): its layout is compared with the best.
        model: Catalogue name, or a path (YAML, Hugging Face config.json or its directory).
        cluster: Catalogue name, or a path.
        nodes: Nodes used.
        gpus_per_node: GPUs used in each node.
        gpus: GPUs in the place of nodes; several at once: 256,512 or 256..4096, which doubles.
        seq: Tokens in a sequence.
        from_file: Compare with the layout in settings of torchtitan (TOML), Megatron-LM
            (arguments), DeepSpeed (JSON) or Hugging Face accelerate (YAML).
        layout: What is decided already, such as tp 8, or several values: tp 4,8.
            The global batch is always needed.
        software: Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ...
        objective: The shortest step, the fewest GPU-hours, or the fewest GPUs.
        within: Only steps of at most this time, such as 20s.
        headroom: Share of the memory to leave free.
        price: Of a GPU-hour in USD, for the cost.
        top: How many to list.
        settings: Print the best one as settings of this framework.
        save: Write these settings here.
        json: Print JSON, quantities in SI units.
        catalogue: Look in this directory first (devices/NAME.yaml, ...).
    """
    from syncwall.catalogue import searched_first
    from syncwall.cli.from_file import settings_of
    from syncwall.cli.plan.layouts_flags import pins, share, sizes_of
    from syncwall.cli.progress import bar
    from syncwall.describe.overrides import run_with
    from syncwall.plan.search import search
    from syncwall.show.layouts import Plan, layouts_page, layouts_record
    from syncwall.show.terminal import print_json, print_page
    from syncwall.units import Dimension, parse

    if save is not None and settings is None:
        raise InputError.of("--save: write --settings FORMAT too")
    flags = stated(
        layout, software,
        model=model, cluster=cluster, nodes=nodes, gpus_per_node=gpus_per_node, seq=seq,
    )  # fmt: skip
    decided = pins(flags)
    has_layout = file is not None or from_file is not None
    batch = {"layout.global_batch"} if has_layout else set()
    of_run = {n: text for n, text in flags.items() if not n.startswith("layout.") or n in batch}
    with searched_first(catalogue):
        if file is None and not (model and cluster):
            raise InputError.of("write --model NAME and --cluster NAME, or a run file")
        now = settings_of(from_file)
        sizes = sizes_of(file, of_run, gpus)
        if sizes:
            of_run["nodes"], of_run["gpus_per_node"] = map(
                str, (sizes[0].nodes, sizes[0].gpus_per_node)
            )
        run = run_with(file, of_run, now)
        sequences = _batch(run if has_layout else None, decided.pop("global_batch", ()))
        with bar("layouts") as progress:
            found = search(
                run.model, sizes or run.cluster, seq=run.seq, global_batch=sequences,
                software=run.software, pinned=decided, headroom=share(headroom, "--headroom"),
                progress=progress,
            )  # fmt: skip
        most = parse(within, Dimension.SECONDS) if within else float("inf")
        best = found.best(top, objective, within_s=most)
        plan = Plan(
            run, found, best, objective, sequences,
            yours=run if has_layout else None, price_usd_per_gpu_hour=price,
        )  # fmt: skip
        text = _settings(plan, settings, save)
        if json:
            print_json(layouts_record(plan) | ({"settings": text} if text else {}))
        else:
            print_page(layouts_page(plan))
            print(text, end="")
    return 0 if best else 1


def _batch(run: "Run | None", stated: "tuple[int, ...]") -> int:
    """Sequences of one step: one number, or that of the layout which the user has."""
    if len(stated) > 1:
        raise InputError.of("--layout.global-batch: write one number")
    if not stated and run is None:
        raise InputError.of("write --layout.global-batch N, the sequences of one step")
    return int(stated[0] if run is None else run.layout.global_batch or 1)


def _settings(plan: "Plan", name: str | None, save: Path | None) -> str:
    """The best layout as settings of a framework, written to `save` if that is given."""
    from syncwall.describe.settings import written
    from syncwall.documents import write_whole

    if name is None or not plan.best:
        return ""
    run = plan.best[0].run
    found = written(
        run.layout, name, seq=run.seq, nodes=run.nodes, gpus_per_node=run.gpus_per_node,
        model=run.model,
    )  # fmt: skip
    for key in found.unsaid:
        print(f"{name} settings have no words for {key}", file=sys.stderr)
    if save is not None:
        write_whole(save, found.text)
    return found.text
