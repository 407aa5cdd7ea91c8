"""A training run: a model on a cluster in a layout, checked against each other, and how fast
it was.

What follows from the rest by arithmetic (GPUs, replicas, batch, sequence length) is filled in or
refused; what somebody has to choose (micro batch, recomputation, sharding, ...) may stay open until
`answer.settled` chooses it.
"""

import re
from math import ceil, log2
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from syncwall import units
from syncwall.catalogue import CatalogueKind
from syncwall.describe.base import (
    OPEN,
    RANGES,
    Description,
    FlopPerSecond,
    Open,
    Positive,
    Ratio,
    Seconds,
    SequenceTokens,
    faults,
    is_open,
)
from syncwall.describe.cluster import Cluster
from syncwall.describe.layout import Layout
from syncwall.describe.model import Model
from syncwall.describe.names import Ref, load
from syncwall.describe.rules import broken_rules
from syncwall.describe.software import Framework, Software
from syncwall.units import Dimension

_MOST: Final = RANGES[Dimension.TOKENS][1]
PositiveRate = Annotated[float, Field(gt=0, le=_MOST, strict=True, allow_inf_nan=False)]
_NUMBER: Final = r"(?P<number>\d[\d,_]*\.?\d*(?:e[+-]?\d+)?)\s*(?P<scale>[kM]?)\s*"
_RATE: Final = re.compile(_NUMBER + r"(?:tok(?:en)?s?(?:/s|ps))\s*(?P<each>/\s*gpu)?", re.IGNORECASE)
_MFU: Final = re.compile(_NUMBER + r"(?P<percent>%?)\s*mfu", re.IGNORECASE)
_FLOPS: Final = re.compile(_NUMBER + r"t(?:era)?flops?(?:/s)?(?:/gpu)?", re.IGNORECASE)
_PER_S: Final = re.compile(_NUMBER + r"(?:it(?:eration)?s?|steps?)/s", re.IGNORECASE)
_PER_STEP: Final = re.compile(r"(?P<time>.*)/\s*(?:it(?:eration)?|step)", re.IGNORECASE)
_BARE: Final = re.compile(_NUMBER + "(?:tps)?", re.IGNORECASE)
_SCALES: Final = {"": 1.0, "k": 1e3, "m": 1e6}
_WAYS: Final = ("step_s", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "flop_per_s_per_gpu", "logged")
_EXAMPLES: Final = '"9.1 s", "5100 tok/s/gpu", "296 TFLOP/s/GPU" or "38% mfu"'


class MeasuredSpeed(Description):
    """How fast a run was, in one of several ways."""

    step_s: Seconds | None = Field(None, alias="step")
    """Seconds of an optimizer step, the median of many."""
    tokens_per_s: PositiveRate | None = None
    """Of all GPUs together."""
    tokens_per_s_per_gpu: PositiveRate | None = None
    mfu: Ratio | None = None
    """Model FLOPs utilization: causal, without recomputation, of the dense 16-bit peak."""
    flop_per_s_per_gpu: FlopPerSecond | None = Field(None, alias="flops_per_gpu")
    """FLOP/s of one GPU without recomputation, attention counted as the framework's log does."""
    logged: PositiveRate | None = None
    """A bare number, as the framework logs it: tokens/s/GPU of torchtitan (tps)."""
    same_build: bool = False
    """True if the runs asked for will be of the same build on the same machines: what this run
    shows is then taken over nearly whole."""

    @model_validator(mode="before")
    @classmethod
    def _from_a_line(cls, value: Any) -> Any:
        """A line such as 5100 tok/s/gpu as a mapping; a text that is no rate is a time."""
        return _said(str(value)) if isinstance(value, str | int | float) else value

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if sum(getattr(self, way) is not None for way in _WAYS) != 1:
            raise ValueError(
                "write one of `step`, `tokens_per_s`, `tokens_per_s_per_gpu`, `mfu` and `flops_per_gpu`"
            )
        return self

    def seconds(
        self, tokens: float, gpus: float, at_peak_s: float = float("nan"), peak: float = float("nan")
    ) -> float:
        """Seconds of a step of `tokens` that takes `at_peak_s` at an MFU of 1, `peak` FLOP/s."""
        if self.step_s is not None:
            return self.step_s
        if self.mfu is not None:
            return at_peak_s / self.mfu
        if self.flop_per_s_per_gpu is not None:
            return at_peak_s * peak / self.flop_per_s_per_gpu
        return tokens / (self.tokens_per_s or (self.tokens_per_s_per_gpu or 0.0) * gpus)


