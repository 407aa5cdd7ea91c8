"""From what the user says of a job to a plan with nothing left open.

Holds `settle`, `SettledJob` and `Input` (one value with where it comes from). `FailureUnits` and
`causes_of`: failures of a machine by cause: rates of a study times what the machine has of each
part.
"""

from dataclasses import dataclass, replace
from math import ceil, exp, log, sqrt
from statistics import NormalDist
from typing import Self

from syncwall.answer.interval import Z80
from syncwall.answer.prediction import Prediction
from syncwall.cause import Cause
from syncwall.describe import Cluster, Failures, Job
from syncwall.describe.job import FailureRates, FailureUnit, Taken
from syncwall.describe.lookup import failure_rates
from syncwall.job import defaults
from syncwall.job.defaults import RACK_NODES
from syncwall.job.phases import PredictedPhases, predicted_phases
from syncwall.job.plan import DAY_S, Failure, JobPlan
from syncwall.job.renewal import best_interval_s
from syncwall.public import published
from syncwall.units import Dimension
from syncwall.work.states import optimizer_bytes, stored_bytes


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


def causes_of(rates: FailureRates, machine: FailureUnits) -> tuple[Failure, ...]:
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


def settle(job: Job, prediction: Prediction, phases: PredictedPhases | None = None) -> SettledJob:
    """The plan of `job`, whose run was predicted; `phases` are made of it if not given."""
    return _Settling(job, phases or predicted_phases(job, prediction)).settled()


class _Settling:
    """Fills in what is open, and writes down from where."""

    def __init__(self, job: Job, phases: PredictedPhases) -> None:
        self.job, self.phases = job, phases
        self.run = phases.longest.prediction.run
        self.inputs: list[Input] = []
        self.step_s = float(job.measured.step_s or phases.step_s)
        self.machine = FailureUnits.of(job.failures, self.run.cluster)

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
            repair_s=self._take(
                "repair", job.failures.repair_s, defaults.REPAIR_S, "assumed", "no published value"
            ),
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
        usual = min(self.run.nodes * defaults.STORAGE_PER_NODE, defaults.STORAGE_AT_MOST)
        storage = self._take(
            "storage", stated.storage_bytes_per_s, usual, "assumed", defaults.STORAGE_SOURCE,
            Dimension.BYTES_PER_S,
        )  # fmt: skip
        read_s = size / float(stated.read_bytes_per_s or storage)
        if stated.blocking:
            return size / storage, 0.0, read_s
        copy = self._take(
            "copy to host memory", stated.copy_bytes_per_s, defaults.COPY_PER_GPU, "measured",
            defaults.COPY_SOURCE, Dimension.BYTES_PER_S,
        )  # fmt: skip
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
            found = causes_of(rates, self.machine)
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
        source = defaults.DETECTION_SOURCE
        return self._take("detection", given, defaults.DETECTION_S, "datasheet", source)

    def _restart(self, read_s: float) -> float:
        known_s = self.job.measured.restart_s
        if known_s is not None:
            return self._take("restart", known_s, known_s, "given", "")
        usual = defaults.RESTART_S + defaults.RESTART_PER_GPU_S * self.run.gpus
        given, source = self.job.failures.restart_s, defaults.RESTART_SOURCE
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
        source = f"short of nodes for under {defaults.SHORT_SHARE:.0%} of the time"
        if inside and each > 1:
            source += f", {enough // racks} in each of {racks} racks; {defaults.TRAYS_SOURCE}"
        given = self.job.spare_nodes
        return int(self._take("spare nodes", given, enough, "computed", source, None))

    def _enough(self, plan: JobPlan, causes: tuple[Failure, ...], groups: int) -> int:
        """Spares of each of `groups` equal parts, none of which is short of nodes for long."""
        often = exp(Z80 * plan.rate_deviation)
        away = sum(cause.per_s * cause.nodes for cause in causes) * plan.repair_s * often / groups
        largest = max((cause.nodes for cause in causes), default=0) or 1
        seldom = (1.0 - defaults.SHORT_SHARE) ** (1.0 / groups)
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
