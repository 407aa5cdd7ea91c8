"""The flags with which verbs take a run.

Holds `RunFlags` (a run file and what overrides it), `LayoutFlags` and `SoftwareFlags` (every key of
a layout and of its software, as text) and `gpu_counts`. `share_of`: shares as people write them.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import tyro

from syncwall.describe import Layout, Software
from syncwall.describe.base import Description
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.answer.site import Site
    from syncwall.cost.measured import MachineMeasurements
    from syncwall.describe import Run
    from syncwall.describe.settings import Settings
    from syncwall.plan.reference import PlanInputs


def as_flags(
    name: str, described: type[Description], *, short: bool = False, elsewhere: Sequence[str] = ()
) -> Any:
    """A dataclass with every key of a description as text, and one inside for each of its parts.

    Texts are read as they would be from a file. With `short` forms: --tp for --layout.tp, and a
    part is one text: --lora "{rank: 16}". Keys `elsewhere` are given by other flags.
    """
    members: list[Any] = []
    for key, one in described.model_fields.items():
        word, part = one.alias or key, _part(one.annotation)
        if part is not None and not short and key not in elsewhere:
            inner = as_flags(f"{name}{part.__name__}", part)
            members.append((key, inner, inner()))
        elif key not in elsewhere:
            aliases = (f"--{word.replace('_', '-')}",) if short else None
            text = Annotated[str | None, tyro.conf.arg(metavar="VALUE", aliases=aliases)]
            members.append((word, text, None))
    return make_dataclass(name, members, frozen=True, namespace={"described": described})


def _part(annotation: Any) -> type[Description] | None:
    """The description in an annotation such as `Spikes` or `Spikes | None`; None for a list."""
    if get_origin(annotation) is tuple:
        return None
    for inner in (annotation, *get_args(annotation)):
        if isinstance(inner, type) and issubclass(inner, Description):
            return inner
    return None


def stated(flags: Any, before: str) -> dict[str, str]:
    """The flags that were given, by their names with what stands `before` ("failures.repair")."""
    found: dict[str, str] = {}
    for one in fields(flags):
        value, name = getattr(flags, one.name), f"{before}{one.name}"
        if is_dataclass(value):
            found |= stated(value, f"{name}.")
        elif value is not None:
            found[name] = value
    return found


LayoutFlags: Any = as_flags("LayoutFlags", Layout, short=True)
SoftwareFlags: Any = as_flags("SoftwareFlags", Software, short=True)


@dataclass(frozen=True)
class RunFlags:
    """A run, and what is known of its machine."""

    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = None
    """A run file or a job file (YAML); flags override what it says."""
    model: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The model: a catalogue name, a name of the Hugging Face hub, or a path (YAML, config.json or
    its directory)."""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The machine: a catalogue name, or a path."""
    nodes: Annotated[str | None, tyro.conf.arg(metavar="N")] = None
    """Nodes used; those of the cluster if not given."""
    gpus_per_node: Annotated[str | None, tyro.conf.arg(metavar="N")] = None
    """GPUs used in each node; all of them if not given."""
    gpus: Annotated[str | None, tyro.conf.arg(metavar="N")] = None
    """GPUs used, in place of nodes; `plan layouts` and `plan network` take several: 256,512, or
    256..4096, which doubles."""
    seq: Annotated[str | None, tyro.conf.arg(metavar="TOKENS")] = None
    """Tokens in a sequence; as many as the model was trained with if not given."""
    from_file: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None
    """Take model, layout and batch from settings of torchtitan (TOML), Megatron-LM (arguments),
    NeMo or Megatron-Bridge (YAML), DeepSpeed (JSON), Hugging Face accelerate (YAML) or its Trainer
    (YAML, JSON, arguments); flags override them."""
    layout: LayoutFlags = field(default_factory=LayoutFlags)
    """Parallel layout, as in a run file: tp 8, shard fsdp, bucket 25MiB, ... What is left out is
    chosen; `plan layouts` takes several values: tp 4,8."""
    software: SoftwareFlags = field(default_factory=SoftwareFlags)
    """Framework (`show frameworks`), date (2025-04), attention, kernels, graphs, ..."""
    known_run: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = ()
    """Measured runs of the same cluster (run files with `measured`), three if there are: prices of
    computing, network and host are anchored to them."""
    calibration: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE")] = ()
    """Results of `syncwall measure` on the machine, a calibration made of them or by hand (one GEMM
    rate is enough), or outputs of nccl-tests: measured beats catalogue."""
    catalogue: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Look in this directory first (devices/NAME.yaml, ...)."""

    @property
    def stated(self) -> dict[str, str]:
        """The flags that were given, by their names ("model", "layout.tp"), for `run_with`."""
        names = ("model", "cluster", "nodes", "gpus_per_node", "gpus", "seq")
        own = {name: text for name in names if (text := getattr(self, name)) is not None}
        return own | stated(self.layout, "layout.") | stated(self.software, "software.")

    def check(self, settings: "Settings | None" = None) -> None:
        """Refuse a call that names no run; `settings` may name the model."""
        model = self.model or (settings.run.get("model") if settings else None)
        if self.file is None and not (model and self.cluster):
            raise InputError.of("write --model NAME and --cluster NAME, or a run file")

    def settings(self) -> "Settings | None":
        """The settings of --from; what of them is read only roughly is said on standard error."""
        from syncwall.describe.settings import read_settings

        if self.from_file is None:
            return None
        found = read_settings(self.from_file)
        for note in found.notes:
            print(note, file=sys.stderr)
        return found

    def run(self, *, sections: bool = False, **beside: str | None) -> "Run":
        """The run that is meant, with what other flags say `beside` these.

        `sections` as in `run_with`.
        """
        from syncwall.describe.overrides import run_with

        settings = self.settings()
        self.check(settings)
        further = {name: text for name, text in beside.items() if text is not None}
        return run_with(self.file, self.stated | further, settings, sections=sections)

    def measured(self) -> "MachineMeasurements | None":
        """What was measured on the machine."""
        if not self.calibration:
            return None
        from syncwall.read.machine_measured import read_machine_measured

        return read_machine_measured(self.calibration)

    def site(self, measured: "MachineMeasurements | None" = None) -> "Site":
        """What known runs say."""
        from syncwall.answer.known import site_of

        return site_of(self.known_run, measured)

    def said(self) -> "PlanInputs":
        """What a plan starts from."""
        from syncwall.plan.reference import PlanInputs

        settings = self.settings()
        self.check(settings)
        measured = self.measured()
        return PlanInputs(self.file, self.stated, settings, measured, self.site(measured))


def gpu_counts(text: str | None) -> list[int]:
    """Counts written as "512", "512,1024" or "512..4096", which doubles; none if there is none."""
    if text is None:
        return []
    try:
        if ".." in text:
            first, last = (int(part) for part in text.split(".."))
            counts = [first]
            while 0 < counts[-1] * 2 <= last:
                counts.append(counts[-1] * 2)
        else:
            counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise InputError.of(f'--gpus: "{text}" is not a count: write 512, 512,1024 or 256..4096')
    return counts


Whose = Annotated[RunFlags, tyro.conf.arg(name="")]
"""The run flags of a verb, without a prefix."""


def share_of(text: str) -> float | None:
    """5% or 0.05 as 0.05; None if it is no number."""
    try:
        return float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        return None
