"""What real devices and networks reach of their peaks: data, with source and trust.

Holds `Calibration` with its parts, and `calibration`, which finds the one of a device. A device
without its own takes the generic one, whose numbers are marked as assumed.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from syncwall.catalogue import CatalogueKind, added_folders, names
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe.base import (
    MOST,
    Bytes,
    BytesPerSecond,
    CatalogueEntry,
    Delay,
    Description,
    NotNegativeNumber,
    Positive,
    PositiveNumber,
    Provenance,
    Ratio,
    SourcedNumber,
    Trust,
)
from syncwall.describe.choice import Dtype
from syncwall.describe.device import Device
from syncwall.describe.names import load
from syncwall.describe.software import Month
from syncwall.units import Dimension
from syncwall.work.operations import CollectiveKind

_GLOO_RATE = SourcedNumber(
    0.9e9,
    Dimension.BYTES_PER_S,
    Provenance(Trust.MEASURED, "scale-ops-net-1", note="all-reduce busbw on two nodes, 0.86"),
)
_NO_TIME = SourcedNumber(0.0, Dimension.SECONDS, Provenance())
Fraction = Annotated[float, Field(gt=0, le=1.5)]


class Fit(Description):
    """A block of a calibration."""

    fitted: dict[str, str] = Field(default_factory=dict)
    """By the name of the fit that wrote numbers of the block: its sources, rows and residuals."""


class GemmFit(Fit):
    """Matrix multiplication: seconds from shape.

    t = (t_compute^4 + t_memory^4)^(1/4) + launch, with t_compute = 2 x area x (k + half_depth) /
    (peak x efficiency x in_training), the area that of the output, rounded up in part to tiles
    and to waves of tiles; see docs/explanation/compute.md.
    """

    efficiency: Fraction
    """Of the dense peak, for large shapes and a kernel alone, long enough to meet the power
    limit."""
    burst: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Time that the shortest kernels on a rested device save of that; no training step does."""
    burst_s: Delay = Field(0.0, alias="burst_time")
    """Length of the kernel that saves half as much."""
    in_training: Fraction = 1.0
    """The efficiency inside a training step over that alone: other layouts, clocks under load. The
    software of a run sets it, from `Calibration.training`."""
    half_depth: NotNegativeNumber
    """Contracted length at which half of the time is start-up."""
    pad_cost: Ratio = 1.0
    """How much padding to whole tiles costs: 0 nothing, 1 as much as work; at least wave_cost."""
    wave_cost: Annotated[float, Field(ge=0, le=1)]
    """How much an incomplete last wave of tiles costs: 0 nothing, 1 as much as a full one."""
    tile_m: Positive
    tile_n: Positive
    launch_s: Delay = Field(alias="launch")
    group_s: Delay = Field(0.0, alias="group")
    """Time of each further multiplication of a group (experts)."""
    memory_efficiency: Fraction
    weight_gradient: Fraction = 0.955
    """Speed of a weight gradient over that of the forward multiplication."""
    low_precision: dict[Dtype, Fraction] = Field(default_factory=dict)
    """Share of the higher peak of a narrow format that training reaches over that of bf16."""
    misaligned: Fraction = 0.48
    """Speed where a dimension is not a multiple of 8."""


