"""From what the user says of a job to a plan with nothing left open.

A job without phases is one stretch of equal steps, whose prediction is that of its run.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, log, sqrt
from statistics import NormalDist
from typing import Final, Self

from syncwall.answer.interval import Z80
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Cluster, Failures, Job, Run
from syncwall.describe.job import FailureRates, FailureUnit, Stretch, Taken
from syncwall.describe.lookup import failure_rates
from syncwall.job.job_plan import DAY_S, Failure, JobPlan, best_interval_s
from syncwall.public import published
from syncwall.units import Dimension
from syncwall.work.memory_parts import optimizer_bytes, stored_bytes

DETECTION_S: Final = 600.0
"""Until a dead rank is noticed: the timeout of NCCL in PyTorch, with which Wan 2025 (table 3)
compares; MegaScale reports under 10 min with diagnosis (Jiang 2024, section 6.3)."""
DETECTION_SOURCE: Final = "timeout of NCCL in PyTorch"
OPERATED_GPUS: Final = 1000
"""From so many on a job is taken to be operated as large ones are: health checks find failures,
checkpoints are written beside the work, storage grows with the nodes."""
CHECKED_S: Final = 60.0
"""Until a health check sees what failed: 2 to 60 s (Wan 2025, table 3)."""
HUNG_SHARE: Final = 49 / 419
"""Of failures that nothing but the timeout sees: NCCL watchdog 7, NIC 7, cable or switch 35 of
Llama 3's 419 (arXiv:2407.21783, table 5)."""
DIAGNOSIS_S: Final = 120.0
"""To find the node to exchange: level 2 of `dcgmi diag`, which NVIDIA has after a failed job."""
OPERATED_DETECTION_S: Final = CHECKED_S + HUNG_SHARE * (DETECTION_S - CHECKED_S) + DIAGNOSIS_S
OPERATED_DETECTION_SOURCE: Final = (
    "health checks 60 s (Wan 2025), NCCL's 10 min for the 12% that hang (Llama 3), diagnosis 2 min (DCGM)"
)
QUICK_DETECTION_S: Final = 30.0
"""With inspection of NICs, switches and drivers: 2 to 60 s (Wan 2025, arXiv:2509.16293,
table 3)."""
RESTART_S: Final = 60.0
RESTART_PER_GPU_S: Final = 0.0085
"""Cold recovery of 200 s on 16,000 GPUs, 300 s on 22,000, 600 s on 64,000, 900 s on 98,000 (Meta
2026, arXiv:2602.00277, read from figure 2)."""
RESTART_SOURCE: Final = "line through Meta 2026, arXiv:2602.00277, figure 2"
REPAIR_S: Final = 86400.0
"""Nobody publishes it; assumed."""
STORAGE_PER_NODE: Final = 1e9
"""Bytes/s that a node writes: 1.2e9 for BLOOM (2.3 TB in 40 s from 48 nodes), 1e9 for Llama 3
(2 TB/s for 2,048 nodes; arXiv:2407.21783, section 3.3.1)."""
STORAGE_SOURCE: Final = "1 GB/s a node (BLOOM, Llama 3)"
COPY_PER_GPU: Final = 1e9
"""Bytes/s of a GPU's copy to host memory: 405B on 8,960 GPUs stops for 0.59 s (ByteCheckpoint,
arXiv:2407.20143, table 8)."""
COPY_SOURCE: Final = "ByteCheckpoint, arXiv:2407.20143, table 8; asynchronous as there and in MegaScale"
RACK_NODES: Final = 4
"""Nodes of 8 GPUs in a rack, as in a DGX SuperPOD with H100; assumed for others."""
TRAYS_SOURCE: Final = "trays are exchanged inside their rack (CoreWeave)"
"""A failed GPU of an NVL72 costs its tray of four, which is exchanged in the same rack and not by
one of another; workloads should tolerate two of 18 away, and with more the rack is drained
(CoreWeave 2025, docs.coreweave.com/docs/platform/instances/gb200)."""
SHORT_SHARE: Final = 0.01
"""Spares are chosen so that the job is short of nodes for less of the time, also on a cluster that
fails more often than nine of ten."""
LOAD: Final = 0.8
"""Mean power of a GPU in training over its TDP; assumed."""
HOST: Final = 0.5
"""Power of CPUs, NICs, switches and fans over that of the GPUs; assumed. A DGX H100 draws up to
10.2 kW with 5.6 kW of GPUs."""
PUE: Final = 1.2
"""Power of the building over that of the machines; assumed. New large sites state 1.1."""


