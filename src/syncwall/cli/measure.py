"""`syncwall measure`: what links, devices and training steps really reach."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

from pydantic import Field

from syncwall import units
from syncwall.ask.question import Argument, LocalFile
from syncwall.cli.call import Command
from syncwall.cli.commands import as_flag
from syncwall.cli.output import Output
from syncwall.problems import InputError, refuse_unknown, visible
from syncwall.units import Dimension

if TYPE_CHECKING:
    from syncwall.describe import Layout
    from syncwall.measure.collectives import BenchmarkKind, CollectiveRow, Effort, SkippedKind
    from syncwall.measure.kernel_times import KernelRow, TimedKernel, Workload
    from syncwall.measure.overlap import Overlap
    from syncwall.measure.result import MachineLoad, Told
    from syncwall.measure.suspects import SlowComponent
    from syncwall.measure.team import Stop, Team
    from syncwall.measure.training_step import StepData, StepSettings
    from syncwall.report import CollectivesResult, Data, KernelTimes, LinksResult

    Found = tuple[dict[str, Any], Data]
    Progress = Callable[[float], None]
    Shown = Callable[..., int]
    """Shows and writes what a part found, as `_shown` does; the exit code."""


class MeasurePart(Protocol):
    """One call of a part of `measure`."""

    def work(self, team: "Team", stop: "Stop", progress: "Progress") -> None:
        """Measure; called on every rank."""

    def found(self, team: "Team") -> "Found | None":
        """What was asked, and what was measured until now; None if that is nothing."""


def in_team(
    part: MeasurePart,
    out: Output,
    *,
    kind: str,
    backend: str | None,
    timeout_s: float,
    shown: "Shown | None" = None,
) -> int:
    """Run `part` on every rank, then show and write what it found on rank 0; the exit code.

    That is 1 if somebody is named as slow. Rank 0 also shows what there is after Ctrl-C (code 130),
    SIGTERM (code 143) and after a rank was lost (code 1); only rank 0 tells of wrong input. With
    several ranks the process ends here: what a broken process group leaves behind can hang or abort
    the end of the interpreter.
    """
    from syncwall.hosts import required_place

    here = required_place(os.environ)
    try:
        code = _run(part, out, kind, backend, timeout_s, shown or _shown)
    except InputError as error:
        if here.world == 1:
            raise
        if here.rank == 0:
            print(error.spelled(as_flag), file=sys.stderr)
        code = 2
    if here.world > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(
    part: MeasurePart, out: Output, kind: str, backend: str | None, timeout_s: float, shown: "Shown"
) -> int:
    from syncwall.cli.output import bar
    from syncwall.measure.lost_ranks import LostRankError
    from syncwall.measure.result import MachineLoad
    from syncwall.measure.team import joined, stoppable

    team, lost = None, None
    told: list[Told] = []
    with stoppable() as stop:
        try:
            with joined(backend, timeout_s) as team, bar(kind, hidden=not team.leads) as progress:
                stop.joined = True
                _check(out, team)
                with _watching(team, told):
                    part.work(team, stop, progress)
        except LostRankError as error:
            lost = error
        stop.writing = True
        if lost is not None:
            print(visible(str(lost)), file=sys.stderr)
        code = 0
        if team is not None and team.leads:
            load = MachineLoad.of(*told) if told else None
            code = shown(part, out, team, kind, load, complete=lost is None and not stop.agreed)
            code = stop.code if stop.agreed else code
    return code if lost is None else 1


def _check(out: Output, team: "Team") -> None:
    """All ranks end together if rank 0 could not write what it is asked to."""
    said = ""
    if team.leads:
        try:
            out.check()
        except InputError as error:
            said = error.spelled(as_flag)
    if wrong := team.gathered(said)[0]:
        raise InputError.of(wrong)


@contextmanager
def _watching(team: "Team", told: "list[Told]") -> Iterator[None]:
    """Adds what else the hosts did before and meanwhile; a lab, whose hosts are one, does it."""
    from syncwall.hosts import HOST_NAME
    from syncwall.measure.result import Meter, watched

    if HOST_NAME in os.environ:
        yield
        return
    host = team.hosts[team.rank]
    team.barrier()  # nobody is still starting
    told.append(team.gathered(watched(host)))
    meter = Meter(host)
    yield
    told.append(team.gathered(meter.spent()))


def _shown(
    part: MeasurePart,
    out: Output,
    team: "Team",
    kind: Any,
    load: "MachineLoad | None",
    *,
    complete: bool,
) -> int:
    from syncwall.measure.result import Result
    from syncwall.records import plain
    from syncwall.show.measurement import measurement_view

    found = part.found(team)
    if found is None:
        return 1
    settings, data = found
    result = Result(
        kind=kind,
        complete=complete,
        job=team.job,
        hosts=team.facts,
        settings=settings,
        data=data.model_dump(mode="json"),
        load=load,
    )
    out.write_data(f"measure {kind}", partial(measurement_view, result), partial(plain, result))
    return 1 if result.data.get("suspects") else 0


def refuse_alone(team: "Team", part: str) -> None:
    """InputError if a part of `measure` that needs several ranks has only one."""
    if team.world == 1:
        launch = f"torchrun --nproc-per-node 2 -m syncwall measure {part}"
        raise InputError.of(f"one rank has nobody to talk to: {launch}")


def amount(text: str, flag: str, dimension: Dimension = Dimension.BYTES) -> float:
    """The value of a flag with a unit."""
    try:
        value = units.parse(text, dimension)
    except ValueError as error:
        raise InputError.of(f"{flag}: {error}") from None
    if value <= 0:
        raise InputError.of(f"{flag}: {text} is not more than nothing")
    return value


_MOST_BYTES: Final = {"cpu": 64 * 2**20, "cuda": 8 * 10**9}


class MeasureCollectivesCommand(Command):
    """Time collectives over sizes, as nccl-tests does; launch with torchrun or srun."""

    backend: Literal["nccl", "gloo"] | None = None
    """What moves the data; NCCL where there is a GPU, else Gloo."""
    kinds: Annotated[str | None, Argument("NAMES")] = None
    """Which ones, such as all-reduce,all-gather; all six if left out."""
    least: Annotated[str, Argument("SIZE"), Field(alias="min-size")] = "8B"
    """The smallest size; each next one is 4 times as large."""
    most: Annotated[str | None, Argument("SIZE"), Field(alias="max-size")] = None
    """The largest size; 64 MiB on CPUs, 8 GB on GPUs, never more than memory allows."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """What the vectors hold."""
    trials: Annotated[int | None, Argument("N")] = None
    """Trials of each point; otherwise as many as fit into --seconds, 5 to 100."""
    seconds: Annotated[float, Argument("S")] = 1.0
    """Time for each point."""
    timeout: Annotated[float, Argument("S")] = 30.0
    """A call that takes longer means that a rank is lost."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.measure.collectives import Effort

        if self.trials is not None and self.trials < 1:
            raise InputError.of(f"--trials: {self.trials} is not a number of trials")
        effort = Effort(self.seconds, self.trials, longest_s=self.timeout / 4.0)
        part = CollectivesPart(_kinds(self.kinds), self.least, self.most, self.dtype, effort)
        return in_team(part, self.out, kind="collectives", backend=self.backend, timeout_s=self.timeout)