class AttentionFit(Fit):
    """Attention: seconds from shape.

    t = FLOP / (peak x efficiency by kernel) x (1 + half_length / s) x (1 + half_filled x
    multiprocessors / blocks), with a block for each head and 128 queries.
    """

    flash_3: Fraction = Field(alias="flash-3")
    flash_2: Fraction = Field(alias="flash-2")
    flash_1_ratio: Fraction = 0.62
    """Efficiency of the first fused kernels (FlashAttention 1, Triton, 2022 and 2023) over that of
    flash-2; from runs of MPT on A100."""
    half_length: NotNegativeNumber
    """Length of a sequence at which half of the time is start-up."""
    half_filled: NotNegativeNumber = 1.0
    """Blocks a multiprocessor at which half of the device idles."""
    backward: Fraction
    """Efficiency backward over forward."""
    head_overhead: NotNegativeNumber = 32.0
    """Speed goes as d / (d + this), 1 from heads of 128 dimensions on."""
    older_head_overhead: NotNegativeNumber = 32.0
    """The same for flash-2 and flash-1; assumed, 50 on L40S."""
    unfused: Fraction = 0.42
    """Of the peak, for the two batched multiplications of unfused attention in training, times
    d / (d + unfused_head_overhead); from runs of Megatron and BLOOM on A100."""
    unfused_head_overhead: NotNegativeNumber = 32.0
    unfused_misaligned: Fraction = 0.03
    """Of the peak, where the head dimension is not a multiple of 8; from runs of BLOOM."""
    unfused_score_bytes: PositiveNumber = 15.0
    """Memory traffic for one score where softmax, mask and dropout are kernels of their own,
    forward and again backward."""


class ElementwiseFit(Fit):
    """Memory-bound work."""

    efficiency: Fraction
    """Of the memory rate."""
    traffic: PositiveNumber = 1.0
    """Traffic of real fused kernels over that of perfectly fused ones; the framework sets it."""
    cast: PositiveNumber = 1.0
    """Traffic of casts to narrow formats over one with a scale for a tensor; the software sets it.
    """
    eager: Annotated[float, Field(ge=1, le=MOST)] = 3.0
    """Traffic, kernels and host time without fusion over with it, of kernels that nobody counted."""
    launch_s: Delay = Field(alias="launch")


class KindFit(Description):
    """One kind of collective in a domain, against NCCL's own model; see `cost.link_efficiency`."""

    latency: PositiveNumber
    """Latency over NCCL's own prediction."""
    per_rank_s: Delay = Field(alias="per_rank")
    """Latency added for each rank, up to eight."""
    rate: Annotated[float, Field(gt=0, le=2)]
    """Reached rate over NCCL's own prediction, once pipelines are full."""
    own_part: NotNegativeNumber
    """Cost of a rank's own part, which is only copied, over that of a part on the wire."""
    ramp_s: Delay = Field(alias="ramp")
    """Longest time that filling pipelines takes, for each step (all-to-all: in all)."""
    ramp_bytes: Bytes = Field(alias="ramp_at")
    """Part of one rank at which half of it is spent."""


class NetworkFit(Fit):
    """Communication."""

    all_reduce: KindFit = Field(alias="all-reduce")
    all_gather: KindFit = Field(alias="all-gather")
    reduce_scatter: KindFit = Field(alias="reduce-scatter")
    all_to_all: KindFit = Field(alias="all-to-all")
    nic: Fraction
    """Of the NICs' line rate inside a training step, for two domains. What a collective alone
    reaches is more, see `cost.link_efficiency.TransportFit`."""
    nic_per_doubling: Annotated[float, Field(ge=0, lt=0.1)]
    """Line rate lost with every doubling of domains, inside a training step."""
    shared_nic: Fraction = 0.75
    """NIC rate left where several GPUs share one and some reach it through the host; assumed."""
    tcp: Fraction = 0.6
    """Of the line rate, over sockets; published: 52% of 25 Gb/s, 80% of 100 Gb/s."""
    gloo_bytes_per_s: BytesPerSecond = Field(_GLOO_RATE, alias="gloo")
    """Bus rate of Gloo, whose CPUs add the numbers, whatever the wire."""
    ring_rank_s: Delay = Field(_NO_TIME, alias="ring_rank")
    """Added for each rank to an all-gather or reduce-scatter over the network; the software of a
    run sets it, see `Framework.ring_rank_s`."""
    one_rail: bool = False
    """Only one NIC of a node is used; the software of a run sets it, see `Framework.one_rail`."""
    contention: Annotated[float, Field(ge=0, lt=1)]
    """Share of its speed that computation loses while weights or gradients move beside it: the same
    multiprocessors and memory (NCCL), or the same cores (Gloo), send and add."""

    def of(self, kind: CollectiveKind) -> KindFit:
        """The fit of `kind`; a broadcast is priced like an all-gather."""
        found: KindFit = getattr(self, kind.replace("-", "_"), self.all_gather)
        return found


