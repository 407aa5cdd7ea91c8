"""What is known of a live run, as plain data: judges take it, and all that is shown comes of it.

Holds `StepRecord` (one step of one rank), `Window` (some steps of one rank, summed up),
`RankState`, `NodeReport` and `GroupReport` (what nodes tell each other), `Expectation` (a predicted
step), `Finding`, and `Group` with `group_of`, the few lines that a live ledger and a predicted one
have in common. `to_json` and `from_json` carry all of them. Nothing here needs PyTorch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

from syncwall.cause import Cause, CauseKind
from syncwall.public import published
from syncwall.watch.cores import HostLoad

FORMAT: Final = 1
"""Version of reports and of JSON lines; a reader refuses what it does not know."""


class Group(StrEnum):
    """Lines of a live ledger in which a prediction can be compared with it."""

    COMPUTE = "compute"
    """With gaps in which a device waits for its host: marks of phases do not tell them apart."""
    COMMUNICATION = "exposed communication"
    DATA = "data wait"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    IDLE = "idle"
    """None of them: code of the loop between phases."""


_GROUPS: Final = {
    Cause.DATA: Group.DATA,
    Cause.IDLE_DATA: Group.DATA,
    Cause.DATA_LOADING: Group.DATA,
    Cause.BUBBLE: Group.COMMUNICATION,
    Cause.STRAGGLER: Group.COMMUNICATION,
    Cause.IDLE_PEER: Group.COMMUNICATION,
    Cause.CHECKPOINT: Group.CHECKPOINT,
    Cause.EVALUATION: Group.EVALUATION,
    Cause.HOST: Group.COMPUTE,
    Cause.HOST_OPTIMIZER: Group.COMPUTE,
    Cause.REST: Group.IDLE,
}


def group_of(cause: Cause) -> Group:
    """The line that a cause belongs to."""
    if cause in _GROUPS:
        return _GROUPS[cause]
    if cause.is_exposed:
        return Group.COMMUNICATION
    return Group.COMPUTE if cause.kind is CauseKind.WORK else Group.IDLE


def grouped(seconds: Mapping[Cause, float]) -> dict[Group, float]:
    """Seconds by group, in the order of `Group`; groups without seconds are left out."""
    found = dict.fromkeys(Group, 0.0)
    for cause, spent_s in seconds.items():
        found[group_of(cause)] += spent_s
    return {group: spent_s for group, spent_s in found.items() if spent_s}


class StepClock(StrEnum):
    """What timed a step."""

    HOST = "host"
    DEVICE = "device"
    """CUDA events: what the device did, however far the host ran ahead."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One optimizer step of one rank."""

    rank: int
    step: int
    """Counted from 0 since the rank was watched, the same on all ranks."""
    start_s: float
    """Since the epoch."""
    step_s: float
    """From the end of the optimizer's step before to the end of this one."""
    seconds: Mapping[Cause, float]
    """By cause; they sum to `step_s`."""
    tokens: float | None = None
    """Of this rank; None if nobody told."""
    loss: float | None = None
    gradient_norm: float | None = None
    skipped: bool = False
    """The gradients overflowed, so that a `GradScaler` left the weights as they were."""
    clock: StepClock = StepClock.HOST
    own_is_known: bool = True
    """False where communication of the forward pass cannot be told apart from computation."""

    @property
    def end_s(self) -> float:
        """Since the epoch."""
        return self.start_s + self.step_s

    @property
    def own_s(self) -> float:
        """What the rank spends itself: without waiting for others, checkpoints and evaluations."""
        return sum(s for cause, s in self.seconds.items() if group_of(cause) in OWN)


