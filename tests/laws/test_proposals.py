"""Proposals are the best of all single changes, found again here by brute force."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import syncwall as sw
from syncwall.answer import predict
from syncwall.answer.improvements import (
    LEVERS,
    ORDERS,
    WORTH,
    Improvement,
    changed,
    improvements,
    is_sensible,
)
from syncwall.answer.known import site_at
from syncwall.answer.prediction import Prediction
from syncwall.answer.settled import virtual_stage_counts
from syncwall.cost.framework_costs import framework_or_default
from syncwall.describe import Layout, Run
from syncwall.describe.files import run_text
from syncwall.describe.layout import ContextKind, Dispatcher, Recompute, Schedule, Shard
from syncwall.describe.rules import not_offered
from syncwall.describe.switches import FSDP, KEEPING, TRAINED
from tests.describe.stated import run_with
from tests.laws.questions import DENSE, law, questions

SLACK = 1.01
"""Overlap makes a step a little more or less than its shares say when prices change by much."""
COUNTS = [*range(1, 33), 48, 64, 128, 160, 256]
"""Every number of ranks, of sequences and of virtual stages that a change may lead to here."""
FIXED = {
    "dp",
    "global_batch",
    "precision",
    "gradient_dtype",
    "bucket_bytes",
    "outer_every",
    "first_stage_layers",
    "last_stage_layers",
    "fp8_dispatch",
    "tp_exposed_share",
    "ep_exposed_share",
    "kept_gathered_inputs",
    "fsdp_copies",
    "recompute_layers",
    *FSDP,
    *KEEPING,
    *TRAINED,
} - {"fused_loss"}
"""Fields that no lever moves: they change the training, nobody chooses them, or, as formats and
places of what is kept, they follow from the software."""


def test_every_field_is_a_lever_or_has_a_reason_not_to_be():
    assert {lever.field for lever in LEVERS} | FIXED == set(Layout.model_fields)


def neighbours(run: Run) -> Iterator[dict[str, Any]]:
    """Every field stated otherwise, and what must follow it; open stays open."""
    layout, again = run.layout, {"dp": None, "shard_degree": None}
    family = framework_or_default(run.software.framework)
    plain = {"virtual_stages": 1, "schedule": Schedule.ONE_F_ONE_B}
    for count in COUNTS:
        sp = {"sp": False} if count == 1 else {}
        etp = {"etp": count} if layout.etp == layout.tp else {}
        yield {"tp": count, **sp, **etp, **again}
        interleaved = count == 1 or layout.schedule == Schedule.INTERLEAVED
        yield {"pp": count, **(plain if interleaved else {}), **again}
        yield {"cp": count, **again}
        yield {"ep": count, **({"dispatcher": None, "overlap_ep": False} if count == 1 else {})}
        yield {"micro_batch": count}
        if count in virtual_stage_counts(run.model, layout.pp, family, run.software.date):
            yield {"virtual_stages": count, "schedule": Schedule.INTERLEAVED}
    domain, whole = run.cluster.domain_gpus, layout.dp * layout.cp
    for degree in {*(domain * over // layout.tp for over in (1, 4, 16)), whole} - {1}:
        yield {"shard_degree": degree}
    yield from ({"etp": etp} for etp in {1, layout.tp})
    others = [one for one in Schedule if one != Schedule.INTERLEAVED]
    yield from ({"schedule": one, "virtual_stages": 1} for one in others)
    yield from ({"shard": shard, "shard_degree": None} for shard in Shard)
    kinds: dict[str, Any] = {
        "recompute": Recompute,
        "cp_kind": ContextKind,
        "order": ORDERS,
        "dispatcher": Dispatcher,
    }
    for name, values in kinds.items():
        yield from ({name: value} for value in values)
    for lever in LEVERS:
        if lever.values(run, framework_or_default(None)) == (True, False):
            yield from ({lever.field: on} for on in (True, False))


def brute_force(found: Prediction) -> list[float]:
    """Gains of all single changes that fit and make sense, the largest first."""
    run = found.run
    family, software = framework_or_default(run.software.framework), run.software
    before = not_offered(family, software, run.layout, run.model).keys()
    gains: dict[Layout, tuple[float, bool]] = {}
    for fields in neighbours(found.settled.asked):
        try:
            then = predict(found.settled.asked.changed(**fields), found.pricing)
        except ValidationError:
            continue
        layout = then.run.layout
        missing = not_offered(family, software, layout, run.model).keys()
        runs = missing <= before and not missing & set(fields)
        change = Improvement("", then.run, 0.0, fields=fields)
        if runs and then.has_headroom and layout != run.layout:
            gains[layout] = (found.step_s - then.step_s, is_sensible(found, change))
    sensible = [gain for gain, is_one in gains.values() if is_one]
    every = [gain for gain, _ in gains.values()]
    return sorted(sensible if found.has_headroom or sensible else every, reverse=True)


def compared(run: Run) -> None:
    found = predict(run)
    wanted = brute_force(found)
    if found.has_headroom:
        wanted = [gain for gain in wanted if gain > WORTH * found.step_s]
    proposed = improvements(found, 3)
    hosts = [one for one in proposed if "offload_optimizer" in one.fields]
    named = [one.gained_s for one in proposed if one.fields and one not in hosts]
    assert named == pytest.approx(wanted[: len(named)], rel=1e-9, abs=1e-12)
    assert len(named) == min(3, len(wanted))
    for one in hosts:
        assert not wanted
        then = predict(found.settled.asked.changed(**one.fields), found.pricing)
        assert then.fits
        assert one.gained_s == pytest.approx(found.step_s - then.step_s, rel=1e-9)


@pytest.mark.slow
@law(140)
@given(questions(DENSE))
def test_proposals_for_dense_models_are_the_best_single_changes(run):
    compared(run)


@law(500)
@given(questions(), st.floats(0.77, 1.3))
def test_a_known_run_gives_every_change_the_same_knobs(run, ratio):
    plain = predict(run)
    site = site_at([plain], [plain.step_s * ratio])
    known = predict(run, site=site)
    low, high = sorted((plain.step_s, plain.step_s * ratio))
    assert known.step_s <= high * SLACK
    if known.run == plain.run:
        assert known.step_s >= low / SLACK
    if plain.step_s * 1e3 % 10 < 1:  # of a tenth of the runs, as each has dozens of changes
        for one in changed(known):
            then = predict(one.run, site=site)
            assert then.pricing.knobs == known.pricing.knobs
            assert one.gained_s == pytest.approx(known.step_s - then.step_s, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("shard", ["fsdp", "ddp"])
def test_a_tuned_proposal_is_what_predict_says_of_its_run_file(tmp_path, shard):
    """Buckets, units, prefetch and resharding that a search chose, written down and read again."""
    cluster = sw.cluster("aws-p4d").using(nodes=8)
    pinned = {"tp": 1, "pp": 1, "cp": 1, "micro_batch": 1, "shard": Shard.read(shard)}
    model = sw.model("gpt2-xl" if shard == "ddp" else "llama-3.1-8b")
    found = sw.plan.layouts(model, cluster, global_batch=64, seq=1024, pinned=pinned)
    for one in found.best(3):
        assert one.tuned
        path = tmp_path / "run.yaml"
        path.write_text(run_text(one.run))
        again = sw.predict(run_with(path, {}))
        assert again.run.layout == one.layout
        assert again.step_s == pytest.approx(one.step_s, rel=1e-9)
        assert again.memory_bytes == pytest.approx(one.memory_bytes, rel=1e-9)
