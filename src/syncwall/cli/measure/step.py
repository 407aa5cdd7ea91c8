"""`syncwall measure step`: a real training step, with its ledger.

Holds `step`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from syncwall.ask.question import Argument
from syncwall.cli.call import Command
from syncwall.cli.output import Output
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.measure.step import StepData, StepSettings
    from syncwall.measure.team import Stop, Team


class Step(Command):
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
        from syncwall.cli.measure.session import amount, in_team
        from syncwall.describe.lookup import device as known_device
        from syncwall.describe.lookup import model as named
        from syncwall.measure.step import StepSettings

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
            peak_flop_per_s=known_device(self.device).sixteen_bit_flop_per_s
            if self.device
            else None,
            profile=self.profile,
        )
        return in_team(
            _Part(settings), self.out, kind="step", backend=self.backend, timeout_s=self.timeout
        )


class _Part:
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
