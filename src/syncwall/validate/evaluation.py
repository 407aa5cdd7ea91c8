"""Predictions for many runs at once, published or from run files.

Cases with the same model, machine and software are one call of the predictor with arrays of
layouts; what a source left open is decided by time and memory.

Their times are those of `predict` on the same file.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

from syncwall.answer.interval import interval
from syncwall.answer.many import SIZES, TimedLayout, shares_of_each, timed_layouts
from syncwall.answer.prediction import predict
from syncwall.answer.priced import may_fit
from syncwall.answer.pricing import Pricing
from syncwall.answer.site import KnownStep, Traits
from syncwall.catalogue import BUILT_IN
from syncwall.cause import Cause
from syncwall.cost.measured import MachineMeasurements
from syncwall.describe import Layout
from syncwall.describe.reading import read
from syncwall.describe.run import KnownRun
from syncwall.documents import read_document
from syncwall.timeline.ledger import Ledger
from syncwall.validate.mapping import ValidationCase
from syncwall.validate.table import RunRow, organisation_of
from syncwall.work.memory import HEADROOM, fits, step_memory

HARDLY_MORE = 1.1
"""Memory of ways among which nobody would choose by it, over the least; assumed."""
UNSAID = BUILT_IN / "validation" / "unsaid.yaml"
"""Written by bench/fit/unsaid.py."""


@dataclass(frozen=True)
class ValidatedRun:
    """A measured run beside its prediction."""

    case: ValidationCase
    layout: Layout
    """The candidate that was chosen."""
    step_s: float
    memory_bytes: float
    ledger: dict[Cause, float]

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.step_s / self.case.measured_s

    @property
    def fits(self) -> bool:
        """False if it is called impossible; it ran."""
        return bool(may_fit(self.memory_bytes, self.case.cluster.device))

    @property
    def is_tight(self) -> bool:
        """True if it needs more than can be counted on, though it may fit."""
        return self.fits and not fits(self.memory_bytes, self.case.cluster.device)

    @property
    def memory_ratio(self) -> float | None:
        """Predicted over measured memory; None if the source gives none.

        PyTorch's counters do not see what libraries take beside its allocator; what was reserved
        has the fragments for which a device needs head-room, what was allocated has not.
        """
        row = self.case.row
        measured = row.number("mem_gb")
        if not measured or "variable length" in row.text("flags"):  # a peak is that of the longest batch
            return None
        memory = step_memory(self.case.model, self.layout, self.case.seq)
        kind = row.text("mem_kind")
        of_device = kind.startswith("nvidia-smi")
        seen = memory.total if of_device else memory.total - memory.cuda_and_nccl
        fragments = HEADROOM if of_device or "reserved" in kind else 0.0
        return float(seen) / (1.0 - fragments) / (measured * 1e9)

    @property
    def traits(self) -> Traits:
        """What the interval compares."""
        case = self.case
        return Traits.of(case.model, case.cluster, self.layout, case.software, case.seq)

    @cached_property
    def interval_s(self) -> tuple[float, float]:
        """P10 and P90, set without the runs of the same organisation."""
        found = interval(
            self.traits,
            waiting=self.waiting,
            unsaid=self.unsaid,
            without=organisation_of(self.case.row.source),
        )
        return found.around(self.step_s)

    @property
    def waiting(self) -> float:
        """Share of the step that waits for communication or for the host."""
        return float(Ledger(self.ledger).waiting)

    @property
    def unsaid(self) -> int:
        """How many things the source does not say that had to be guessed."""
        return len(self.case.open_fields) + len(self.case.unsaid)


def outcomes(
    cases: Sequence[ValidationCase],
    progress: Callable[[float], None] | None = None,
    measured: MachineMeasurements | None = None,
) -> list[ValidatedRun]:
    """An outcome for every case, in order; `progress` is told which share is done.

    Sources that do not state a choice did not always choose the fastest: the time is the expected
    one. `measured` is what was measured on the machine of all of them.
    """
    return [_expected(one) for one in fastest(cases, progress, measured)]


def _expected(one: ValidatedRun) -> ValidatedRun:
    """`one` with the time of the usual choice where the source does not say."""
    slower = prod(_unsaid().get(field, 1.0) for field in one.case.open_fields)
    if slower == 1.0:
        return one
    ledger = {cause: seconds * slower for cause, seconds in one.ledger.items()}
    return replace(one, step_s=one.step_s * slower, ledger=ledger)


@lru_cache(maxsize=1)
def _unsaid() -> dict[str, float]:
    found: dict[str, float] = read_document(UNSAID).value
    return found


def fastest(
    cases: Sequence[ValidationCase],
    progress: Callable[[float], None] | None = None,
    measured: MachineMeasurements | None = None,
) -> list[ValidatedRun]:
    """The outcome of every case, with what its source leaves open as is fastest and fits."""
    groups = _groups([(case, case.layouts) for case in cases])
    found: dict[int, list[TimedLayout]] = defaultdict(list)
    for number, members in enumerate(groups):
        if progress is not None:
            progress(number / len(groups))
        first = cases[members[0][0]]
        layouts = [layout for _, layout in members]
        pricing = Pricing.on(first.cluster, first.software, measured=measured)
        answers = timed_layouts(pricing, first.model, first.cluster, layouts, first.seq)
        for (index, _), answer in zip(members, answers, strict=True):
            found[index].append(answer)
    return [_chosen(case, found[index]) for index, case in enumerate(cases)]


def known_steps(found: Sequence[ValidatedRun]) -> list[KnownStep]:
    """Every outcome as a known run of its site, in order."""
    steps: dict[int, KnownStep] = {}
    for members in _groups([(one.case, [one.layout]) for one in found]):
        case, layouts = found[members[0][0]].case, [layout for _, layout in members]
        pricing = Pricing.on(case.cluster, case.software)
        shares = shares_of_each(pricing, case.model, case.cluster, layouts, case.seq)
        for (index, _), row in zip(members, shares.tolist(), strict=True):
            one = found[index]
            steps[index] = KnownStep(1.0 / one.ratio, tuple(row), one.traits)
    return [steps[index] for index in range(len(found))]


def _groups(
    asked: Sequence[tuple[ValidationCase, Sequence[Layout]]],
) -> list[list[tuple[int, Layout]]]:
    """Places of cases with their layouts, those together that can be evaluated in one call."""
    groups: dict[Any, list[tuple[int, Layout]]] = defaultdict(list)
    for index, (case, layouts) in enumerate(asked):
        shared = _shared(case)
        for layout in layouts:
            groups[shared, _switches(layout)].append((index, layout))
    return list(groups.values())


def _shared(case: ValidationCase) -> Any:
    """What must be equal for two cases to be evaluated in one call."""
    machine = case.cluster
    return (
        case.model.model_dump_json(),
        case.software,
        case.seq,
        machine.domain_gpus,
        machine.gpus_per_node,
        machine.name,
        repr(machine.node.nics),
        repr(machine.scale_up),
        machine.device.name,
        machine.device.memory.size_bytes,
        machine.device.power_limit_w,
    )


def _switches(layout: Layout) -> Any:
    """And for two layouts."""
    return tuple((name, value) for name, value in layout.__dict__.items() if name not in SIZES)


def _chosen(case: ValidationCase, found: list[TimedLayout]) -> ValidatedRun:
    """The likeliest of the ways to fill in what the source leaves open.

    The run was tuned to the fastest that fits; it did run, so if nothing seems to fit, what
    may fit counts, and else what needs hardly more than the least.
    """
    device = case.cluster.device
    fitting = [one for one in found if fits(one.memory_bytes, device)]
    fitting = fitting or [one for one in found if may_fit(one.memory_bytes, device)]
    least = min(one.memory_bytes for one in found)
    fitting = fitting or [one for one in found if one.memory_bytes <= least * HARDLY_MORE]
    best = min(fitting, key=lambda one: one.step_s)
    return ValidatedRun(case, best.layout, best.step_s, best.memory_bytes, best.ledger)


_SUFFIXES: Final = (".yaml", ".yml")


def run_file_cases(path: Path) -> list[ValidationCase]:
    """The cases of a run file, or of all in a directory that have the key `measured`."""
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in _SUFFIXES)
        return [_case(one) for one in files if "measured:" in one.read_text(errors="replace")]
    return [_case(path)] if path.suffix in _SUFFIXES else []


def _case(path: Path) -> ValidationCase:
    known = read(path, KnownRun)
    found = predict(known)
    run, layout = found.run, found.run.layout
    cells = {
        "id": path.stem,
        "source": path.absolute().parent.name,
        "model": run.model.name,
        "gpu": run.cluster.device.name,
        "gpus": run.gpus,
        "seq_len": run.seq,
        "gbs": layout.global_batch,
        "mbs": layout.micro_batch,
        "tp": layout.tp,
        "pp": layout.pp,
        "framework": run.software.framework,
    }
    row = RunRow({name: str(cell) for name, cell in cells.items()}, path, 1)
    return ValidationCase(
        row,
        run.model,
        run.cluster,
        run.software,
        run.seq,
        [layout],
        (),
        found.seconds_of(known.measured),
        tuple(found.assumed),
    )