@published(
    "phase=stretch.phase global_batch=stretch.run.layout.global_batch seq=stretch.run.seq",
    "steps=stretch.steps tokens=stretch.tokens step_s=prediction.step_s",
    "tokens_per_s_per_gpu=prediction.tokens_per_s_per_gpu mfu=prediction.mfu",
    "fits=prediction.fits work_s gpu_hours ledger_s=prediction.ledger",
)
@dataclass(frozen=True)
class PredictedPhase:
    """Steps of a job that are alike: a phase, or one batch size of a phase whose batch grows."""

    stretch: Stretch
    prediction: Prediction

    @property
    def run(self) -> Run:
        """Its run, with nothing open; of a recorded program what stands for one."""
        return self.stretch.run if self.prediction.is_recorded else self.prediction.run

    @property
    def work_s(self) -> float:
        """All its steps at the P50 of a step, undisturbed."""
        return self.stretch.steps * self.prediction.step_s

    @property
    def gpu_hours(self) -> float:
        """Of its GPUs in that time, without spares."""
        return self.work_s * self.stretch.run.gpus / 3600.0


@dataclass(frozen=True)
class PredictedPhases:
    """All of them, in their order."""

    parts: tuple[PredictedPhase, ...]

    @property
    def steps(self) -> int:
        """Optimizer steps of the job."""
        return sum(one.stretch.steps for one in self.parts)

    @cached_property
    def work_s(self) -> float:
        """Time of all steps, P50, if nothing disturbs them."""
        return sum(one.work_s for one in self.parts)

    @property
    def step_s(self) -> float:
        """Mean time of a step."""
        return self.longest.prediction.step_s if self.is_one else self.work_s / self.steps

    @property
    def deviation(self) -> float:
        """Of ln(true time / P50) of all steps together: what makes one phase slower than predicted
        (device, network, software) is the same in the others, so deviations add up by their time.
        """
        if self.is_one:
            return self.longest.prediction.interval.deviation
        spread = (one.work_s * one.prediction.interval.deviation for one in self.parts)
        return sum(spread) / self.work_s

    @property
    def is_one(self) -> bool:
        """True if all steps are alike."""
        return len(self.parts) == 1

    @cached_property
    def longest(self) -> PredictedPhase:
        """Where most of the time goes; stands for the job where only one run can be shown."""
        return max(self.parts, key=lambda one: one.work_s)

    @property
    def fits(self) -> bool:
        """True if every phase fits in memory."""
        return all(one.prediction.fits for one in self.parts)


def predicted_phases(job: Job, prediction: Prediction) -> PredictedPhases:
    """The phases of `job`; `prediction`, of its run, says how operations are priced."""
    return PredictedPhases(
        tuple(
            PredictedPhase(one, prediction if one.run is job.run else prediction.again(one.run))
            for one in job.stretches
        )
    )


