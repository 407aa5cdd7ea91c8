"""A run of which something is open fits if any way to fill it in does."""

import numpy as np
import pytest
from hypothesis import given

from syncwall.answer import predict
from syncwall.answer.improvements import (
    changed,
    divisors,
    improvements,
    is_sensible,
)
from syncwall.answer.many import memory_of
from syncwall.answer.pricing import Pricing
from syncwall.answer.settled import SMALLEST, settle, virtual_stage_counts
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run
from syncwall.describe.base import is_open
from syncwall.describe.layout import Schedule
from syncwall.describe.rules import broken_rules
from syncwall.work.memory import fits
from tests.laws.questions import law, questions


def every_way(run: Run) -> list[Layout]:
    """All layouts that `run` could mean: every value of every open field."""
    family, layout = framework_or_default(run.software.framework), run.layout
    ways = [layout]
    date = run.software.date
    shards = family.available(family.shards, date) if is_open(layout, "shard") else [layout.shard]
    kinds = family.available(family.recomputes, date)
    recomputes = kinds if is_open(layout, "recompute") else [layout.recompute]
    batches = divisors(layout.global_batch // layout.dp)
    micros = batches if is_open(layout, "micro_batch") else [layout.micro_batch]
    ways = [
        layout.model_copy(update={"shard": shard, "recompute": again, "micro_batch": micro, **how})
        for shard in shards
        for again in recomputes
        for micro in micros
        for how in pipelines(run)
    ]
    resolved = [one.plain() for one in ways]
    return [one for one in resolved if not broken_rules(run.model, one, run.seq, run.gpus)]


def pipelines(run: Run) -> list[dict[str, object]]:
    family, layout = framework_or_default(run.software.framework), run.layout
    if layout.pp == 1 or not is_open(layout, "virtual_stages"):
        return [{}]
    counts = virtual_stage_counts(run.model, layout.pp, family, run.software.date)
    if is_open(layout, "schedule") and family.virtual_stages:
        counts = [family.virtual_stages]
    several: list[dict[str, object]] = [
        {"virtual_stages": n, "schedule": Schedule.INTERLEAVED} for n in counts
    ]
    if is_open(layout, "schedule"):
        return [{}, *several]
    return several if layout.schedule == Schedule.INTERLEAVED else [{}]


@pytest.mark.slow
@law(1500)
@given(questions())
def test_it_does_not_fit_only_if_nothing_does(run):
    check(run)


@pytest.mark.slow
@law(500)
@given(questions(all_open=True))
def test_with_everything_open_it_does_not_fit_only_if_nothing_does(run):
    check(run)


def check(run: Run) -> None:
    found = settle(run, Pricing.of(run)).run
    used = memory_of(run.model, [found.layout], run.seq)[0]
    if fits(used, run.cluster.device):
        return
    ways = every_way(run)
    completed = [found.layout.model_copy(update=_chosen(one)) for one in ways]
    assert not np.any(fits(np.array(memory_of(run.model, completed, run.seq)), run.cluster.device))


def _chosen(layout: Layout) -> dict[str, object]:
    names = ("shard", "recompute", "micro_batch", "virtual_stages", "schedule")
    return {name: getattr(layout, name) for name in names}


@law(60)
@given(questions(all_open=True))
def test_what_does_not_fit_says_what_would(run):
    found = predict(run)
    if found.fits:
        return
    assert any(one.why == SMALLEST for one in found.chosen)
    proposed = improvements(found, 3)
    single = [one for one in changed(found) if one.fits]
    single = [one for one in single if is_sensible(found, one)] or single
    if single:
        quickest = min(found.step_s - one.gained_s for one in single)
        assert found.step_s - proposed[0].gained_s == pytest.approx(quickest)
    for one in proposed:
        assert predict(one.run, found.pricing).fits
