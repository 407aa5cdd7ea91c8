"""`syncwall measure node`: one node in minutes, as one site file."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from syncwall.ask.question import Argument, LocalFile
from syncwall.cli.call import Command
from syncwall.cli.measure import CollectivesPart, MatmulPart, MeasurePart, StepPart, in_team
from syncwall.cli.output import Output
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.answer.known import SiteFile
    from syncwall.describe import Cluster
    from syncwall.measure.team import Stop, Team
    from syncwall.measure.training_step import StepSettings

_SMALLEST: Final = "16KiB"
_POINT_S: Final = 0.5
"""Time for each size of a collective."""


class MeasureNodeCommand(Command):
    """Measure one node: kernels at the model's shapes, collectives inside it, and a real step.

    All of it becomes one site file, which `predict`, `plan` and `compare` take with --site. Launch
    with torchrun or srun on one host, a rank for each GPU.
    """

    model: Annotated[str, Argument("NAME")] = "tiny-5m"
    """Catalogue name or path of a dense decoder; of one that is too large for a node, a file with
    fewer layers: {base: llama-3.1-70b, layers: 8}."""
    cluster: Annotated[str | None, Argument("NAME")] = None
    """The machine that this node is of: catalogue name or path; not needed on CPUs."""
    seq: Annotated[int, Argument("TOKENS")] = 128
    """Tokens in a sequence."""
    shard: Literal["ddp", "fsdp"] = "ddp"
    """How the real step shares the work."""
    micro_batch: Annotated[int, Argument("N")] = 4
    """Sequences of each rank."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Number format of the multiplications."""
    steps: Annotated[int, Argument("N")] = 20
    """Real steps that count."""
    seconds: Annotated[float, Argument("S")] = 0.7
    """Time for each kernel."""
    backend: Literal["nccl", "gloo"] | None = None
    """What moves the data; NCCL where there is a GPU, else Gloo."""
    timeout: Annotated[float, Argument("S")] = 60.0
    """A call that takes longer means that a rank is lost."""
    save: Annotated[LocalFile, Argument("FILE", group="output")] = Path("site.yaml")
    """Write the site file here."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.describe.lookup import model as named
        from syncwall.measure.training_step import StepSettings

        if self.steps < 1:
            raise InputError.of("--steps must be at least 1")
        settings = StepSettings(
            model=named(self.model),
            seq=self.seq,
            shard=self.shard,
            micro_batch=self.micro_batch,
            precision=self.precision,
            steps=self.steps,
        )
        part = _NodePart(self, settings)
        return in_team(
            part,
            Output(),
            kind="node",
            backend=self.backend,
            timeout_s=self.timeout,
            shown=_shown,
        )


class _NodePart:
    """One call of the verb: the parts of `measure`, one after the other."""

    def __init__(self, asked: MeasureNodeCommand, settings: "StepSettings") -> None:
        from syncwall.measure.collectives import KINDS, Effort

        self.asked, self.settings = asked, settings
        self.began = time.monotonic()
        self.cluster: Cluster | None = None
        shapes = (asked.seq, asked.micro_batch, 1, asked.precision)
        self.kernels = MatmulPart((asked.model,), *shapes, asked.seconds)
        effort = Effort(_POINT_S, None, longest_s=asked.timeout / 4.0)
        self.collectives = CollectivesPart(KINDS, _SMALLEST, None, "float32", effort)
        self.step = StepPart(settings)

    def work(self, team: "Team", stop: "Stop", progress: Callable[[float], None]) -> None:
        """Measure on every rank."""
        from syncwall.documents import refuse_unwritable
        from syncwall.measure.node import node_of

        self.cluster = node_of(self.asked.cluster, team.hosts, on_cpu=team.device.type == "cpu")
        refuse_other_device(self.cluster, team.job.device)
        if team.leads:
            refuse_unwritable(self.asked.save)
        parts: list[MeasurePart] = [self.kernels, self.collectives, self.step]
        if team.world == 1:
            parts.remove(self.collectives)
        for number, part in enumerate(parts):
            part.work(team, stop, partial(_share, progress, number, len(parts)))

    def found(self, team: "Team") -> Any:
        """Nothing that a result holds: `site_file` has it."""

    def site_file(self, team: "Team") -> "SiteFile | None":
        """What was measured; None if the step did not run."""
        from syncwall.measure.calibrate import joined_calibrations, measured_of
        from syncwall.measure.node import site_file
        from syncwall.measure.result import Result

        if self.cluster is None or self.step.data is None:
            return None
        job, hosts = team.job, team.facts
        kernels, collectives = (part.found(team)[1] for part in (self.kernels, self.collectives))
        results = (
            Result(kind="matmul", job=job, hosts=hosts, data=kernels.model_dump(mode="json")),
            Result(kind="collectives", job=job, hosts=hosts, data=collectives.model_dump(mode="json")),
        )
        measured = joined_calibrations([measured_of(one) for one in results])
        return site_file(self.settings, self.cluster, self.step.data, measured)


def refuse_other_device(cluster: "Cluster", found: str) -> None:
    """InputError if the driver's name of the device is one of another device than the cluster's."""
    from syncwall.explain.machines import devices_named

    device, here = cluster.device, devices_named(found)
    if here and not {device.name, device.like} & set(here):
        raise InputError.of(f"--cluster: {cluster.name} has {device.name}, and this node has {here[0]}")


def _share(progress: Callable[[float], None], number: int, parts: int, done: float) -> None:
    progress((number + done) / parts)


def _shown(part: _NodePart, out: Output, team: "Team", *_: Any, complete: bool) -> int:
    """Write the site file and show it; one that is not whole is not written."""
    from syncwall.documents import write_whole
    from syncwall.show.measurement import site_view

    site = part.site_file(team)
    if site is None or not complete:
        return 1
    write_whole(part.asked.save, site.text())
    out.write_view(site_view(site, str(part.asked.save), time.monotonic() - part.began))
    return 0