@dataclass(frozen=True, slots=True)
class FailureUnits:
    """What can fail, and what fails with it."""

    parts: dict[FailureUnit, int]
    """How many there are of each."""
    nodes: int
    domain_nodes: int
    """Nodes that a failed GPU or node takes away."""
    rack_nodes: int
    together_nodes: int = 1
    """Nodes of a scale-up domain: a spare can only stand in for those of its own."""

    @classmethod
    def of(cls, stated: Failures, cluster: Cluster) -> Self:
        """The part of `cluster` that is in use; `stated` may set how much fails together."""
        nodes, per_node = int(cluster.nodes), int(cluster.gpus_per_node)
        gpus = int(stated.domain_gpus or per_node)
        domain = min(max(-(-gpus // per_node), 1), nodes)
        together = max(int(cluster.domain_gpus) // per_node, 1)
        rack = min(int(stated.rack_nodes or max(domain, together, RACK_NODES)), nodes)
        nics = cluster.node.nics
        leaf = min(cluster.fabric.tiers[0].nodes or nodes, nodes)
        parts: dict[FailureUnit, int] = {
            "gpu": nodes * per_node,
            "node": nodes,
            "nic": nodes * int(nics.count) if nics else 0,
            "switch": -(-nodes // leaf) * int(cluster.fabric.rails),
            "rack": -(-nodes // rack),
            "job": 1,
        }
        return cls(parts, nodes, domain, rack, together)

    def taken(self, what: Taken) -> int:
        """Nodes that are away while `what` is repaired."""
        return {"nothing": 0, "node": 1, "domain": self.domain_nodes, "rack": self.rack_nodes}[what]

    def all_alike(self, per_1000_node_days: float) -> tuple[Failure, ...]:
        """Failures of nodes only, so many of 1,000 in a day."""
        per_s = per_1000_node_days / 1000.0 / DAY_S * self.nodes
        return (Failure("node", per_s, self.domain_nodes),)


def failure_causes(rates: FailureRates, machine: FailureUnits) -> tuple[Failure, ...]:
    """What stops a job on `machine` if its parts fail as in `rates`."""
    return tuple(
        Failure(
            cause.name,
            cause.per_1000_days / 1000.0 / DAY_S * machine.parts[cause.per],
            machine.taken(cause.takes),
        )
        for cause in rates.causes
    )


_NEVER = 4.0
"""Lengths of the job after which no checkpoint is taken but the one at its end."""


@published("name value trust source=stated_source")
@dataclass(frozen=True, slots=True)
class Input:
    """A value that the plan rests on."""

    name: str
    value: float
    """In SI units."""
    dimension: Dimension | None
    """None for a plain number."""
    trust: str
    """given, computed from the others, or a trust level of the catalogue."""
    source: str = ""

    @property
    def stated_source(self) -> str | None:
        """Where it comes from, if that is known."""
        return self.source or None


@dataclass(frozen=True)
class SettledJob:
    """A plan, and what it rests on."""

    plan: JobPlan
    inputs: tuple[Input, ...]
    best_interval_s: float
    """Between two checkpoints, where least time is lost."""
    checkpoint_bytes: float
    """Of one checkpoint."""
    domain_nodes: int
    """Nodes that one failure takes away."""


def job_plan(job: Job, prediction: Prediction, phases: PredictedPhases | None = None) -> SettledJob:
    """The plan of `job`, whose run was predicted; `phases` are made of it if not given."""
    return _Settling(job, phases or predicted_phases(job, prediction)).settled()


class _Settling:
    """Fills in what is open, and writes down from where."""

    def __init__(self, job: Job, phases: PredictedPhases) -> None:
        self.job, self.phases = job, phases
        self.run = phases.longest.run
        self.inputs: list[Input] = []
        self.step_s = float(job.measured.step_s or phases.step_s)
        self.machine = FailureUnits.of(job.failures, self.run.cluster)
        self.is_operated = self.run.gpus >= OPERATED_GPUS

    def settled(self) -> SettledJob:
        job, is_known = self.job, self.job.measured.step_s is not None
        size = self._size()
        blocking_s, written_s, read_s = self._checkpoint_times(size)
        causes, deviation = self._causes()
        restart_s = self._restart(read_s)
        plan = JobPlan(
            work_s=self.phases.steps * self.step_s if is_known else self.phases.work_s,
            step_deviation=0.0 if is_known else self.phases.deviation,
            startup_s=self._take("start-up", job.startup_s, restart_s, "computed", "as a restart"),
            blocking_s=blocking_s,
            written_s=written_s,
            causes=causes,
            rate_deviation=deviation,
            early_factor=job.failures.early_factor,
            early_s=float(job.failures.early_s),
            detection_s=self._detection(),
            restart_s=restart_s,
            repair_s=self._take("repair", job.failures.repair_s, REPAIR_S, "assumed", "no published value"),
            nodes=int(self.run.nodes),
            shrink=job.when_short == "shrink",
            replica_nodes=max(1.0, self.run.nodes / float(self.run.layout.dp or 1)),
        )
        plan = replace(plan, beside=self._beside(plan), spares=self._spares(plan))
        best_s = self._best(plan)
        interval_s = float(job.checkpoints.interval_s or best_s)
        self._note("checkpoint every", interval_s, job.checkpoints.interval_s is not None)
        plan = replace(plan, interval_s=interval_s)
        return SettledJob(plan, tuple(self.inputs), best_s, size, self.machine.domain_nodes)

    def _take(
        self,
        name: str,
        given: float | None,
        default: float,
        trust: str,
        source: str,
        dimension: Dimension | None = Dimension.SECONDS,
    ) -> float:
        value = float(default if given is None else given)
        if given is not None:
            trust, source = "given", ""
        self.inputs.append(Input(name, value, dimension, trust, source))
        return value

    def _note(self, name: str, value: float, given: bool) -> None:
        trust = "given" if given else "computed"
        self.inputs.append(Input(name, value, Dimension.SECONDS, trust, "" if given else "best"))

    def _size(self) -> float:
        """Weights and optimizer states of the whole model."""
        layout = self.run.layout
        each = stored_bytes(layout) + optimizer_bytes(layout)
        whole = self.run.model.parameters * each
        given = self.job.checkpoints.size_bytes
        source = f"{each:g} bytes a parameter"
        return self._take("checkpoint size", given, whole, "computed", source, Dimension.BYTES)

    def _checkpoint_times(self, size: float) -> tuple[float, float, float]:
        """Seconds that a checkpoint stops the work, is written beside it, and is read."""
        stated, known_s = self.job.checkpoints, self.job.measured.checkpoint_s
        if known_s is not None:
            self._take("checkpoint", known_s, known_s, "given", "")
            return known_s, 0.0, known_s
        usual = self.run.nodes * STORAGE_PER_NODE
        storage = self._take(
            "storage",
            stated.storage_bytes_per_s,
            usual,
            "assumed",
            STORAGE_SOURCE,
            Dimension.BYTES_PER_S,
        )
        read_s = size / float(stated.read_bytes_per_s or storage)
        if not self.is_operated if stated.blocking is None else stated.blocking:
            return size / storage, 0.0, read_s
        copy = self._take(
            "copy to host memory",
            stated.copy_bytes_per_s,
            COPY_PER_GPU,
            "measured",
            COPY_SOURCE,
            Dimension.BYTES_PER_S,
        )
        copied_s = size / (copy * self.run.gpus)
        return copied_s, size / storage, read_s

    def _causes(self) -> tuple[tuple[Failure, ...], float]:
        stated = self.job.failures
        if stated.per_1000_node_days is not None:
            deviation = stated.deviation or 0.0
            found = self.machine.all_alike(stated.per_1000_node_days)
            trust, source = "given", ""
        else:
            rates = failure_rates(stated.like)
            deviation = rates.deviation if stated.deviation is None else stated.deviation
            found = failure_causes(rates, self.machine)
            trust = str((rates.provenance or {}).get("trust", "assumed"))
            source = f"{rates.name}: {rates.title}"
        each_day = sum(cause.per_s for cause in found) * DAY_S
        self._take("interruptions a day", None, each_day, trust, source, None)
        if self.job.spikes is not None:
            found += (self._spikes(),)
        return found, deviation

    def _spikes(self) -> Failure:
        spikes, step_s = self.job.spikes, self.step_s
        assert spikes is not None
        per_s = spikes.per_1000_steps / 1000.0 / step_s
        return Failure("loss spike", per_s, 0, spikes.rollback * step_s)

    def _detection(self) -> float:
        if self.job.measured.restart_s is not None:  # it is in there
            return 0.0
        given = self.job.failures.detection_s
        if self.is_operated:
            source = OPERATED_DETECTION_SOURCE
            return self._take("detection", given, OPERATED_DETECTION_S, "computed", source)
        return self._take("detection", given, DETECTION_S, "datasheet", DETECTION_SOURCE)

    def _restart(self, read_s: float) -> float:
        known_s = self.job.measured.restart_s
        if known_s is not None:
            return self._take("restart", known_s, known_s, "given", "")
        usual = RESTART_S + RESTART_PER_GPU_S * self.run.gpus
        given, source = self.job.failures.restart_s, RESTART_SOURCE
        return self._take("restart", given, usual, "fitted", source) + read_s

    def _beside(self, plan: JobPlan) -> dict[Cause, float]:
        """What goes along with the work, as shares of it."""
        job, found = self.job, {}
        if job.evaluation is not None:
            each_s = job.evaluation.every * self.step_s
            found[Cause.EVALUATION] = job.evaluation.time_s / each_s
        if job.data_stall:
            found[Cause.DATA_LOADING] = job.data_stall
        if job.stragglers is not None:
            slow = job.stragglers
            per_s = slow.per_1000_node_days / 1000.0 * plan.nodes / DAY_S
            found[Cause.STRAGGLERS] = (1.0 - exp(-per_s * slow.time_s)) * (slow.slowdown - 1.0)
        if job.maintenance is not None:
            pause_s = job.maintenance.time_s + plan.blocking_s + plan.written_s + plan.restart_s
            found[Cause.MAINTENANCE] = pause_s / job.maintenance.every_s
        return {cause: float(share) for cause, share in found.items()}

    def _spares(self, plan: JobPlan) -> int:
        """As given, or so many that the job is seldom short of nodes."""
        each = self.machine.together_nodes
        inside = tuple(cause for cause in plan.causes if cause.nodes < each)
        racks = -(-plan.nodes // each) if inside else 1
        enough = racks * self._enough(plan, inside, racks)
        enough += self._enough(plan, tuple(c for c in plan.causes if c.nodes >= each), 1)
        source = f"short of nodes for under {SHORT_SHARE:.0%} of the time"
        if inside and each > 1 and racks > 1:
            source += f", {enough // racks} in each of {racks} racks as {TRAYS_SOURCE}"
        given = self.job.spare_nodes
        return int(self._take("spare nodes", given, enough, "computed", source, None))

    def _enough(self, plan: JobPlan, causes: tuple[Failure, ...], groups: int) -> int:
        """Spares of each of `groups` equal parts, none of which is short of nodes for long."""
        often = exp(Z80 * plan.rate_deviation)
        away = sum(cause.per_s * cause.nodes for cause in causes) * plan.repair_s * often / groups
        largest = max((cause.nodes for cause in causes), default=0) or 1
        seldom = (1.0 - SHORT_SHARE) ** (1.0 / groups)
        return _poisson_quantile(away / largest, seldom) * largest

    def _best(self, plan: JobPlan) -> float:
        """The best interval, in whole steps."""
        length_s = plan.run_s
        longest_s = _NEVER * length_s
        best_s = best_interval_s(plan.blocking_s, plan.mean_rate_per_s, plan.written_s, longest_s)
        step_s = length_s / self.phases.steps
        return max(round(best_s / step_s), 1) * step_s


def _poisson_quantile(mean: float, probability: float) -> int:
    """The least number that a Poisson variable exceeds with less than 1 - `probability`."""
    if mean > 1000.0:  # normal to four figures
        return ceil(mean + NormalDist().inv_cdf(probability) * sqrt(mean))
    number, log_chance = 0, -mean
    below = exp(log_chance)
    while below < probability:
        number += 1
        log_chance += log(mean / number)
        below += exp(log_chance)
    return number