def _said(text: str) -> dict[str, Any]:
    if found := _MFU.fullmatch(text.strip()):
        return {"mfu": _number(found) / (100.0 if found["percent"] else 1.0)}
    if found := _RATE.fullmatch(text.strip()):
        return {"tokens_per_s_per_gpu" if found["each"] else "tokens_per_s": _number(found)}
    if found := _FLOPS.fullmatch(text.strip()):
        return {"flop_per_s_per_gpu": _number(found) * 1e12}
    if found := _PER_S.fullmatch(text.strip()):
        return {"step_s": 1.0 / _number(found)}
    if found := _BARE.fullmatch(text.strip()):
        return {"logged": _number(found)}
    per_step = _PER_STEP.fullmatch(text.strip())
    time = per_step["time"] if per_step else text
    try:
        units.parse(time, Dimension.SECONDS)
    except ValueError:
        message = f'"{text[:40]}" is not a speed: write {_EXAMPLES}'
        raise PydanticCustomError("syncwall", "{message}", {"message": message}) from None
    return {"step": time}


def _number(found: re.Match[str]) -> float:
    plain = found["number"].replace(",", "").replace("_", "")
    return float(plain) * _SCALES[found["scale"].lower()]


ModelRef = Annotated[Model, Ref(CatalogueKind.MODEL)]
ClusterRef = Annotated[Cluster, Ref(CatalogueKind.CLUSTER)]
_SHORTEST_S, _LONGEST_S = 1e-6, 1e6
GPU_TOKENS: Final = 2**13
"""Tokens of a step for each GPU if nobody states a batch or a number of GPUs: 4 M tokens on 512 of
them. Published runs have 1,024 (Llama 3 405B on 16,384 GPUs) to 32,768."""
GPU_SAMPLES: Final = 2**5
"""The same of a stack, in samples: Stable Diffusion 2's speeds are published for 16 to 256."""


BATCH_TOKENS: Final = 2**24
"""Most tokens of a step if neither the user nor the model's publication states them: as Llama 3 405B."""


def of_a_gpu(model: Model) -> tuple[int, str]:
    """How much of a step each GPU has if nobody says, and of what."""
    return (GPU_TOKENS, "tokens") if model.stack is None else (GPU_SAMPLES, "samples")


def default_batch(model: Model, seq: int, gpus: int) -> tuple[float, str]:
    """Sequences of a step on `gpus` GPUs if nobody states them, before any rounding, and why.

    Enough to keep a GPU busy, but no more than people train with.
    """
    each, words = of_a_gpu(model)
    sequences = each / seq if seq > each else 2 ** ceil(log2(each / seq))  # which micro batches share
    most = BATCH_TOKENS if model.train_batch_tokens is None else model.train_batch_tokens
    if model.stack is not None or each * gpus <= most:
        return sequences * gpus, f"about {each:,} {words} for each GPU"
    published = "" if model.train_batch_tokens is None else f", as published for {model.name}"
    return most / seq, f"about {most / 1e6:.1f} million tokens{published}"


