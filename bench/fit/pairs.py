"""What errors of two predictions have in common, learned from pairs of published runs.

A pair are two runs of one organisation. Its error is the difference of both ln(predicted / measured);
independent errors would give the root of both squared half-widths, each learned without that
organisation. Doubts are learned on first contacts, with the ratios of the version of their day
(`register.csv`), as the widths of intervals are: users are strangers, too. Organisations, and kinds
of pairs of each, count the same, and what is said of one is learned without it. Organisations that
fits read stand beside, and decide nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import log

import numpy as np
from numpy.typing import NDArray

from bench.fit.files import rows_of
from bench.fit.intervals import COVERED, MOST_ROWS
from bench.fit.register import CONTACTS
from syncwall.answer.difference import (
    FLOOR,
    HALFWAY,
    INDEPENDENT_MEMORIES,
    Ratio,
    changed_share,
    shared_error,
)
from syncwall.answer.interval import Z80, interval, register_lines
from syncwall.cause import Cause
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import cases_of
from syncwall.validate.score import evenly
from syncwall.validate.table import RowUse, corpus_part, organisation_of, row_doubt
from syncwall.work.memory import step_memory

LAYOUT, SETTINGS, MODEL, CLUSTER, DEVICE = KINDS = (
    "another layout",
    "another precision, recomputation or kernels",
    "another model or framework",
    "another cluster",
    "another device",
)
MOST_PAIRS = 60
"""Pairs of an organisation that count of each kind."""
FEWEST_PAIRS = 5
"""Pairs from which on a kind counts in full."""
FEWEST_ORGANISATIONS = 10
"""From which on a kind is judged by itself."""
CLOSE = 0.01
"""Share of the loss below which constants are as good as others."""
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_GRID = tuple(product(np.arange(0.0, 0.31, 0.02).round(2), np.arange(0.02, 0.21, 0.02).round(2)))
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PublishedRun:
    """A measured run with what a pair needs of its prediction."""

    outcome: ValidatedRun
    log_ratio: float
    """ln(predicted / measured)."""

    @property
    def ledger(self) -> dict[Cause, float]:
        """Seconds of a GPU for a token."""
        each = self.outcome.layout.gpus / (float(self.outcome.layout.global_batch) * self.outcome.case.seq)
        return {cause: float(seconds * each) for cause, seconds in self.outcome.ledger.items()}

    def half_width(self, organisation: str) -> float:
        one = self.outcome
        found = interval(one.traits, waiting=one.waiting, unsaid=one.unsaid, without=organisation)
        return Z80 * found.deviation


def kind_of(one: ValidatedRun, other: ValidatedRun) -> str:
    """The largest difference between two runs."""
    pair = (one, other)

    def differ(*names: str) -> bool:
        return any(len({_part(run, name) for run in pair}) > 1 for name in names)

    if differ("case.cluster.device.name"):
        return DEVICE
    if differ("case.cluster.node", "case.cluster.scale_up", "case.cluster.fabric"):
        return CLUSTER
    if differ("case.model.name", "case.model.parameters", "case.seq", "case.software.framework"):
        return MODEL
    changed = ("precision", "recompute", "recompute_layers", "recompute_modules")
    if differ("case.software", *(f"layout.{name}" for name in changed)):
        return SETTINGS
    return LAYOUT


def _part(run: ValidatedRun, path: str) -> str:
    found: object = run
    for name in path.split("."):
        found = getattr(found, name)
    return repr(found)


Owned = tuple[str, bool, Sequence[PublishedRun]]
"""An organisation, whether these are its first contacts, and its runs."""


def published_runs() -> Iterator[Owned]:
    """All but those of judges."""
    first = {(line["frozen"], line["id"]): line for line in register_lines() if line["part"] != "judge"}
    for table in sorted(CONTACTS.glob("*.csv")):
        rows = [row for row in rows_of([table]) if (table.stem, row.id) in first and not row_doubt(row)]
        ratios = {row.id: float(first[table.stem, row.id]["ratio"]) for row in rows}
        found = [PublishedRun(one, log(ratios[one.case.row.id])) for one in outcomes(cases_of(rows))]
        yield from ((name, True, runs) for name, runs in _by_organisation(found).items())
    unread = (RowUse.JUDGE, RowUse.COMPOSED)
    rows = [row for row in rows_of([]) if corpus_part(row) not in unread and not row_doubt(row)]
    found = [PublishedRun(one, log(one.ratio)) for one in outcomes(cases_of(rows))]
    for name, runs in _by_organisation(found).items():
        yield name, False, evenly(runs, MOST_ROWS)


def _by_organisation(found: Sequence[PublishedRun]) -> dict[str, list[PublishedRun]]:
    groups: dict[str, list[PublishedRun]] = defaultdict(list)
    for one in found:
        groups[organisation_of(one.outcome.case.row.source)].append(one)
    return groups


@dataclass(frozen=True)
class Pairs:
    """Pairs as arrays."""

    organisations: NDArray[np.str_]
    kinds: NDArray[np.str_]
    errors: Floats
    """Difference of both ln(predicted / measured)."""
    predicted: Floats
    """ln of the ratio of both times for a token."""
    independent: Floats
    """Half-width of the difference of independent errors."""
    changed: Floats
    """Share of both steps that is not common to them."""

    def of(self, chosen: NDArray[np.bool_]) -> "Pairs":
        return Pairs(*(column[chosen] for column in vars(self).values()))

    @property
    def weights(self) -> Floats:
        count = Counter(zip(self.organisations, self.kinds, strict=True))
        each = zip(self.organisations, self.kinds, strict=True)
        return np.array([1.0 / max(count[one], FEWEST_PAIRS) for one in each])

    def half_widths(self, floor: float = FLOOR, halfway: float = HALFWAY) -> Floats:
        shares = [
            shared_error(changed, other_device=kind == DEVICE, floor=floor, halfway=halfway)
            for changed, kind in zip(self.changed, self.kinds, strict=True)
        ]
        return np.asarray(self.independent * np.array(shares))

    def covered(self, half_widths: Floats) -> float:
        return float(np.average(np.abs(self.errors) <= half_widths, weights=self.weights))

    def probabilities(self, half_widths: Floats) -> Floats:
        """That the one which is predicted to be faster is."""
        logs = np.abs(self.predicted)
        pairs = zip(np.exp(logs), half_widths / Z80, strict=True)
        return np.array([Ratio(1.0, ratio, deviation).probability for ratio, deviation in pairs])

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Whether it is."""
        return np.asarray((self.predicted - self.errors) * np.sign(self.predicted) > 0)


