"""`plan layouts`, `plan wall` and `plan network`: which layout, how many GPUs, which network.

Holds `LayoutsQuestion`, `WallQuestion` and `NetworkQuestion`; `layouts`, `wall` and `network`, by
which Python asks them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ValidationError

from syncwall.answer.prediction import predict
from syncwall.answer.pricing import Pricing
from syncwall.answer.site import UNKNOWN_SITE, Site
from syncwall.ask.question import (
    Argument,
    Count,
    GpuCount,
    Progress,
    RunQuestion,
    Share,
    WorkQuestion,
    quiet,
)
from syncwall.catalogue import Folders, catalogue_overlay, takes_catalogue
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Cluster, Layout, Run
from syncwall.describe.base import MOST, Seconds
from syncwall.describe.faults import faults_of
from syncwall.describe.stated import StatedRun, stated_keys
from syncwall.plan.choices import Objective
from syncwall.plan.reference import Reference, RunLike, start_of, usual_batch
from syncwall.plan.search import search as layouts
from syncwall.plan.space import held
from syncwall.problems import InputError, Problem, option

if TYPE_CHECKING:
    from syncwall.plan.answers import Plan
    from syncwall.plan.network.needed import NetworkPlan
    from syncwall.plan.wall.sync_wall import WallPlan


__all__ = ["LayoutsQuestion", "NetworkQuestion", "WallQuestion", "layouts", "network", "wall"]


class LayoutsQuestion(RunQuestion):
    """Find the best layouts of a model on a cluster: all that are possible are evaluated.

    Flags of the layout decide a part of it, and take several values: --tp 4,8. Exit code 1 if none
    fits.
    """

    verb = "plan layouts"
    working = "layouts"

    objective: Objective = "fastest"
    """The shortest step, the fewest GPU-hours, or the fewest GPUs."""
    within: Annotated[Seconds | None, Argument("TIME")] = None
    """Only steps of at most this time, such as 20s."""
    price: Annotated[float | None, Argument("USD")] = None
    """Of a GPU-hour in USD, for the cost."""
    top: Count = 5
    """How many to list."""
    settings: Annotated[str | None, Argument("FORMAT", group="output")] = None
    """Print the best one as settings of a framework: torchtitan, megatron, deepspeed, accelerate,
    or a format that a package adds."""

    def answer(self, progress: Progress = quiet) -> "Plan":
        """The best layouts, beside the one that a file states."""
        from syncwall.describe.settings.formats import format_named
        from syncwall.plan.answers import Plan

        if self.settings is not None:
            format_named(self.settings)
        stated = self.stated
        has_layout = _has_layout(self.run)
        counts, decided = gpu_counts(stated.keys.get("gpus")), pins(stated.keys)
        with catalogue_overlay(self.catalogue):
            run = self._run(stated, counts, has_layout=has_layout)
            measured = self.measurements()
            pricing = Pricing.of(run, measured=measured, site=self.known_site(measured))
            most = max(counts, default=run.gpus)
            batch, notes = _batch(run, decided.pop("global_batch", ()), most, has_layout=has_layout)
            sizes = sizes_of(run.cluster, counts) if len(counts) > 1 else [run.cluster]
            found = layouts(
                run.model,
                sizes,
                seq=run.seq,
                global_batch=batch,
                software=run.software,
                pinned={**held(run.layout), **decided},
                pricing=pricing,
                progress=progress,
            )
            within_s = float("inf") if self.within is None else self.within
            best = found.best(self.top, self.objective, within_s=within_s)
            now = predict(run, pricing) if has_layout else None
            plan = Plan.of(found, best, self.objective, now=now, price_usd_per_gpu_hour=self.price)
            return self._with_settings(replace(plan, notes=notes))

    def _with_settings(self, plan: "Plan") -> "Plan":
        """`plan` with the best layout as settings of a framework, if they are asked for."""
        from syncwall.describe.settings import written

        if self.settings is None or not plan.best:
            return plan
        run = plan.best[0].run
        found = written(
            run.layout,
            self.settings,
            seq=run.seq,
            nodes=run.nodes,
            gpus_per_node=run.gpus_per_node,
            model=run.model,
            software=run.software,
        )
        unsaid = (f"{self.settings} settings have no words for {key}" for key in found.unsaid)
        return replace(plan, settings=found.text or None, notes=(*plan.notes, *unsaid))

    def _run(self, stated: StatedRun, counts: Sequence[int], *, has_layout: bool) -> Run:
        """The run that the search starts from: without the flags of its layout."""
        if isinstance(self.run, Run):
            return self.run
        kept = {"layout.global_batch"} if has_layout else set[str]()
        keys = {
            key: value for key, value in stated.keys.items() if not key.startswith("layout.") or key in kept
        }
        if counts:
            keys["gpus"] = counts[0]
        return StatedRun(keys, stated.settings, stated.file).run()


def _has_layout(run: Run | StatedRun) -> bool:
    """True if a layout stands in a file, in settings, or in a run that Python describes."""
    if isinstance(run, Run):
        return not run.layout.model_fields_set <= {"dp", "shard_degree"}  # which follow from the GPUs
    return run.file.exists or run.settings is not None


def gpu_counts(stated: Any) -> list[int]:
    """Counts written as 512, "512,1024" or "512..4096", which doubles; none if there are none."""
    if stated is None:
        return []
    text = ",".join(map(str, stated)) if isinstance(stated, list | tuple) else str(stated)
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            counts = [first] if first <= last else [0]
            while 0 < counts[-1] * 2 <= last:
                counts.append(counts[-1] * 2)
        else:
            counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        message = f'"{text}" is not a count: write 512, 512,1024 or 256..4096'
        raise InputError.of(message, key="gpus")
    if max(counts) > MOST:
        raise InputError.of(f"{max(counts):,} GPUs are too many: write 1 to {MOST:,}", key="gpus")
    return counts


def pins(keys: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Values of fields of a layout by keys "layout.tp": "4,8"; problems name the key."""
    found: dict[str, tuple[Any, ...]] = {}
    for key, value in keys.items():
        if not key.startswith("layout."):
            continue
        several = isinstance(value, str) and not value.startswith(("[", "{"))
        texts = value.split(",") if several else [value] if isinstance(value, str) else None
        pieces = [value] if texts is None else [stated_keys({key: one.strip()})[key] for one in texts]
        values = [_field(key, piece) for piece in pieces]
        found[values[0][0]] = tuple(one for _, one in values)
    return found