class CollectivesPart:
    """One call of the verb: what was asked, and the rows so far."""

    def __init__(
        self,
        kinds: "tuple[BenchmarkKind, ...]",
        least: str,
        most: str | None,
        dtype: str,
        effort: "Effort",
    ) -> None:
        self.kinds, self.least, self.most = kinds, least, most
        self.dtype, self.effort = dtype, effort
        self.rows: list[CollectiveRow] = []
        self.skipped: list[SkippedKind] = []

    def work(self, team: "Team", stop: "Stop", progress: "Callable[[float], None]") -> None:
        """Measure on every rank."""
        from syncwall.measure.collectives import CollectiveRow, measure_collectives

        refuse_alone(team, "collectives")
        found = measure_collectives(
            team,
            self.kinds,
            self._sizes(team),
            dtype=self.dtype,
            effort=self.effort,
            stop=stop,
            progress=progress,
        )
        for row in found:
            if isinstance(row, CollectiveRow):
                self.rows.append(row)
            else:
                self.skipped.append(row)

    def found(self, team: "Team") -> "tuple[dict[str, Any], CollectivesResult]":
        """What was asked, and the rows."""
        from syncwall.report import CollectivesResult

        asked = {
            "kinds": self.kinds,
            "min_size": self.least,
            "max_size": self.most,
            "dtype": self.dtype,
            "trials": self.effort.trials,
            "seconds": self.effort.seconds,
        }
        return asked, CollectivesResult(rows=tuple(self.rows), skipped=tuple(self.skipped))

    def _sizes(self, team: "Team") -> tuple[int, ...]:
        from syncwall.measure.collectives import most_bytes, sizes_between

        least = amount(self.least, "--min-size")
        asked = amount(self.most, "--max-size") if self.most else _MOST_BYTES[team.device.type]
        sizes = sizes_between(least, min(asked, most_bytes(team)))
        if not sizes:
            raise InputError.of(f"--min-size {self.least} is more than --max-size, or than memory allows")
        return sizes