class RankFit(Description):
    """The differences between ranks."""

    jitter: Annotated[float, Field(ge=0, lt=0.5)] = 0.016
    """Standard deviation of a node's step time over its mean: hosts, temperatures, clocks. Fitted
    by `bench fit nodes` to pairs of runs that differ only in their nodes; published for single
    GPUs: 1 to 3%. What the GPUs of one node differ is part of what was measured on one."""
    meeting_s: Delay = Field(_NO_TIME, alias="meeting")
    """Wait for the slowest rank each time that ranks meet after computing: where several share
    cores, each is held up in turn."""


class Calibration(CatalogueEntry):
    """What one device reaches."""

    device: str | None = None
    gemm: GemmFit
    attention: AttentionFit
    elementwise: ElementwiseFit
    network: NetworkFit
    ranks: RankFit = RankFit()
    measured: MachineMeasurements = MachineMeasurements()
    """What was measured on the machine itself."""

    @property
    def is_measured(self) -> bool:
        """True if somebody measured this device; else its numbers are those of another one."""
        return (self.provenance or {}).get("trust") != Trust.ASSUMED

    training: dict[Month, Fraction]
    """Speed of matrix multiplications inside a training step over a kernel alone, by the month
    from which software reached it: other layouts, clocks under load, young libraries."""


def calibration(device: Device, measured: MachineMeasurements | None = None) -> Calibration:
    """The calibration of `device`, or the generic one, with what was `measured` on the machine."""
    found = _calibration(device.name, device.like, added_folders())
    if not found.is_measured:
        found = _as_measured(found, device)
    if device.clock_share < 1:
        found = _slower(found, device.clock_share)
    if measured is None:
        return found
    network, ranks = found.network, found.ranks
    if measured.host_share is not None:
        network = network.model_copy(update={"contention": measured.host_share})
    if measured.meeting_s is not None:
        ranks = ranks.model_copy(update={"meeting_s": measured.meeting_s, "jitter": 0.0})
    return found.model_copy(update={"measured": measured, "network": network, "ranks": ranks})


LASTING = 0.91
"""Rate of large multiplications at the power limit over the best that a search for shapes finds:
0.92 on A100, 0.91 on H100 (their calibrations over ml-engineering's achieved rates)."""


def _as_measured(assumed: Calibration, device: Device) -> Calibration:
    """A calibration of other devices with the rates that were once seen on this one, if they were."""
    best = device.achieved_flop_per_s
    wide = best.get(Dtype.BF16) or best.get(Dtype.FP16)
    if wide is None:
        return assumed
    reached = float(wide) / float(device.sixteen_bit_flop_per_s)
    shares = dict(assumed.gemm.low_precision)
    if Dtype.FP32 in best:
        shares[Dtype.FP32] = float(best[Dtype.FP32]) / device.flop_per_s(Dtype.FP32) / reached
    update = {"efficiency": LASTING * reached, "low_precision": shares}
    return assumed.model_copy(update={"gemm": assumed.gemm.model_copy(update=update)})


def _slower(fit: Calibration, share: float) -> Calibration:
    """`fit` with matrix units at a `share` of their clock; memory and links stay as they are."""
    kernels = ("flash_3", "flash_2", "unfused")
    attention = {name: getattr(fit.attention, name) * share for name in kernels}
    update = {
        "training": {month: reached * share for month, reached in fit.training.items()},
        "attention": fit.attention.model_copy(update=attention),
        "provenance": {"source": "syncwall-arithmetic", "trust": "assumed"},
    }
    return fit.model_copy(update=update)


@lru_cache(maxsize=64)
def _calibration(name: str, like: str | None, folders: tuple[Path, ...]) -> Calibration:
    """Read once for each device and each setting of the user's catalogue directories."""
    known = names(CatalogueKind.CALIBRATION)
    found = next((one for one in (name, like) if one in known), "generic")
    return load(CatalogueKind.CALIBRATION, Calibration, found)
