"""Whether what is chosen and recommended is what was fastest.

A `Group` are runs of one source with one model, machine, sequence, batch and software, measured in
three layouts or more; a recipe is a group of one, in the layout that a vendor recommends. The layout
is hidden, and each of `DECIDERS` chooses one. The regret is the measured time of its pick over the
best measured; of a pick that nobody measured, that of the nearest layout.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import inf, log2
from statistics import fmean, median
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from bench import ROOT, Dirs
from bench.accuracy.pages import markdown, percent
from bench.accuracy.ranking import by_expected_time
from bench.fit.files import rows_of
from bench.fit.register import CONTACTS
from syncwall.answer.many import seconds_of
from syncwall.answer.pricing import Pricing
from syncwall.answer.settled import settle
from syncwall.describe import Layout, Run
from syncwall.describe.layout import Recompute
from syncwall.describe.rules import can_share
from syncwall.describe.switches import KEEPING, TRAINED
from syncwall.documents import read_document
from syncwall.plan.choices import MEMORY_FREE
from syncwall.plan.search import search
from syncwall.plan.space import Space, size_of
from syncwall.show.layout import layout_words
from syncwall.validate.evaluation import ValidatedRun, outcomes
from syncwall.validate.mapping import ValidationCase, cases_of
from syncwall.validate.table import RowUse, RunRow, corpus_part, organisation_of, row_doubt
from syncwall.work.memory import fits, step_memory

SPLIT: Final = read_document(ROOT / "bench" / "accuracy" / "decisions.yaml").value
FEWEST: Final = 3
"""Different layouts of a group."""
RANKS: Final = ("tp", "cp", "pp", "ep", "etp")
_DOUBLINGS: Final = (*RANKS, "micro_batch", "virtual_stages")
_KEY: Final = (*_DOUBLINGS, "sp", "shard", "schedule", "recompute", "recomputed part")
_RECOMPUTED: Final = ("recompute_modules", "recompute_stops_early")
_TRAINING: Final = (*TRAINED, *(name for name in KEEPING if name not in _RECOMPUTED))
_STATED: Final = ("global_batch", "precision", "gradient_dtype", "cp_kind", *MEMORY_FREE, *_TRAINING)
"""Fields of a layout that belong to the question where all its runs have the same value."""
_SAME: Final = ("global_batch", "precision", "optimizer", *TRAINED)
"""Fields that runs of one group share; other formats are often inferred, row by row."""
AGREED: Final = {"shard": "shard", "recompute": "recompute", "virtual_stages": "vpp", "schedule": "vpp"}
"""Fields that are compared with a recipe, and the columns that say whether it states them."""
PAGE: Final = ROOT / "docs" / "explanation" / "ranking.md"
MARKED: Final = re.compile(r"(<!-- decisions -->\n).*?(<!-- end -->)", re.DOTALL)


def key(layout: Layout) -> tuple[Any, ...]:
    """What tells two layouts of a question apart; what has nothing to act on does not."""
    recomputed = {Recompute.SELECTIVE: layout.recompute_modules, Recompute.FULL: layout.recompute_layers}
    ranks = layout.dp * layout.cp
    part = layout.shard_degree if layout.shard and layout.shard_degree < ranks else None
    return (
        *(getattr(layout, name) for name in _DOUBLINGS),
        layout.sp and layout.tp > 1,
        (layout.shard, part) if ranks > 1 else None,
        layout.schedule if layout.pp > 1 else None,
        layout.recompute,
        recomputed.get(layout.recompute),
    )


def ranks(layout: Layout) -> list[int]:
    """Ranks along every axis, which say who sends what to whom."""
    return [getattr(layout, name) for name in RANKS]


def distance(one: Layout, other: Layout) -> float:
    """Doublings of ranks, micro batch and virtual stages, and 1 for each other thing that differs."""
    sizes = sum(abs(log2(int(getattr(one, n)) / int(getattr(other, n)))) for n in _DOUBLINGS)
    names = zip(key(one)[len(_DOUBLINGS) :], key(other)[len(_DOUBLINGS) :], strict=True)
    return float(sizes + sum(a != b for a, b in names))


def differing(one: Layout, other: Layout) -> list[str]:
    """Names of what tells two layouts apart."""
    pairs = zip(_KEY, key(one), key(other), strict=True)
    return [name for name, mine, theirs in pairs if mine != theirs]


@dataclass(frozen=True)
class Group:
    members: Sequence[ValidatedRun]
    failed: Sequence[ValidationCase] = ()
    """Runs of the same that ran out of memory."""

    @property
    def case(self) -> ValidationCase:
        return self.members[0].case

    @property
    def left_out(self) -> bool:
        return left_out(self.case.row)

    @cached_property
    def layouts(self) -> dict[tuple[Any, ...], list[ValidatedRun]]:
        found: dict[tuple[Any, ...], list[ValidatedRun]] = defaultdict(list)
        for one in self.members:
            found[key(one.layout)].append(one)
        return found

    def measured_s(self, layout: Layout) -> float:
        """The median of all runs in `layout`."""
        return median(one.case.measured_s for one in self.layouts[key(layout)])

    @cached_property
    def best(self) -> ValidatedRun:
        return min(self.members, key=lambda one: self.measured_s(one.layout))

    def nearest(self, pick: Layout) -> ValidatedRun:
        """The measured run whose layout is least away; of several, whose predicted time is.

        Runs with the same ranks along all axes are nearer than any other.
        """
        case = self.case
        (picked_s,) = seconds_of(pricing_of(case), case.model, case.cluster, [pick], case.seq)

        def away(one: ValidatedRun) -> tuple[bool, float, float]:
            apart = distance(one.layout, pick)
            return ranks(one.layout) != ranks(pick), apart, abs(log2(one.step_s / picked_s))

        return min(self.members, key=away)

    @property
    def leaves_choice(self) -> bool:
        """True if several layouts with the ranks of the fastest were measured."""
        same = [one for one in self.members if ranks(one.layout) == ranks(self.best.layout)]
        return len({key(one.layout) for one in same}) > 1

    @cached_property
    def stated(self) -> dict[str, Any]:
        """What every run of the group has in common, apart from what is decided."""
        first = self.best.layout
        return {
            name: getattr(first, name)
            for name in _STATED
            if all(getattr(one.layout, name) == getattr(first, name) for one in self.members)
        }


def pricing_of(case: ValidationCase) -> Pricing:
    return Pricing.on(case.cluster, case.software)


def left_out(row: RunRow) -> bool:
    """True for judges and for what the hash of `decisions.yaml` leaves out of any tuning."""
    name = organisation_of(row.source)
    if name in SPLIT["split_by_model"]:
        name += f"/{row.text('model')}"
    below = int(sha256(name.encode()).hexdigest(), 16) % 100 < SPLIT["left_out_below"]
    return below or corpus_part(row) is RowUse.JUDGE


Decider = Callable[[Group], Layout | None]
"""The layout that is picked; None if none is, or if none fits."""


def least_of_measured(group: Group) -> Layout | None:
    """Of the measured layouts the one with the least predicted time that fits."""
    return min(group.members, key=by_expected_time).layout


def by_predict(group: Group) -> Layout | None:
    """What `predict` chooses if nothing of the layout is stated."""
    return _settled(group, {})


def by_predict_with_ranks(group: Group) -> Layout | None:
    """What `predict` chooses if ranks along all axes are stated as in the best measured run."""
    best = group.best.layout
    return _settled(group, {name: getattr(best, name) for name in (*RANKS, "sp")})


def _settled(group: Group, ranks: Mapping[str, Any]) -> Layout | None:
    case = group.case
    layout = Layout().model_copy(update={**group.stated, **ranks})
    try:
        run = Run(model=case.model, cluster=case.cluster, seq=case.seq, software=case.software, layout=layout)
    except ValidationError:  # such a batch cannot be spread over so many replicas
        return None
    found = settle(run, pricing_of(case)).run.layout
    return found if _fits(case, found) else None


def _fits(case: ValidationCase, layout: Layout) -> bool:
    return bool(fits(float(step_memory(case.model, layout, case.seq).total), case.cluster.device))


def by_plan(group: Group, most: int) -> Layout | None:
    """What `plan layouts` recommends; None if it would look at more than `most` layouts."""
    case, pinned = group.case, dict(group.stated)
    batch = pinned.pop("global_batch")
    space = Space.of(case.model, case.seq, batch, case.software, pinned)
    if size_of(space, [case.cluster], most) > most:
        return None
    found = search(
        case.model, case.cluster, seq=case.seq, global_batch=batch, software=case.software, pinned=pinned
    )
    return next((one.layout for one in found.best(1)), None)


MEASURED: Final = "best predicted of the measured"
DECIDERS: Final[dict[str, Decider]] = {
    MEASURED: least_of_measured,
    "predict": by_predict,
    "predict, ranks stated": by_predict_with_ranks,
}


@dataclass(frozen=True)
class Decision:
    """A pick beside what was measured."""

    group: Group
    pick: Layout | None

    @cached_property
    def nearest(self) -> ValidatedRun | None:
        return None if self.pick is None else self.group.nearest(self.pick)

    @property
    def away(self) -> float:
        """Distance to the nearest measured layout; 0 if the pick was measured."""
        return inf if self.pick is None or self.nearest is None else distance(self.nearest.layout, self.pick)

    @property
    def ran_out_away(self) -> float:
        """Distance to the nearest layout that ran out of memory; 0 if the pick did."""
        failed = [case.layouts[0] for case in self.group.failed] if self.pick else []
        return min((distance(layout, self.pick) for layout in failed if self.pick), default=inf)

    @property
    def regret(self) -> float | None:
        """Measured time of the pick, or of the nearest layout, over the best measured, less 1."""
        if self.nearest is None:
            return None
        measured_s = self.group.measured_s(self.nearest.layout)
        return measured_s / self.group.measured_s(self.group.best.layout) - 1.0

    def agrees(self, name: str) -> bool | None:
        """True if the pick has the recipe's value of a field; None if that says nothing of it."""
        case, layout = self.group.case, self.group.best.layout
        idle = {"vpp": layout.pp == 1, "shard": not can_share(case.model, layout)}
        if self.pick is None or idle.get(AGREED[name]) or not case.row.text(AGREED[name]):
            return None
        return bool(getattr(self.pick, name) == getattr(layout, name))


