"""A run of which something is open fits if any way to fill it in does."""

import numpy as np
import pytest
from hypothesis import given

from syncwall.answer import predict
from syncwall.answer.improvements import changed, divisors, improvements, virtual_stage_counts
from syncwall.answer.many import memory_of
from syncwall.answer.pricing import Pricing
from syncwall.answer.settled import SMALLEST, settle
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run
from syncwall.describe.base import is_open
from syncwall.describe.layout import Schedule, Shard
from syncwall.describe.rules import broken_rules
from syncwall.work.memory import fits
from tests.laws.questions import law, questions


def every_way(run: Run) -> list[Layout]:
    """All layouts that `run` could mean: every value of every open field."""
    family, layout = framework_or_default(run.software.framework), run.layout
    ways = [layout]
    shards = sorted(set(family.shards)) if is_open(layout, "shard") else [layout.shard]
    recomputes = family.recomputes if is_open(layout, "recompute") else [layout.recompute]
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
    layout = run.layout
    if layout.pp == 1 or not is_open(layout, "virtual_stages"):
        return [{}]
    several: list[dict[str, object]] = [
        {"virtual_stages": n, "schedule": Schedule.INTERLEAVED}
        for n in virtual_stage_counts(run.model.layers, layout.pp)
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
    if single:
        quickest = min(found.step_s - one.gained_s for one in single)
        assert found.step_s - proposed[0].gained_s == pytest.approx(quickest)
    for one in proposed:
        assert predict(one.run, found.pricing).fits


@law(100)
@given(questions(all_open=True))
def test_no_more_is_shared_out_than_the_rest_needs(run):
    """With less sharding, and all else as it was chosen, it would not fit."""
    found = predict(run)
    layout = found.run.layout
    family = framework_or_default(found.run.software.framework)
    if not found.has_headroom or layout.dp * layout.cp == 1:
        return
    less = [shard for shard in set(family.shards) if shard < layout.shard]
    if layout.pp > 1:
        less = [shard for shard in less if shard != Shard.ZERO2]
    if layout.cp > 1 and family.shards_hold_cp:
        less = [shard for shard in less if shard != Shard.DDP]
    for shard in less:
        one = found.run.changed(shard=shard, shard_degree=None)
        assert not predict(one, found.pricing).has_headroom
