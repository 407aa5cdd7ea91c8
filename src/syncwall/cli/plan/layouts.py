"""`syncwall plan layouts`: the best ways to spread a model over a cluster.

Holds `layouts`. `pins` and `sizes_of`: what the flags of `plan layouts` mean.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from pydantic import ValidationError

from syncwall.cli.output import Output, OutputFlags
from syncwall.cli.run_flags import RunFlags, Whose, gpu_counts
from syncwall.describe import Cluster, Layout
from syncwall.describe.faults import faults_of
from syncwall.documents import parse_document
from syncwall.problems import InputError, Problem

if TYPE_CHECKING:
    from syncwall.describe import Run
    from syncwall.plan.answer import Plan


def pins(flags: Mapping[str, str]) -> dict[str, tuple[Any, ...]]:
    """Values of layout fields by flags "layout.tp": "4,8"; problems name the flag."""
    found: dict[str, tuple[Any, ...]] = {}
    for flag, text in flags.items():
        key = flag.removeprefix("layout.")
        if key == flag:
            continue
        pieces = [text] if text.startswith(("[", "{")) else text.split(",")
        values = [_field(flag, key, piece) for piece in pieces]
        found[values[0][0]] = tuple(value for _, value in values)
    return found


def _field(flag: str, key: str, text: str) -> tuple[str, Any]:
    """Name and value of a layout field that is written as `text` in a file."""
    value = parse_document(text.strip(), f"--{flag}").value
    try:
        layout = Layout.model_validate({key: value}, context={"in_file": True})
    except ValidationError as error:
        said = [message for _, message in faults_of(error, Layout)]
        raise InputError([Problem(f"--{flag}", 0, 0, message) for message in said]) from None
    return field_named(key), getattr(layout, field_named(key))


def field_named(key: str) -> str:
    """The field of a layout that a file calls `key`."""
    return next((name for name, one in Layout.model_fields.items() if one.alias == key), key)


def sizes_of(cluster: Cluster, counts: Sequence[int]) -> list[Cluster]:
    """`cluster` with every number of GPUs in use."""
    each = cluster.gpus_per_node
    odd = next((count for count in counts if count > each and count % each), None)
    if odd is not None:
        raise InputError.of(f"--gpus: {odd} GPUs do not fill whole nodes of {each}")
    return [cluster.with_gpus(count) for count in counts]


def layouts(  # noqa: PLR0913, PLR0917 - the flags of the verb
    whose: Whose = RunFlags(),  # noqa: B008 - a dataclass of defaults, never changed
    objective: Literal["fastest", "cheapest", "smallest"] = "fastest",
    within: Annotated[str | None, tyro.conf.arg(metavar="TIME")] = None,
    price: Annotated[float | None, tyro.conf.arg(metavar="USD")] = None,
    top: Annotated[int, tyro.conf.arg(metavar="N")] = 5,
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    settings: Annotated[str | None, tyro.conf.arg(metavar="FORMAT")] = None,
    save_settings: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    out: Output = OutputFlags(),  # noqa: B008
) -> int:
    """Find the best layouts of a model on a cluster: all that are possible are evaluated.

    Flags of the layout decide a part of it, and take several values: --tp 4,8. Exit code 1 if none
    fits.

    Args:
        whose: What is decided already; the layout of a file or of --from is compared with the best.
            A global batch that nobody states is the model's published one.
        objective: The shortest step, the fewest GPU-hours, or the fewest GPUs.
        within: Only steps of at most this time, such as 20s.
        price: Of a GPU-hour in USD, for the cost.
        top: How many to list.
        save: Write the best one here as a run file, which `predict` reads.
        settings: Print the best one as settings of a framework: torchtitan, megatron, deepspeed,
            accelerate, or a format that a package adds.
        save_settings: Write these settings here.
        out: Where the answer goes.
    """
    from syncwall.answer import predict
    from syncwall.answer.pricing import Pricing
    from syncwall.catalogue import searched_first
    from syncwall.cli.progress import bar
    from syncwall.describe.overrides import run_with
    from syncwall.describe.run_file import run_text
    from syncwall.describe.settings.formats import format_named
    from syncwall.documents import write_whole
    from syncwall.plan.answer import Plan
    from syncwall.plan.search import search
    from syncwall.units import Dimension, parse

    out.check()
    stated_by_file = whose.settings()
    whose.check(stated_by_file)
    if save_settings is not None and settings is None:
        raise InputError.of("--save-settings: write --settings FORMAT, too")
    if settings is not None:
        format_named(settings)
    counts = gpu_counts(whose.gpus)
    has_layout = whose.file is not None or whose.from_file is not None
    decided = pins(whose.stated)
    kept = {"layout.global_batch"} if has_layout else set()
    of_run = {n: t for n, t in whose.stated.items() if not n.startswith("layout.") or n in kept}
    if counts:
        of_run["gpus"] = str(counts[0])
    with searched_first(whose.catalogue):
        run = run_with(whose.file, of_run, stated_by_file)
        measured = whose.measured()
        pricing = Pricing.of(run, measured=measured, site=whose.site(measured))
        sequences = _batch(run, decided.pop("global_batch", ()), has_layout=has_layout)
        sizes = sizes_of(run.cluster, counts) if len(counts) > 1 else [run.cluster]
        with bar("layouts") as progress:
            found = search(
                run.model, sizes, seq=run.seq, global_batch=sequences, software=run.software,
                pinned=decided, pricing=pricing, progress=progress,
            )  # fmt: skip
        most = parse(within, Dimension.SECONDS) if within else float("inf")
        best = found.best(top, objective, within_s=most)
        now = predict(run, pricing) if has_layout else None
        plan = Plan.of(found, best, objective, now=now, price_usd_per_gpu_hour=price)
        text = _settings(plan, settings, save_settings)
        if save is not None and best:
            write_whole(save, run_text(best[0].prediction.run))
        out.write(replace(plan, settings=text or None))
    return 0 if best else 1


def _batch(run: "Run", stated: "tuple[int, ...]", *, has_layout: bool) -> int:
    """Sequences of one step: as stated, of the layout which the user has, or the usual ones."""
    from syncwall.plan.reference import usual_batch
    from syncwall.show.words.layout import sample

    if len(stated) > 1:
        raise InputError.of("--layout.global-batch: write one number")
    if has_layout:
        return run.layout.global_batch
    if stated:
        return int(stated[0])
    batch, why = usual_batch(run.model, run.seq)
    print(
        f"--global-batch was left out: {batch:,} {sample(run.model)}s a step ({why})",
        file=sys.stderr,
    )
    return batch


def _settings(plan: "Plan", name: str | None, save: Path | None) -> str:
    """The best layout as settings of a framework, written to `save` if that is given."""
    from syncwall.describe.settings import written
    from syncwall.documents import write_whole

    if name is None or not plan.best:
        return ""
    run = plan.best[0].run
    found = written(
        run.layout, name, seq=run.seq, nodes=run.nodes, gpus_per_node=run.gpus_per_node,
        model=run.model, software=run.software,
    )  # fmt: skip
    for key in found.unsaid:
        print(f"{name} settings have no words for {key}", file=sys.stderr)
    if save is not None:
        write_whole(save, found.text)
    return found.text