OWN: Final = (Group.COMPUTE, Group.DATA, Group.IDLE)
"""What a rank spends itself."""
OF_A_STEP: Final = (*OWN, Group.COMMUNICATION)
"""Checkpoints and evaluations come now and then."""
TIMES_OF_A_STEP: Final = frozenset(cause for cause in Cause if group_of(cause) in OF_A_STEP)
"""The causes of these lines."""


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Steps `first` to `first + steps - 1` of one rank; medians, so that a hiccup counts little."""

    rank: int
    first: int
    steps: int
    own_s: float | None
    """Median; None if it is not known."""
    step_s: float
    """Median."""
    seconds: Mapping[Cause, float]
    """Mean, by cause."""
    end_s: float
    """Of its last step, since the epoch."""
    node: str = ""
    """Where the rank runs."""
    waited_s: float | None = None
    """Of a step, for a core that others had, the mean; None if the kernel does not tell."""


class Process(StrEnum):
    """What the kernel says of a rank's process."""

    RUNNING = "running"
    STOPPED = "stopped"
    """By a signal or a debugger."""
    DEAD = "dead"
    """It ended and did not say so."""
    FINISHED = "finished"
    """It ended on its own and said so."""
    FAILED = "failed"
    """It ended by an exception, and said so."""
    ABSENT = "absent"
    """Not seen yet."""

    @property
    def is_over(self) -> bool:
        """True if it has ended."""
        return self in (Process.DEAD, Process.FINISHED, Process.FAILED)


Phase = Literal[
    "starting",
    "data",
    "forward",
    "backward",
    "exposed communication",
    "optimizer",
    "checkpoint",
    "evaluation",
    "between phases",
    "ended",
]
"""Current phase of a rank."""


@dataclass(frozen=True, slots=True)
class RankFacts:
    """What a rank says of itself, in a file beside its ring."""

    rank: int
    pid: int
    world: int
    node: str
    node_rank: int
    nodes: int
    store_host: str
    """Of the store of agents."""
    store_port: int
    server: str = ""
    """Socket of torch's own worker server, if it has been started."""
    command: tuple[str, ...] = ()
    """Its words."""

    def __post_init__(self) -> None:
        if not (0 <= self.rank < self.world and 0 <= self.node_rank < self.nodes <= self.world):
            raise ValueError(f"rank {self.rank} of {self.world} on node {self.node_rank} of {self.nodes}")


