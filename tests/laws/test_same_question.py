"""The same run asked through flags, file, Python, page and saved plan has the same answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import syncwall as sw
from syncwall.answer import Prediction, predict
from syncwall.describe import Layout, Run, Software, lookup
from syncwall.describe.base import is_open
from syncwall.describe.choice import Choice
from syncwall.describe.files import run_text
from syncwall.plan.search import search
from syncwall.records import described
from syncwall.web.answers.prediction import predicted
from syncwall.web.questions import AskedRun
from tests.describe.stated import run_with
from tests.laws.questions import law, questions

NUMBERS = ("bucket_bytes",)


def same(one: Prediction, other: Prediction) -> None:
    """Two answers to one question."""
    assert other.step_s == pytest.approx(one.step_s, rel=1e-9)
    assert other.memory_bytes == pytest.approx(one.memory_bytes, rel=1e-9)
    assert dict(other.ledger) == pytest.approx(dict(one.ledger), rel=1e-9)
    assert other.fits == one.fits


def written(value: Any) -> str:
    """A value of a layout as a flag has it."""
    if isinstance(value, Choice):
        return value.text
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def flags_of(run: Run) -> dict[str, str]:
    """Everything that `run` states, as flags."""
    flags = {"model": run.model.name, "cluster": run.cluster.name, "nodes": str(run.nodes)}
    flags |= {"seq": str(run.seq)}
    for part in ("layout", "software"):
        described = getattr(run, part)
        flags |= {
            f"{part}.{name}": written(getattr(described, name))
            for name in type(described).model_fields
            if not is_open(described, name) and name not in NUMBERS
        }
    return flags


@law(500)
@given(questions())
def test_equal_runs_have_equal_answers(run):
    """What was open and what was stated is all that counts, and equality sees it."""
    again = Run.model_validate(dict(run))
    assert again == run
    assert again.layout == run.layout
    assert hash(again.layout) == hash(run.layout)
    one, other = predict(run), predict(again)
    assert other.step_s == one.step_s
    assert other.chosen == one.chosen
    assert (one.run.layout == run.layout) == (not open_fields(run.layout))


def open_fields(layout: Layout) -> list[str]:
    known = ("recompute_layers", "outer_every")  # None says something here
    return [name for name in Layout.model_fields if is_open(layout, name) and name not in known]


@law(500)
@given(questions())
def test_flags_file_python_and_page_agree(run):
    here = predict(run)
    same(here, predict(run_with(None, flags_of(run))))
    same(here, predict(of_text(run_text(run))))
    page = predicted(AskedRun.model_validate(asked(run)))
    assert page["step_s"] == pytest.approx(here.step_s, rel=1e-9)
    assert page["memory_bytes"] == pytest.approx(here.memory_bytes, rel=1e-9)


def of_text(text: str) -> Run:
    """The run that a run file says."""
    import yaml

    return Run.model_validate(yaml.safe_load(text), context={"in_file": True, "directory": Path()})


def asked(run: Run) -> dict[str, Any]:
    """What a page sends: the keys of its address."""
    layout = {k: v for k, v in described(run.layout).items() if v is not None and k != "provenance"}
    software = {name: value for name, value in dict(run.software).items() if value is not None}
    return {
        "model": run.model.name,
        "cluster": run.cluster.name,
        "nodes": run.nodes,
        "seq": run.seq,
        "layout": layout,
        "software": software,
    }


@law(500)
@given(questions())
def test_a_settled_run_asked_again_has_the_same_answer(run):
    first = predict(run)
    same(first, predict(first.run))
    same(first, predict(of_text(run_text(first.run))))
    same(first, predict(Run.model_validate(asked(first.run), context={"in_file": True})))


@law(500)
@given(questions(), st.booleans())
def test_gpus_say_the_same_as_nodes(run, by_flags):
    if by_flags:
        flags = flags_of(run)
        del flags["nodes"]
        other = run_with(None, flags | {"gpus": str(run.gpus)})
    else:
        other = Run(
            model=run.model,
            cluster=lookup.cluster(run.cluster.name),
            gpus=run.gpus,
            layout=run.layout,
            software=run.software,
            seq=run.seq,
        )
    assert other == run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "cluster", "nodes", "batch", "pinned", "framework"),
    [
        ("llama-3.1-8b", "dgx-h100", 4, 64, {}, None),
        ("llama-3.1-70b", "dgx-b200", 8, 128, {"cp": 1}, None),
        ("qwen3-30b-a3b", "dgx-h200", 4, 256, {"cp": 1}, None),
        ("mixtral-8x7b", "dgx-a100", 8, 128, {"cp": 1, "pp": (1, 2, 4)}, "megatron-core"),
        ("llama-3.1-8b", "gb200-nvl72", 9, 144, {"cp": 1}, "torchtitan"),
    ],
)
def test_every_row_of_a_plan_is_what_predict_says(model, cluster, nodes, batch, pinned, framework):
    found = search(
        sw.model(model),
        sw.cluster(cluster, nodes=nodes),
        global_batch=batch,
        pinned=pinned,
        software=Software(framework=framework) if framework else None,
    )
    rows = found.best(110)
    assert len(rows) >= 15
    for row in rows:
        assert predict(row.run).step_s == pytest.approx(row.step_s, rel=1e-9)
        saved = predict(of_text(run_text(row.prediction.run)))
        assert saved.step_s == pytest.approx(row.step_s, rel=1e-9)
        pasted = Layout.model_validate(
            {k: v for k, v in described(row.layout).items() if k != "provenance"},
            context={"in_file": True},
        )
        assert np.all(pasted == row.layout)
