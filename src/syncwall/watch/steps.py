"""From the marks of a rank to its steps: seconds by cause that sum to the step.

Holds `StepMaker`, which takes marks as they come and gives finished steps; it also knows the
current phase of the rank. Time is counted in whole nanoseconds, so that nothing is lost in a sum.

The cause of a moment is that of the latest mark. Checkpoints go before evaluations, these before
waiting for communication, and this before all phases. An evaluation that nobody ends (`model.train`
is not called) ends where the batch of the next backward pass was asked for.

A loop without a data loader reads its batches itself: what stands between the optimizer and the
forward pass of its model is data then, and so is what it needs longer than usual between the
forward and the backward pass, where the loss is computed and some fetch the next batch.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from syncwall.cause import Cause
from syncwall.watch.events import Phase, StepClock, StepRecord
from syncwall.watch.rings import COLLECTIVES, HIDES_OWN_TIME, Mark, MarkKind

LATEST: Final = 64
"""Steps of which a rank's usual time is the median."""
_NEXT_CAUSE: Final[dict[int, Cause]] = {
    MarkKind.DATA_BEGIN: Cause.IDLE_DATA,
    MarkKind.DATA_END: Cause.FORWARD,
    MarkKind.FORWARD_BEGIN: Cause.FORWARD,
    MarkKind.FORWARD_END: Cause.FORWARD,
    MarkKind.BACKWARD_BEGIN: Cause.BACKWARD,
    MarkKind.LAST_GRADIENT: Cause.EXPOSED_DP,
    MarkKind.OPTIMIZER_BEGIN: Cause.OPTIMIZER,
    MarkKind.OPTIMIZER_END: Cause.REST,
    MarkKind.STEP_SKIPPED: Cause.REST,
}
_DATA_BEGIN, _FORWARD_BEGIN, _FORWARD_END, _BACKWARD_BEGIN, _BACKWARD_END, _LAST_GRADIENT = map(
    int,
    (
        MarkKind.DATA_BEGIN,
        MarkKind.FORWARD_BEGIN,
        MarkKind.FORWARD_END,
        MarkKind.BACKWARD_BEGIN,
        MarkKind.BACKWARD_END,
        MarkKind.LAST_GRADIENT,
    ),
)
_LOSS, _OPTIMIZER_END, _STEP_SKIPPED, _WAIT_BEGIN, _WAIT_END = map(
    int,
    (
        MarkKind.LOSS,
        MarkKind.OPTIMIZER_END,
        MarkKind.STEP_SKIPPED,
        MarkKind.WAIT_BEGIN,
        MarkKind.WAIT_END,
    ),
)
_AFTER_REST: Final = (_FORWARD_BEGIN, _BACKWARD_BEGIN, _OPTIMIZER_END, _DATA_BEGIN)
_LOSS_TIMES: Final = 3
_LOSS_NS: Final = 50_000_000
"""A loop that computes its loss for longer than usual, times three and 50 ms, waits for a batch."""
_OF_THE_OPTIMIZER: Final = (
    MarkKind.OPTIMIZER_BEGIN,
    MarkKind.OPTIMIZER_END,
    MarkKind.STEP_SKIPPED,
)
"""What stands between a backward pass and these, such as clipping, is the optimizer's."""
_WAITS: Final = tuple(Cause.exposed(kind) for kind in COLLECTIVES)
_PHASES: Final[dict[Cause, Phase]] = {
    Cause.IDLE_DATA: "data",
    Cause.FORWARD: "forward",
    Cause.BACKWARD: "backward",
    Cause.OPTIMIZER: "optimizer",
    Cause.REST: "between phases",
    Cause.CHECKPOINT: "checkpoint",
    Cause.EVALUATION: "evaluation",
}


@dataclass
class _Open:
    """The step that a rank is in."""

    start_ns: int
    spent_ns: dict[Cause, int] = field(default_factory=lambda: defaultdict(int))
    tokens: float | None = None
    loss: float | None = None
    loss_is_told: bool = False
    """By the loop, which knows better than backward passes."""
    gradient_norm: float | None = None