@published("rank node pid process phase phase_since_s step step_s")
@dataclass(frozen=True, slots=True)
class RankState:
    """One rank at one moment."""

    rank: int
    """Its number."""
    node: str
    """Where it runs."""
    pid: int
    """Its process."""
    process: Process
    """What the kernel says of it."""
    phase: Phase = "starting"
    """Where it stands."""
    phase_since_s: float = 0.0
    """Time of its last mark, since the epoch."""
    step: int = 0
    """The one that it is in."""
    progress: int = 0
    """Phases that it has begun in this step."""
    collectives: int = 0
    """Waits for communication that it has begun since it was watched."""
    step_s: float | None = None
    """Median of its latest steps."""
    longest_silence_s: float = 0.0
    """Between two marks of its latest steps, checkpoints and evaluations left out."""
    changed_s: float | None = None
    """When it died or was stopped, since the epoch."""
    died_as: int | None = None
    """0 for the first rank of its node that died, 1 for the next, ..."""
    where: str = ""
    """What the kernel says of a rank that is silent or has ended: where it sleeps, how it died."""
    starved_s: float = 0.0
    """Of the time since its last mark, for which it waited for a core."""
    error: str = ""
    """The exception that it ended by."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the agent of one node tells the others: one key of the store."""

    node: str
    node_rank: int
    number: int
    """Counts up: a report that stays the same says that its node is silent."""
    sent_s: float
    """Since the epoch."""
    ranks: tuple[RankState, ...]
    windows: tuple[StepWindow, ...] = ()
    """The latest of each of its ranks."""
    world: int = 1
    """Ranks of the whole job."""
    notes: tuple[str, ...] = ()
    """What cannot be told on this node, and why."""
    nodes: int = 1
    """Of the whole job."""
    quiet: tuple[int, ...] = ()
    """Ranks that are left out of `ranks` in a large job: they run and have just made a mark."""
    findings: tuple["Finding", ...] = ()
    """On the first node those of the whole job; on others what only they see: of their devices and
    of single steps."""
    host: HostLoad | None = None
    """What its cores do."""
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What the leader of a group of nodes tells the first one: one key for all of them."""

    number: int
    """Counts up: a report that stays the same says that the leader is silent."""
    nodes: tuple[NodeReport, ...]
    """Of nodes that there is something to say of, and one for all the others together."""
    silent_s: Mapping[int, float] = field(default_factory=dict)
    """Since the report of a node changed, of nodes that are silent, by their number."""


@published("step_s low_s high_s groups_s source")
@dataclass(frozen=True, slots=True)
class Expectation:
    """A predicted step as plain data."""

    step_s: float
    """Predicted."""
    low_s: float
    """Nine of ten such runs are slower."""
    high_s: float
    """Nine of ten such runs are faster."""
    seconds: Mapping[Cause, float]
    source: str = ""
    """What was predicted, or seen before: the words of `--expect`."""
    flops_per_token: float | None = None
    """Model FLOPs, as in the MFU."""
    peak_flops: float | None = None
    """Of a device, in a second."""
    ranks: int | None = None
    """Of the job that it is about; None for any."""

    @property
    def groups_s(self) -> dict[Group, float]:
        """Seconds of a step in the lines of a live ledger."""
        return grouped(self.seconds)


class FindingKind(StrEnum):
    """What is wrong."""

    DEAD = "dead rank"
    STOPPED = "stopped rank"
    HUNG = "hung rank"
    NODE_LOST = "lost node"
    STRAGGLER = "straggler"
    HOST_BUSY = "host busy"
    """Others take the cores that ranks wait for: no rank is slow by itself."""
    DATA_STALL = "data stall"
    """A step that waited for its batch, many times as long as a step takes."""
    SLOWED_DOWN = "slow-down"
    SLOWER_THAN_PREDICTED = "slower than predicted"
    LOSS_SPIKE = "loss spike"
    GRADIENT_SPIKE = "gradient norm spike"
    DEVICE_ERROR = "device error"
    """An Xid, or memory that ECC could not correct."""
    THROTTLED = "throttled device"
    """By heat or power."""

    @property
    def stops_the_job(self) -> bool:
        """True if nothing goes on until somebody acts."""
        return self in (
            FindingKind.DEAD,
            FindingKind.STOPPED,
            FindingKind.HUNG,
            FindingKind.NODE_LOST,
        )


@published("kind rank node since_s since_step evidence cost_s group also device")
@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a judge found, and what it rests on."""

    kind: FindingKind
    """What."""
    rank: int | None
    """None if it is about a node or about the whole job."""
    node: str
    """Where; empty if it is about the whole job."""
    since_s: float
    """Since the epoch."""
    evidence: str
    """In one sentence, with figures."""
    cost_s: float | None = None
    """Seconds that each step of the job takes longer for it; None if the job is idle."""
    since_step: int | None = None
    """The step in which it began."""
    group: Group | None = None
    """The line of the ledger that grew."""
    also: tuple[int, ...] = field(default=())
    """Other ranks that it is about, such as those that died in consequence."""
    device: int | None = None
    """The GPU of the node that it is about."""

    @property
    def key(self) -> "FindingKey":
        """What makes two findings the same one, told again."""
        return self.kind, self.rank, self.node, self.device


FindingKey = tuple[FindingKind, int | None, str, int | None]


Plain = TypeVar("Plain")


_adapters: dict[type[Any], Any] = {}


def _adapter(kind: type[Any]) -> Any:
    if kind not in _adapters:
        from pydantic import TypeAdapter  # not at import: trainers load this room, too

        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_json(value: Any) -> bytes:
    """A value of this file as JSON."""
    found: bytes = _adapter(type(value)).dump_json(value)
    return found


def from_json(kind: type[Plain], text: bytes | str) -> Plain:
    """What `to_json` wrote; ValueError if it is something else."""
    found: Plain = _adapter(kind).validate_json(text)
    return found