def _field(key: str, value: Any) -> tuple[str, Any]:
    """Name and value of a field of a layout."""
    word = key.removeprefix("layout.")
    try:
        layout = Layout.model_validate({word: value}, context={"in_file": True})
    except ValidationError as error:
        said = [message for _, message in faults_of(error, Layout)]
        raise InputError(Problem("", 0, 0, message, key) for message in said) from None
    name = next((name for name, one in Layout.model_fields.items() if one.alias == word), word)
    return name, getattr(layout, name)


def sizes_of(cluster: Cluster, counts: Sequence[int]) -> list[Cluster]:
    """`cluster` with every number of GPUs in use."""
    each = cluster.gpus_per_node
    odd = next((count for count in counts if count > each and count % each), None)
    if odd is not None:
        raise InputError.of(f"{odd} GPUs do not fill whole nodes of {each}", key="gpus")
    return [cluster.with_gpus(count) for count in counts]


def _batch(run: Run, stated: tuple[int, ...], gpus: int, *, has_layout: bool) -> tuple[int, tuple[str, ...]]:
    """Sequences of one step: as stated, of the layout which the user has, or the usual ones on
    `gpus` GPUs, and why.
    """
    if len(stated) > 1:
        raise InputError.of("write one number", key="layout.global_batch")
    if has_layout:
        return run.layout.global_batch, ()
    if stated:
        return int(stated[0]), ()
    from syncwall.show.layout import sample

    batch, why = usual_batch(run.model, run.seq, gpus)
    said = f"{batch:,} {sample(run.model)}s a step ({why})"
    return batch, (f"{option('global_batch')} was left out: {said}",)


class WallQuestion(WorkQuestion):
    """How far a run scales: where efficiency falls, why, and what moves the wall.

    The run is as stated on its --nodes or --gpus. Where no layout is given, the best one is
    searched anew at every count; where no batch is given, it is the model's published one.
    """

    verb = "plan wall"
    working = "scaling"

    least: GpuCount | None = None
    """Fewest GPUs, with which efficiency is compared; the fewest on which the run fits."""
    most: GpuCount | None = None
    """Most GPUs; as many as any validated run has if not given. Beyond is extrapolated, up to eight
    times as many."""
    replica_batch: Count | None = None
    """Sequences of a replica in weak scaling; those of the run if not given."""
    best_layout: bool = False
    """Search the best layout at every count, also if one is stated."""

    def answer(self, progress: Progress = quiet) -> "WallPlan":
        """Both curves, their walls, and what moves them; of a program the one that there is."""
        from syncwall.plan.wall.sync_wall import WallPlan, wall_of

        self.refuse_beside_work("replica_batch", "best_layout")
        with catalogue_overlay(self.catalogue):
            start = _start(self, self.run)
            found = wall_of(
                start,
                self.most,
                least=self.least,
                replica_batch=self.replica_batch,
                best_layout=self.best_layout,
                progress=progress,
            )
            return WallPlan(start, found)