def groups_of(found: Iterable[ValidatedRun], failed: Iterable[ValidationCase] = ()) -> list[Group]:
    alike, ran_out = defaultdict(list), defaultdict(list)
    for one in found:
        if not any(mark in one.case.row.text("options") for mark in SPLIT["degraded"]):
            alike[_question(one.case, one.layout)].append(one)
    for case in failed:
        ran_out[_question(case, case.layouts[0])].append(case)
    groups = [Group(members, ran_out[what]) for what, members in alike.items()]
    return [group for group in groups if len(group.layouts) >= FEWEST]


def _question(case: ValidationCase, layout: Layout) -> tuple[Any, ...]:
    """What runs of one group share."""
    machine = (case.cluster.name, case.cluster.device.name, case.cluster.gpus)
    same = tuple(repr(getattr(layout, name)) for name in _SAME)
    about = (case.row.source, case.model.model_dump_json(), case.software, case.seq)
    return about, machine, same


def recipes_of(found: Iterable[ValidatedRun]) -> list[Group]:
    """The fastest recommended run of every model, device, sequence length and precision."""
    best: dict[Any, ValidatedRun] = {}
    for one in found:
        case = one.case
        if case.row.source not in SPLIT["recipes"] or case.cluster.gpus == 1:
            continue
        who = (organisation_of(case.row.source), case.row.text("model"), case.row.text("gpu"))
        what = (*who, case.seq, one.layout.precision)
        if what not in best or _gpu_s_per_token(one) < _gpu_s_per_token(best[what]):
            best[what] = one
    return [Group([one]) for one in best.values()]