def _kinds(text: str | None) -> "tuple[BenchmarkKind, ...]":
    from syncwall.measure.collectives import KINDS

    if text is None:
        return KINDS
    asked = [word.strip() for word in text.split(",") if word.strip()]
    for word in asked:
        refuse_unknown(word, KINDS, f'--kinds: unknown "{word}"')
    return tuple(kind for kind in KINDS if kind in asked)


class MeasureLinksCommand(Command):
    """Measure every pair of ranks, both ways, and name who is slow; launch with torchrun or srun.

    Exit code 1 if somebody is named.
    """

    backend: Literal["nccl", "gloo"] | None = None
    """What moves the data; NCCL where there is a GPU, else Gloo."""
    repeats: Annotated[int, Argument("N")] = 9
    """How often the whole schedule is run; fewer than 5 name nobody surely."""
    size: Annotated[str | None, Argument("SIZE")] = None
    """Of a transfer; otherwise so that one takes about 0.1 s."""
    expect: Annotated[str | None, Argument("RATE")] = None
    """What links between hosts should reach, such as 25Gb/s; those below 80% are named."""
    timeout: Annotated[float, Argument("S")] = 30.0
    """A call that takes longer means that a rank is lost."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        if self.repeats < 1:
            raise InputError.of(f"--repeats: {self.repeats} is not a number of repeats")
        size_bytes = int(amount(self.size, "--size")) if self.size else None
        expected = amount(self.expect, "--expect", Dimension.BYTES_PER_S) if self.expect else None
        part = _LinksPart(self.repeats, size_bytes, expected)
        return in_team(part, self.out, kind="links", backend=self.backend, timeout_s=self.timeout)


class _LinksPart:
    """One call of the verb: what was asked, and what was measured so far."""

    def __init__(self, repeats: int, size_bytes: int | None, expected: float | None) -> None:
        from syncwall.measure.links import LinkData

        self.repeats, self.size_bytes, self.expected = repeats, size_bytes, expected
        self.data = LinkData()

    def work(self, team: "Team", stop: "Stop", progress: Callable[[float], None]) -> None:
        """Measure on every rank."""
        from syncwall.measure.links import measure_links

        refuse_alone(team, "links")
        measure_links(
            team,
            self.data,
            repeats=self.repeats,
            size_bytes=self.size_bytes,
            stop=stop,
            progress=progress,
        )

    def found(self, team: "Team") -> "tuple[dict[str, Any], LinksResult]":
        """What was asked, the rates, and who is slow."""
        from syncwall.report import LinksResult

        asked = {"repeats": self.repeats, "expected_bytes_per_s": self.expected}
        return asked, LinksResult(
            rows=tuple(self.data.rows),
            suspects=self._suspects(team),
            size_bytes=self.data.size_bytes,
            repeats=self.data.repeats,
        )

    def _suspects(self, team: "Team") -> "tuple[SlowComponent, ...]":
        from syncwall.measure.suspects import slow_against, suspects

        if not self.data.repeats:
            return ()
        samples = self.data.samples
        found = suspects(samples, team.hosts)
        if self.expected is not None:
            named = {rank for one in found for rank in one.ranks}
            below = slow_against(samples, team.hosts, self.expected)
            found += tuple(one for one in below if not named & set(one.ranks))
        return found


_DEFAULTS: Final = {"cpu": ("tiny-5m", 128, 4, "fp32"), "cuda": ("llama-3.1-8b", 4096, 1, "bf16")}


class MeasureMatmulCommand(Command):
    """Time the matrix multiplications of a model, and its other kernels, on every rank at once."""

    model: Annotated[tuple[str, ...], Argument("NAME")] = ()
    """Whose shapes; catalogue names or paths."""
    seq: Annotated[int | None, Argument("TOKENS")] = None
    """Tokens in a sequence."""
    micro_batch: Annotated[int | None, Argument("N")] = None
    """Sequences in one forward pass."""
    tp: Annotated[int, Argument("N")] = 1
    """Tensor-parallel ranks that share each matrix."""
    precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Number format; bf16 on GPUs, fp32 on CPUs."""
    backend: Literal["nccl", "gloo"] | None = None
    """What moves data between ranks; NCCL where there is a GPU, else Gloo."""
    seconds: Annotated[float, Argument("S")] = 0.7
    """Time for each kernel."""
    timeout: Annotated[float, Argument("S")] = 60.0
    """A call that takes longer means that a rank is lost."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        part = MatmulPart(self.model, self.seq, self.micro_batch, self.tp, self.precision, self.seconds)
        return in_team(part, self.out, kind="matmul", backend=self.backend, timeout_s=self.timeout)


class MatmulPart:
    """One call of the verb: what was asked, and the rows so far."""

    def __init__(
        self,
        models: tuple[str, ...],
        seq: int | None,
        micro_batch: int | None,
        tp: int,
        precision: str | None,
        seconds: float,
    ) -> None:
        self.names, self.seq, self.micro_batch, self.tp = models, seq, micro_batch, tp
        self.precision, self.seconds = precision, seconds
        self.rows: list[KernelRow] = []
        self.beside: Overlap | None = None

    def work(self, team: "Team", stop: "Stop", progress: Callable[[float], None]) -> None:
        """Measure on every rank."""
        from syncwall.measure.overlap import measure_overlap
        from syncwall.measure.team import agreed
        from syncwall.measure.trials import measure_kernels

        found = self._kernels(team)
        for number, (workload, kernel) in enumerate(found.values()):
            self.rows += measure_kernels(team, [kernel], workload, seconds=self.seconds)
            progress((number + 1) / (len(found) + 1))
            if agreed(team, stop):
                return
        self.beside = measure_overlap(team)

    def found(self, team: "Team") -> "tuple[dict[str, Any], KernelTimes]":
        """What was asked, and the rows."""
        from syncwall.report import KernelTimes

        model, seq, batch, precision = self._settings(team)
        asked = {
            "models": self.names or (model,),
            "seq": seq,
            "micro_batch": batch,
            "tp": self.tp,
            "precision": precision,
            "seconds": self.seconds,
        }
        return asked, KernelTimes(rows=tuple(self.rows), beside=self.beside)

    def _kernels(self, team: "Team") -> "dict[str, tuple[Workload, TimedKernel]]":
        """By shape, the kernels of all models."""
        from syncwall.describe.lookup import model
        from syncwall.measure.kernel_times import Workload, kernels_of

        found: dict[str, tuple[Workload, TimedKernel]] = {}
        for name in self.names or (self._settings(team)[0],):
            workload = Workload(model(name), self._layout(team), self._seq(team))
            for kernel in kernels_of(workload):
                found.setdefault(str(kernel.what.dimensions), (workload, kernel))
        return found

    def _layout(self, team: "Team") -> "Layout":
        from syncwall.describe import Layout

        _, _, batch, precision = self._settings(team)
        layout = Layout.model_validate({"tp": self.tp, "micro_batch": batch, "precision": precision, "dp": 1})
        return layout.resolved(self.tp)

    def _seq(self, team: "Team") -> int:
        return self._settings(team)[1]

    def _settings(self, team: "Team") -> tuple[str, int, int, str]:
        """Model, tokens, sequences and format, where the flags leave them open."""
        model, seq, batch, precision = _DEFAULTS[team.device.type]
        return model, self.seq or seq, self.micro_batch or batch, self.precision or precision


class MeasureStepCommand(Command):
    """Run real training steps of a dense model, random weights and data, and book their time.

    The exit code is 1 if a rank holds the others up.
    """

    model: Annotated[str, Argument("NAME")] = "tiny-5m"
    """Catalogue name, or a path."""
    seq: Annotated[int, Argument("TOKENS")] = 128
    """Tokens in a sequence."""
    shard: Literal["ddp", "fsdp", "none"] = "ddp"
    """ddp, fsdp (FSDP2), or none: each rank for itself."""
    micro_batch: Annotated[int, Argument("N")] = 4
    """Sequences of each rank."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Number format of the multiplications."""
    bucket: Annotated[str, Argument("SIZE")] = "25MiB"
    """Gradients that DDP reduces in one call."""
    steps: Annotated[int, Argument("N")] = 10
    """Steps that count."""
    warm_up: Annotated[int, Argument("N")] = 2
    """Steps before them that do not."""
    device: Annotated[str | None, Argument("NAME")] = None
    """Catalogue name of the device, for MFU: of its dense 16-bit peak."""
    backend: Literal["nccl", "gloo"] | None = None
    """What moves the data; NCCL where there is a GPU, else Gloo."""
    timeout: Annotated[float, Argument("S")] = 30.0
    """A call that takes longer means that a rank is lost."""
    profile: Annotated[str | None, Argument("DIR", group="output")] = None
    """Write what PyTorch's profiler records of each rank into this directory."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.describe.lookup import device as known_device
        from syncwall.describe.lookup import model as named
        from syncwall.measure.training_step import StepSettings

        if self.steps < 1 or self.warm_up < 0:
            raise InputError.of("--steps must be at least 1, --warm-up at least 0")
        settings = StepSettings(
            model=named(self.model),
            seq=self.seq,
            shard=self.shard,
            micro_batch=self.micro_batch,
            precision=self.precision,
            bucket_bytes=amount(self.bucket, "--bucket"),
            steps=self.steps,
            warm_up=self.warm_up,
            peak_flop_per_s=known_device(self.device).sixteen_bit_flop_per_s if self.device else None,
            profile=self.profile,
        )
        return in_team(
            StepPart(settings), self.out, kind="step", backend=self.backend, timeout_s=self.timeout
        )


class StepPart:
    """One call of the verb."""

    def __init__(self, settings: "StepSettings") -> None:
        self.settings = settings
        self.data: StepData | None = None

    def work(self, team: "Team", stop: "Stop", progress: Callable[[float], None]) -> None:
        """Measure on every rank."""
        from syncwall.measure.loop import measure_step
        from syncwall.measure.team import agreed

        def stopped() -> bool:
            return agreed(team, stop)

        self._keep(measure_step(team, self.settings, progress, stopped, self._keep))

    def _keep(self, data: "StepData") -> None:
        self.data = data

    def found(self, team: "Team") -> "tuple[dict[str, Any], StepData] | None":
        """What was asked, and the step."""
        return (self.settings.model_dump(mode="json"), self.data) if self.data else None


class MeasureCalibrationCommand(Command):
    """Join results of `measure collectives` and `measure matmul` into one calibration file.

    It is printed as JSON unless a file is named.
    """

    results: Annotated[tuple[LocalFile, ...], Argument("RESULT", positional=True)] = ()
    """JSON files that `measure` wrote."""
    out: Annotated[Output, Argument(inline=True, group="output")] = Output()
    """Where the answer goes."""

    def run(self) -> int:
        """The exit code."""
        from syncwall.measure.calibrate import read_measured
        from syncwall.records import plain
        from syncwall.show.measurement import calibration_view

        self.out.check()
        if not self.results:
            raise InputError.of("write the files to join: measure calibration RESULT.json ...")
        found = read_measured(self.results)
        out = self.out if self.out != Output() else Output(json_file="-")
        out.write_data("measure calibration", partial(calibration_view, found), partial(plain, found))
        return 0