class NetworkQuestion(WorkQuestion):
    """The network that a run needs: bandwidth, scale-up bandwidth, latency, NICs.

    The run is as stated on its --nodes, or on the first of its --gpus; the batch is the model's
    published one and the layout the best by search where nothing of them is given.
    """

    verb = "plan network"
    working = "networks"

    counts: Annotated[tuple[int, ...], Argument(hidden=True)] = ()
    """Numbers of GPUs to look at; those of the run if not given."""
    efficiency: Share = 0.9
    """Step on an ideal network over step on the real one."""
    exposed: Share = 0.05
    """Share of the step that may wait for the network and still count as hidden."""
    reached: Share | None = None
    """Share of the advertised NIC rate that collectives reach, such as 80% (a rule of thumb); the
    machine's own, or what fits measured runs, if not given."""
    strong: bool = False
    """Keep the global batch for all numbers of GPUs; else that of a GPU."""

    def answer(self, progress: Progress = quiet) -> "NetworkPlan":
        """What is needed on each number of GPUs."""
        from syncwall.plan.network.needed import NetworkPlan, needed
        from syncwall.plan.network.targets import TargetLimits

        self.refuse_beside_work("reached", "strong")
        limits = TargetLimits(self.efficiency, self.exposed)
        counts = self.counts or gpu_counts(self.stated.keys.get("gpus"))
        with catalogue_overlay(self.catalogue):
            run = self.run
            if isinstance(run, StatedRun) and counts:
                first = {} if "nodes" in run.keys else {"gpus": counts[0]}
                kept = {key: value for key, value in run.keys.items() if key != "gpus"}
                run = replace(run, keys={**kept, **first})
            start = _start(self, run, free=("gpus",))
            found = needed(start, counts, limits, reached=self.reached, strong=self.strong, progress=progress)
            return NetworkPlan(start, found)


def _start(asked: WorkQuestion, run: Run | StatedRun, free: Sequence[str] = ()) -> Reference:
    """Where a plan for `run`, or for the program in its place, starts."""
    if asked.work is not None:
        return Reference(asked.recorded(free=free))
    measured = asked.measurements()
    return start_of(run, measured, asked.known_site(measured))


@takes_catalogue
def wall(  # noqa: PLR0913 - what may be asked of a wall
    run: RunLike,
    *,
    most: int | None = None,
    least: int | None = None,
    replica_batch: int | None = None,
    best_layout: bool = False,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> "WallPlan":
    """How far a run scales: where efficiency falls, why, and what moves the wall.

    `run` is a `Run`; or its keys, or a run file, in which GPUs, batch and layout that nobody states
    are chosen. The curves go up to `most` GPUs, those of the largest validated run if not given, and
    compare with `least`, the fewest on which the run fits if not given. `replica_batch` are the
    sequences of a replica in weak scaling. With `best_layout` the best layout is searched at every
    count, also if one is stated.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=4, layout=layout)
        >>> found = sw.plan.wall(run, most=64)
        >>> found
        <WallPlan llama-3.1-8b: strong 80% up to ... GPUs, weak 80% up to ... GPUs>
    """
    return WallQuestion(
        run=run,
        most=most,
        least=least,
        replica_batch=replica_batch,
        best_layout=best_layout,
        calibration=measured,
        known_run=site,
    ).answer()


@takes_catalogue
def network(  # noqa: PLR0913 - what may be asked of a network
    run: RunLike,
    *,
    gpus: Sequence[int] = (),
    efficiency: float = 0.9,
    exposed: float = 0.05,
    reached: float | None = None,
    strong: bool = False,
    measured: MachineMeasurements | None = None,
    site: Site = UNKNOWN_SITE,
    catalogue: Folders = None,
) -> "NetworkPlan":
    """The network that a run needs: bandwidth, scale-up bandwidth, latency, NICs.

    `run` as for `wall`. `gpus` are the counts to look at, those of the run if none are given.
    `efficiency` is the step on an ideal network over that on the real one; up to `exposed` of a
    step may wait and still count as hidden. `reached` is the share of the NICs' rate that
    collectives reach. With `strong` the global batch stays, else that of a GPU.

    Examples:
        >>> import syncwall as sw
        >>> layout = sw.Layout(shard="fsdp", global_batch=512)
        >>> run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=4, layout=layout)
        >>> found = sw.plan.network(run, gpus=[32, 256])
        >>> found
        <NetworkPlan llama-3.1-8b on 32, 256 GPUs>
        >>> found.counts[1].efficiency < found.counts[0].efficiency
        True
    """
    return NetworkQuestion(
        run=run,
        counts=tuple(gpus),
        efficiency=efficiency,
        exposed=exposed,
        reached=reached,
        strong=strong,
        calibration=measured,
        known_run=site,
    ).answer()