class StepMaker:
    """Makes the steps of one rank."""

    def __init__(self, rank: int, epoch_ns: int = 0, clock: StepClock = StepClock.HOST) -> None:
        """`epoch_ns` is added to times of marks to have them since the epoch."""
        self.rank, self._epoch_ns, self._clock = rank, epoch_ns, clock
        self.step = 0
        """Number of the step that the rank is in."""
        self.collectives = 0
        self.progress = 0
        """Phases that were begun in this step, evaluations left out."""
        self.restarts = 0
        self.notes: set[int] = set()
        self.exited_ns: int | None = None
        """When the rank said goodbye; None before."""
        self.failed = False
        """It ends by an exception."""
        self.last_ns = 0
        self.longest_silence_ns = 0
        self._rest_ns = 0
        """Since the optimizer, as long as no batch was asked for."""
        self._base: Cause | None = None
        """None after a backward pass: what follows says whether that was the optimizer's."""
        self._in_backward = False
        self._waiting: list[Cause] = []
        self._saving = 0
        self._evaluating = False
        self._has_loader = False
        """Batches of the training come from a `DataLoader`."""
        self._after_forward = False
        self._loss_ns: deque[int] = deque(maxlen=LATEST)
        """Of the latest times between a forward pass and its backward pass."""
        self._since_batch: dict[Cause, int] = defaultdict(int)
        """Of an evaluation, since its latest batch was asked for."""
        self._open: _Open | None = None
        self._silence_ns = 0
        self._silences: deque[int] = deque(maxlen=LATEST)
        self._latest: deque[int] = deque(maxlen=LATEST)

    @property
    def step_s(self) -> float | None:
        """Median of the latest steps; None before the third."""
        return median(self._latest) / 1e9 if len(self._latest) > 2 else None

    @property
    def phase(self) -> Phase:
        """Current phase of the rank."""
        if self.exited_ns is not None:
            return "ended"
        if self._open is None:
            return "starting"
        cause = self._cause(MarkKind.OPTIMIZER_BEGIN)
        if self._after_forward and cause is Cause.FORWARD:
            return "between phases"
        return "exposed communication" if cause.is_exposed else _PHASES[cause]

    def take(self, marks: Iterable[Mark]) -> Iterator[StepRecord]:
        """Finished steps of more marks."""
        for mark in marks:
            found = self._take(mark)
            if found is not None:
                yield found

    def _take(self, mark: Mark) -> StepRecord | None:
        kind, time_ns = mark.kind, mark.time_ns
        if kind >= _LOSS:
            self._told(mark)
            return None
        self._spend(kind, time_ns)
        base = _NEXT_CAUSE.get(kind)
        if base is None:
            self._take_other(mark)
            return None
        self._after_forward = kind == _FORWARD_END
        if kind == _OPTIMIZER_END and self._in_backward:  # an optimizer in a hook
            base = Cause.BACKWARD
        elif kind == _DATA_BEGIN:
            self._has_loader = self._has_loader or not self._evaluating
        elif kind == _BACKWARD_BEGIN:
            self._in_backward = True
        elif kind == _LAST_GRADIENT:
            self.collectives += 1
        self._base = base
        if not self._evaluating:
            self.progress += 1
        if kind == _STEP_SKIPPED or (kind == _OPTIMIZER_END and mark.argument):
            return self._finished(mark, skipped=kind == _STEP_SKIPPED)
        return None

    def _take_other(self, mark: Mark) -> None:
        """What stands inside of phases, or between them."""
        kind = mark.kind
        if kind == _WAIT_BEGIN:
            self.collectives += not self._waiting
            self._waiting.append(_WAITS[min(mark.argument, len(_WAITS) - 1)])
        elif kind == _WAIT_END:
            del self._waiting[-1:]
        elif kind == _BACKWARD_END:
            self._base, self._in_backward = None, False
        elif kind in (MarkKind.SAVE_BEGIN, MarkKind.SAVE_END):
            self._saving = max(self._saving + (1 if kind == MarkKind.SAVE_BEGIN else -1), 0)
        elif kind == MarkKind.EVALUATION_BEGIN:
            self._evaluating = True
        elif kind == MarkKind.EVALUATION_END:
            self._evaluation_is_over()
        elif kind == MarkKind.START:
            self.restarts, self._base = int(mark.value), Cause.REST

    def _cause(self, following: int) -> Cause:
        """Of the time until now, which ends with a mark of kind `following`."""
        if self._saving:
            return Cause.CHECKPOINT
        if self._evaluating:
            return Cause.EVALUATION
        if self._waiting:
            return self._waiting[0]  # what a collective waits for inside is its own
        if self._base is None:
            return Cause.OPTIMIZER if following in _OF_THE_OPTIMIZER else Cause.REST
        if self._base is Cause.OPTIMIZER and following == _BACKWARD_BEGIN:
            return Cause.FORWARD  # an optimizer that is given the passes as a closure
        return self._base

    def _spend(self, kind: int, time_ns: int) -> None:
        spent_ns, self.last_ns = time_ns - self.last_ns, time_ns
        step = self._open
        if step is None:
            return
        cause = self._cause(kind)
        if cause is Cause.EVALUATION:
            spent_ns = self._evaluated(kind, spent_ns, step)
        elif spent_ns > self._silence_ns and cause is not Cause.CHECKPOINT:
            self._silence_ns = spent_ns
        step.spent_ns[cause] += spent_ns
        if cause is Cause.REST:
            self._rest_ns += spent_ns
        if kind in _AFTER_REST:
            passed = self._rest_of_loop(kind)
            if passed is not Cause.REST:
                step.spent_ns[Cause.REST] -= self._rest_ns
                step.spent_ns[passed] += self._rest_ns
            self._rest_ns = 0
        if self._after_forward and cause is Cause.FORWARD:
            late_ns = self._longer_than_a_loss(spent_ns)
            step.spent_ns[Cause.FORWARD] -= late_ns
            step.spent_ns[Cause.IDLE_DATA] += late_ns

    def _rest_of_loop(self, kind: int) -> Cause:
        """What the loop's own code before a mark of `kind` was for, as far as it shows."""
        if kind == _FORWARD_BEGIN and self._base in (Cause.REST, None) and not self._has_loader:
            return Cause.IDLE_DATA
        if kind == _BACKWARD_BEGIN and self._base is Cause.REST:
            return Cause.FORWARD  # of a model that is not seen
        return Cause.REST

    def _longer_than_a_loss(self, spent_ns: int) -> int:
        usual_ns = median(self._loss_ns) if len(self._loss_ns) > 2 else spent_ns
        self._loss_ns.append(spent_ns)
        return max(spent_ns - _LOSS_TIMES * int(usual_ns) - _LOSS_NS, 0)

    def _evaluated(self, kind: int, spent_ns: int, step: _Open) -> int:
        """What of some time in an evaluation is certainly its own."""
        if kind == _DATA_BEGIN:
            spent_ns += sum(self._since_batch.values())
            self._since_batch.clear()
        elif self._since_batch or self._base is Cause.IDLE_DATA:
            self._since_batch[self._base or Cause.REST] += spent_ns
            spent_ns = 0
        if kind == _BACKWARD_BEGIN:
            for passed, ns in self._since_batch.items():
                step.spent_ns[passed] += ns
            self._since_batch.clear()
            self._evaluating = False
        return spent_ns

    def _evaluation_is_over(self) -> None:
        if self._open is not None:
            self._open.spent_ns[Cause.EVALUATION] += sum(self._since_batch.values())
        self._since_batch.clear()
        self._evaluating, self._base = False, Cause.REST

    def _told(self, mark: Mark) -> None:
        step = self._open
        if mark.kind == MarkKind.NOTE:
            self.notes.add(mark.argument)
        elif mark.kind == MarkKind.EXIT:
            self.exited_ns, self.failed = mark.time_ns, bool(mark.value)
        elif step is None:
            return
        elif mark.kind == MarkKind.LOSS and not mark.argument:
            step.loss, step.loss_is_told = mark.value, True
        elif mark.kind == MarkKind.LOSS and not step.loss_is_told:  # of a backward pass
            step.loss = (step.loss or 0.0) + mark.value
        elif mark.kind == MarkKind.GRADIENT_NORM:
            step.gradient_norm = mark.value
        elif mark.kind == MarkKind.TOKENS:
            step.tokens = (step.tokens or 0.0) + mark.value

    def lost_some(self) -> None:
        """Marks were overwritten: what is open cannot be summed up any more."""
        self._open, self._base, self._in_backward = None, Cause.REST, False
        self._saving, self._evaluating, self._after_forward = 0, False, False
        self._waiting.clear()
        self._since_batch.clear()

    def _finished(self, mark: Mark, *, skipped: bool) -> StepRecord | None:
        """The step that ends now; None before the first, whose beginning nobody saw."""
        time_ns = mark.time_ns
        self.step = int(mark.value) - 1 if mark.value else self.step
        step, self._open = self._open, _Open(time_ns)
        if step is None:
            self.step += bool(mark.value)
            return None
        step.spent_ns[Cause.EVALUATION] += sum(self._since_batch.values())
        self._since_batch.clear()
        step_ns = time_ns - step.start_ns
        self._latest.append(step_ns)
        self._silences.append(self._silence_ns)
        self.longest_silence_ns, self._silence_ns = max(self._silences), 0
        number, self.step = self.step, self.step + 1
        self.progress = 0
        return StepRecord(
            self.rank,
            number,
            (step.start_ns + self._epoch_ns) / 1e9,
            step_ns / 1e9,
            {cause: ns / 1e9 for cause, ns in step.spent_ns.items() if ns},
            step.tokens,
            step.loss,
            step.gradient_norm,
            skipped=skipped,
            clock=self._clock,
            own_is_known=not self.notes & HIDES_OWN_TIME,
        )