class Run(Description):
    """One training run."""

    model: ModelRef
    """By catalogue name, path (YAML, Hugging Face config.json or its directory), or in place."""
    cluster: ClusterRef
    """By catalogue name, path, or in place."""
    nodes: Open[Positive] = OPEN
    """Nodes used; those of the cluster if not given."""
    gpus_per_node: Open[Positive] = OPEN
    """GPUs used in each node; those of the cluster if not given."""
    gpus: Open[Positive] = OPEN
    """GPUs used, as another way to say `nodes`: whole nodes, or part of one."""
    layout: Layout = Field(default_factory=Layout)
    """What follows from the GPUs (dp, shard_degree, global_batch) is filled in; the rest may stay
    open."""
    software: Software = Field(default_factory=Software)
    seq: Open[SequenceTokens] = OPEN
    """Tokens in a sequence; the length that the model was trained with if not given."""
    measured: MeasuredSpeed | None = None
    """How fast it really was, if it ran: `{step: 9.1 s}`, or "5100 tok/s/gpu"."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        cluster = self._machine()
        seq = self.model.train_seq if is_open(self, "seq") else self.seq
        if seq is None:
            raise ValueError(f'"seq" is missing: no training length is known for {self.model.name}')
        pieces = self.model.patches or self.model.frames
        if pieces is not None and seq != pieces.tokens:
            message = f"a sample of {self.model.name} is {pieces.tokens} tokens: change its size"
            raise faults([(("seq",), message)])
        if self.model.stack is not None and seq != 1:
            raise faults([(("seq",), "a stack counts in samples: leave seq out")])
        batch, _ = default_batch(self.model, seq, cluster.gpus)
        layout = self.layout.placed(cluster.gpus, batch / cluster.gpus)
        broken = broken_rules(self.model, layout.plain(), seq, cluster.gpus)
        if broken:
            raise faults([(("layout", field), reason) for field, reason in broken])
        for name, value in (
            ("cluster", cluster),
            ("nodes", cluster.nodes),
            ("gpus_per_node", cluster.gpus_per_node),
            ("gpus", cluster.gpus),
            ("layout", layout),
            ("seq", seq),
        ):
            object.__setattr__(self, name, value)
        self._check_measured()
        return self

    def speed(self, measured: MeasuredSpeed | str | float) -> MeasuredSpeed:
        """How fast the run was, a bare number read as its framework logs it."""
        speed = MeasuredSpeed.model_validate(measured)
        if speed.logged is None:
            return speed
        name = None if is_open(self.software, "framework") else self.software.framework
        if name is None or not load(CatalogueKind.FRAMEWORK, Framework, name).logs_tokens_per_gpu:
            whose = "no framework is named" if name is None else f"{name} logs no bare number"
            said = f"{speed.logged:g} has no unit, and {whose}: write {_EXAMPLES}"
            raise faults([(("measured",), said)])
        return MeasuredSpeed(tokens_per_s_per_gpu=speed.logged, same_build=speed.same_build)

    def _check_measured(self) -> None:
        if self.measured is None:
            return
        object.__setattr__(self, "measured", self.speed(self.measured))
        if self.measured.mfu is not None or self.measured.flop_per_s_per_gpu is not None:
            return
        step_s = self.measured.seconds(self.tokens_per_step, self.gpus)
        if not _SHORTEST_S <= step_s <= _LONGEST_S:
            raise faults([(("measured",), f"a step of {step_s:g} s is impossible")])

    def _machine(self) -> Cluster:
        """The cluster with as much in use as is stated."""
        used = self.cluster.using(self.nodes, self.gpus_per_node)
        if is_open(self, "gpus") or self.gpus == used.gpus:
            return used
        if not is_open(self, "nodes"):
            message = f"{self.nodes} nodes of {used.gpus_per_node} GPUs are not {self.gpus} GPUs"
            raise faults([(("gpus",), message)])
        if self.gpus > used.gpus_per_node and self.gpus % used.gpus_per_node:
            message = f"{self.gpus} GPUs do not fill whole nodes of {used.gpus_per_node}"
            raise faults([(("gpus",), message)])
        return used.with_gpus(self.gpus)

    def changed(self, **fields: Any) -> "Run":
        """The run with other `fields` of its layout (None: open, or filled in again), checked."""
        return self.on(self.cluster, self.layout.model_copy(update=fields))

    def on(self, cluster: Cluster, layout: Layout | None = None) -> "Run":
        """The run on another machine, or another part of it, checked."""
        layout = self.layout if layout is None else layout
        stated = {name: getattr(layout, name) for name in {*layout.model_fields_set, "global_batch"}}
        return Run(
            model=self.model,
            cluster=cluster,
            layout=Layout(**stated),
            software=self.software,
            seq=self.seq,
        )

    @property
    def tokens_per_step(self) -> int:
        """Tokens of one optimizer step."""
        return int(self.layout.global_batch or 0) * self.seq


class KnownRun(Run):
    """A training run with its measured speed."""

    measured: MeasuredSpeed
