"""`syncwall measure matmul`: rates of the kernels of a training step.

Holds `matmul`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from syncwall.ask.question import Argument
from syncwall.cli.call import Command
from syncwall.cli.output import Output

if TYPE_CHECKING:
    from syncwall.describe import Layout
    from syncwall.measure.kernels import Kernel, KernelRow, Workload
    from syncwall.measure.overlap import Overlap
    from syncwall.measure.team import Stop, Team
    from syncwall.report import KernelTimes

_DEFAULTS: Final = {"cpu": ("tiny-5m", 128, 4, "fp32"), "cuda": ("llama-3.1-8b", 4096, 1, "bf16")}


class Matmul(Command):
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
        from syncwall.cli.measure.session import in_team

        part = _Part(self.model, self.seq, self.micro_batch, self.tp, self.precision, self.seconds)
        return in_team(part, self.out, kind="matmul", backend=self.backend, timeout_s=self.timeout)


class _Part:
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

    def _kernels(self, team: "Team") -> "dict[str, tuple[Workload, Kernel]]":
        """By shape, the kernels of all models."""
        from syncwall.describe.lookup import model
        from syncwall.measure.kernels import Workload, kernels_of

        found: dict[str, tuple[Workload, Kernel]] = {}
        for name in self.names or (self._settings(team)[0],):
            workload = Workload(model(name), self._layout(team), self._seq(team))
            for kernel in kernels_of(workload):
                found.setdefault(str(kernel.what.dimensions), (workload, kernel))
        return found

    def _layout(self, team: "Team") -> "Layout":
        from syncwall.describe import Layout

        _, _, batch, precision = self._settings(team)
        layout = Layout.model_validate(
            {"tp": self.tp, "micro_batch": batch, "precision": precision, "dp": 1}
        )
        return layout.resolved(self.tp)

    def _seq(self, team: "Team") -> int:
        return self._settings(team)[1]

    def _settings(self, team: "Team") -> tuple[str, int, int, str]:
        """Model, tokens, sequences and format, where the flags leave them open."""
        model, seq, batch, precision = _DEFAULTS[team.device.type]
        return model, self.seq or seq, self.micro_batch or batch, self.precision or precision