def pairs_of(name: str, runs: Sequence[PublishedRun]) -> Iterator[tuple[object, ...]]:
    """Columns of the pairs of an organisation whose predicted steps differ."""
    groups: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    ledgers, widths = [one.ledger for one in runs], [one.half_width(name) for one in runs]
    for i, j in combinations(range(len(runs)), 2):
        kind = kind_of(runs[i].outcome, runs[j].outcome)
        changed = changed_share(ledgers[i], ledgers[j])
        ratio = log(sum(ledgers[i].values()) / sum(ledgers[j].values()))
        if changed:
            error = runs[i].log_ratio - runs[j].log_ratio
            groups[kind].append((name, kind, error, ratio, np.hypot(widths[i], widths[j]), changed))
    for members in groups.values():
        yield from evenly(members, MOST_PAIRS)


def pairs(published: Iterable[Owned]) -> tuple[Pairs, Pairs]:
    """Of first contacts, and of organisations that fits read."""
    found: dict[bool, list[tuple[object, ...]]] = {True: [], False: []}
    for name, is_first, runs in published:
        found[is_first] += pairs_of(name, runs)
    first, known = (Pairs(*map(np.array, zip(*found[one], strict=True))) for one in (True, False))
    return first, known


def loss(found: Pairs, floor: float, halfway: float) -> Floats:
    """That of a quantile regression, weighted, of every pair."""
    beyond = np.abs(found.errors) - found.half_widths(floor, halfway)
    return found.weights * np.where(beyond > 0, COVERED * beyond, (COVERED - 1) * beyond)


def losses(found: Pairs) -> Floats:
    """The same for every point of the grid, as rows."""
    return np.array([loss(found, *point) for point in _GRID])


@dataclass(frozen=True)
class PairFit:
    """Floor and halfway point of `answer.difference`, and the half-widths that others say."""

    best: tuple[float, float]
    without: dict[str, tuple[float, float]]
    """The same without each organisation."""
    half_widths: Floats
    """Of each pair, without its own organisation."""


