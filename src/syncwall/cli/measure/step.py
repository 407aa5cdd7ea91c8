"""`syncwall measure step`: a real training step, with its ledger.

Holds `step`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from syncwall.cli.output import Output, OutputFlags
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.measure.step import StepData, StepSettings
    from syncwall.measure.team import Stop, Team


def step(  # noqa: PLR0913, PLR0917 - the flags of the verb
    model: Annotated[str, tyro.conf.arg(metavar="NAME")] = "tiny-5m",
    seq: Annotated[int, tyro.conf.arg(metavar="TOKENS")] = 128,
    shard: Literal["ddp", "fsdp", "none"] = "ddp",
    micro_batch: Annotated[int, tyro.conf.arg(metavar="N")] = 4,
    precision: Literal["fp32", "bf16"] = "fp32",
    bucket: Annotated[str, tyro.conf.arg(metavar="SIZE")] = "25MiB",
    steps: Annotated[int, tyro.conf.arg(metavar="N")] = 10,
    warm_up: Annotated[int, tyro.conf.arg(metavar="N")] = 2,
    device: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None,
    backend: Literal["nccl", "gloo"] | None = None,
    timeout: Annotated[float, tyro.conf.arg(metavar="S")] = 30.0,
    profile: Annotated[str | None, tyro.conf.arg(metavar="DIR")] = None,
    out: Output = OutputFlags(),  # noqa: B008 - a dataclass of defaults, never changed
) -> int:
    """Run real training steps of a dense model, random weights and data, and book their time.

    The exit code is 1 if a rank holds the others up.

    Args:
        model: Catalogue name, or a path.
        seq: Tokens in a sequence.
        shard: ddp, fsdp (FSDP2), or none: each rank for itself.
        micro_batch: Sequences of each rank.
        precision: Number format of the multiplications.
        bucket: Gradients that DDP reduces in one call.
        steps: Steps that count.
        warm_up: Steps before them that do not.
        device: Catalogue name of the device, for MFU: of its dense 16-bit peak.
        backend: What moves the data; NCCL where there is a GPU, else Gloo.
        timeout: A call that takes longer means that a rank is lost.
        profile: Write what PyTorch's profiler records of each rank into this directory.
        out: Where the answer goes.
    """
    from syncwall.cli.measure.session import amount, in_team
    from syncwall.describe.lookup import device as known_device
    from syncwall.describe.lookup import model as named
    from syncwall.measure.step import StepSettings

    if steps < 1 or warm_up < 0:
        raise InputError.of("--steps must be at least 1, --warm-up at least 0")
    settings = StepSettings(
        model=named(model), seq=seq, shard=shard, micro_batch=micro_batch, precision=precision,
        bucket_bytes=amount(bucket, "--bucket"), steps=steps, warm_up=warm_up,
        peak_flop_per_s=known_device(device).sixteen_bit_flop_per_s if device else None,
        profile=profile,
    )  # fmt: skip
    return in_team(_Part(settings), out, kind="step", backend=backend, timeout_s=timeout)


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