def _gpu_s_per_token(one: ValidatedRun) -> float:
    samples = float(one.layout.global_batch or 1)
    return one.case.measured_s * one.case.cluster.gpus / (samples * one.case.seq)


def failed_cases(rows: Iterable[RunRow]) -> list[ValidationCase]:
    """Runs that ran out of memory, as their `flags` say; they have no time, and any will do."""
    timed = {"step_time_s": "1"}
    failed = (row for row in rows if "out of memory" in row.text("flags") and not row.text("step_time_s"))
    return cases_of(RunRow(row.cells | timed, row.file, row.line) for row in failed)


def rows_once(directories: Dirs) -> list[RunRow]:
    """Rows of the built-in tables, of first contacts and of `directories`, without doubtful ones."""
    found: dict[str, RunRow] = {}
    for where in ((), [CONTACTS], directories):
        for row in rows_of(where):
            found.setdefault(row.id, row)
    return [one for one in found.values() if not row_doubt(one) and corpus_part(one) is not RowUse.COMPOSED]


def regret_table(decisions: Mapping[str, Sequence[Decision]]) -> str:
    rows = []
    for who, some in decisions.items():
        for title, part in _parts(some):
            cells: list[Any] = [who, title, len(part)]
            for most in (inf, 1.0):
                regrets = [one.regret for one in part if one.regret is not None and one.away <= most]
                quantiles = np.quantile(regrets, (0.5, 0.9)) if regrets else (None, None)
                cells += [len(regrets), *map(percent, quantiles)]
            ran_out = sum(one.ran_out_away == 0 for one in part)
            rows.append([*cells, ran_out, sum(one.ran_out_away < one.away for one in part)])
    return markdown(
        "decided by | groups | all | decided | regret, median | p90 | measured or one change away"
        " | regret, median | p90 | ran out of memory | nearest tried ran out",
        rows,
        2,
    )