def fitted(found: Pairs) -> PairFit:
    each = losses(found)
    without: dict[str, tuple[float, float]] = {}
    half_widths = np.zeros(len(found.errors))
    for name in dict.fromkeys(found.organisations):
        own = found.organisations == name
        without[str(name)] = _GRID[int(each[:, ~own].sum(axis=1).argmin())]
        half_widths[own] = found.of(own).half_widths(*without[str(name)])
    return PairFit(_GRID[int(each.sum(axis=1).argmin())], without, half_widths)


def excess(found: Pairs) -> float:
    """How much worse than those of the fit the constants in use are, as a share of its loss."""
    return float(loss(found, FLOOR, HALFWAY).sum() / losses(found).sum(axis=1).min()) - 1.0


def coverage(found: Pairs, half_widths: Floats) -> dict[str, tuple[int, int, float]]:
    """Pairs, organisations and covered share of each kind."""
    answer = {}
    for kind in KINDS:
        chosen = found.kinds == kind
        part = found.of(chosen)
        if len(part.errors):
            covered = part.covered(half_widths[chosen])
            answer[kind] = len(part.errors), len(set(part.organisations)), covered
    return answer


def calibration(found: Pairs, half_widths: Floats) -> list[tuple[int, float, float]]:
    """Of each bin of "how sure": pairs, predicted and observed share of pairs in the right order."""
    sure, weights, answer = found.probabilities(half_widths), found.weights, []
    for low, high in pairwise(BINS):
        chosen = (sure >= low) & ((sure < high) | (high == BINS[-1]))
        if chosen.any():
            said, seen = (
                float(np.average(one[chosen], weights=weights[chosen])) for one in (sure, found.hits)
            )
            answer.append((int(chosen.sum()), said, seen))
    return answer


def memory_coverage(runs: Sequence[PublishedRun]) -> list[bool]:
    """Whether the doubt of measured memories covers each pair on one device whose memories differ."""
    found = []
    for one, other in combinations((run.outcome for run in runs if run.outcome.memory_ratio), 2):
        memories = [step_memory(run.case.model, run.layout, run.case.seq) for run in (one, other)]
        changed = changed_share(*(memory.as_floats().by_cause() for memory in memories))
        if changed and kind_of(one, other) != DEVICE:
            error = log(one.memory_ratio or 1.0) - log(other.memory_ratio or 1.0)
            found.append(abs(error) <= Z80 * shared_error(changed) * INDEPENDENT_MEMORIES)
    return found


def _print_memory(published: Iterable[Owned]) -> None:
    covered: dict[bool, list[list[bool]]] = {True: [], False: []}
    for _, is_first, runs in published:
        inside = memory_coverage(runs)
        covered[is_first] += [inside] if len(inside) >= FEWEST_PAIRS else []
    for is_first, found in covered.items():
        share = np.mean([np.mean(one) for one in found])
        title = "first contacts" if is_first else "organisations that fits read"
        print(f"memory, {title}: {sum(map(len, found)):,} pairs of {len(found)}, {share:.0%} covered")


def fit_pairs(check: bool = False) -> int:
    """Fit what two predictions share of their errors: `answer.difference.FLOOR` and `HALFWAY`.

    Prints how many pairs of published runs the doubts cover, by kind, how often the run that is
    predicted to be faster is, and how many pairs of measured memories are covered. With --check 1 if
    the constants are worse than the fit by more than 1%.
    """
    published = list(published_runs())
    first, known = pairs(published)
    fit = fitted(first)
    floors, points = (sorted({one[n] for one in fit.without.values()}) for n in (0, 1))
    print(
        f"floor {fit.best[0]:g} ({floors[0]:g} to {floors[-1]:g} without one organisation), "
        f"halfway {fit.best[1]:g} ({points[0]:g} to {points[-1]:g})"
    )
    sets = {
        "first contacts, each organisation left out": (first, fit.half_widths),
        "organisations that fits read": (known, known.half_widths()),
    }
    for title, (found, half_widths) in sets.items():
        print(f"\n{title}: {found.covered(half_widths):.0%} covered")
        for kind, (count, owners, covered) in coverage(found, half_widths).items():
            print(f"  {kind}: {count:,} pairs of {owners} organisations, {covered:.0%} covered")
        for count, said, seen in calibration(found, half_widths):
            print(f"  {said:.0%} sure: {seen:.0%} in the right order ({count:,} pairs)")
    _print_memory(published)
    return int(check and excess(first) > CLOSE)