def agreement_table(decisions: Mapping[str, Sequence[Decision]]) -> str:
    rows = []
    for who, some in decisions.items():
        for title, part in _parts(some):
            cells = [who, title, len(part), sum(one.pick is not None for one in part)]
            for name in AGREED:
                said = [agrees for one in part if (agrees := one.agrees(name)) is not None]
                cells.append(f"{percent(fmean(said), 0)}% of {len(said)}" if said else "–")
            rows.append(cells)
    header = "decided by | recipes | all | decided | sharding | recomputation | virtual stages | schedule"
    return markdown(header, rows, 2)


def _parts(decisions: Sequence[Decision]) -> Iterator[tuple[str, list[Decision]]]:
    """All, those that are left out together, and the others by organisation."""
    yield "all", list(decisions)
    yield "left out", [one for one in decisions if one.group.left_out]
    by_name: dict[str, list[Decision]] = defaultdict(list)
    for one in decisions:
        if not one.group.left_out:
            by_name[organisation_of(one.group.case.row.source)].append(one)
    few = [name for name, some in by_name.items() if len(some) < FEWEST]
    others = [one for name in few for one in by_name.pop(name)]
    yield from sorted(by_name.items(), key=lambda item: -len(item[1]))
    yield from [("others", others)] if others else []


def picks(decisions: Mapping[str, Sequence[Decision]]) -> Iterator[str]:
    """Every group that is not left out, with its best layout and what was picked."""
    for who, some in decisions.items():
        for one in sorted(some, key=lambda one: -(one.regret or 0.0)):
            case, best = one.group.case, one.group.best
            if one.group.left_out:
                continue
            machine = f"{case.cluster.gpus} {case.cluster.device.name}"
            about = f"{case.row.source} {case.row.text('model')} {machine} seq {case.seq}"
            yield f"{who}: {about} batch {best.layout.global_batch} {case.software.framework}"
            yield f"  best {best.case.measured_s:.3g} s: {layout_words(best.layout)}"
            if one.pick is None:
                yield "  pick none"
                continue
            mark = " measured" * (one.away == 0) + " RAN OUT OF MEMORY" * (one.ran_out_away == 0)
            differs = ", ".join(differing(best.layout, one.pick)) or "nothing"
            yield f"  pick {percent(one.regret)}%{mark}: {layout_words(one.pick)}; differs in {differs}"


def report(rows: Sequence[RunRow], plan: int) -> tuple[str, list[str]]:
    """The tables, and lines about each group and recipe that is not left out."""
    found, failed = outcomes(cases_of(rows)), failed_cases(rows)
    groups, recipes = groups_of(found, failed), recipes_of(found)
    deciders = dict(DECIDERS)
    if plan:
        deciders["plan layouts"] = lambda group: by_plan(group, plan)
    choices = [one for one in groups if one.leaves_choice]
    regrets = {
        who: [Decision(one, pick(one)) for one in (choices if pick is by_predict_with_ranks else groups)]
        for who, pick in deciders.items()
    }
    del deciders[MEASURED]
    shares = {who: [Decision(one, pick(one)) for one in recipes] for who, pick in deciders.items()}
    left = [percent(fmean(one.left_out for one in some), 0) for some in (groups, recipes, groups + recipes)]
    tried = [case for group in groups for case in group.failed]
    fitting = sum(_fits(case, case.layouts[0]) for case in tried)
    said = (
        f"{len(groups)} groups and {len(recipes)} recipes; {left[0]}% and {left[1]}% of them, together"
        f" {left[2]}%, are left out of any tuning. {len(tried)} layouts of groups ran out of memory where"
        f" they were tried; {fitting} of them are predicted to fit."
    )
    tables = f"{said}\n\n{regret_table(regrets)}\n\n{agreement_table(shares)}"
    return tables, [*picks(regrets), *picks(shares)]


def decisions(directories: Dirs, plan: int = 0, list_picks: bool = False, accept: bool = False) -> None:
    """Whether what is chosen and recommended is what was fastest: the layout is hidden.

    Regret is the measured time of the pick over the best measured, in percent more; of a pick that
    was not measured, that of the nearest layout. Of organisations that are left out of any tuning
    only totals show.

    Args:
        directories: Tables of published runs, beside the built-in ones.
        plan: Ask `plan layouts`, too, where it looks at no more layouts than this: 300000 takes
            some minutes.
        list_picks: List every group and recipe that is not left out.
        accept: Write the tables into docs/explanation/ranking.md.
    """
    tables, lines = report(rows_once(directories), plan)
    print(tables)
    if list_picks:
        print(*lines, sep="\n")
    if accept:
        PAGE.write_text(MARKED.sub(lambda match: f"{match[1]}\n{tables}\n\n{match[2]}", PAGE.read_text()))
