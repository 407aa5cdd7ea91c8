"""Causes are values: everything that books time does so under a member of `Cause`."""

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings

import syncwall as sw
from syncwall.cause import Cause, CauseKind
from syncwall.explain.traces.activity import COMPUTE, COPY
from syncwall.explain.traces.rank import KINDS, _kind
from syncwall.lab.comparison import GROUPS
from syncwall.measure.training_step import CAUSES
from syncwall.read.trace import _KINDS
from syncwall.work.block import EXPOSED, Stream
from syncwall.work.operations import CollectiveKind
from tests.answer.runs import runs

ROOT = Path(sw.__file__).parent
SAID = {"exposed communication", "idle", "other computation"}
"""Lines that sum up several causes."""
OTHERS = {
    "attention",
    "backward",
    "checkpoint",
    "contention",
    "convolution",
    "copy",
    "data",
    "elementwise",
    "evaluation",
    "forward",
    "host",
    "maintenance",
    "optimizer",
    "output layer",
    "recompute",
    "restart",
    "start-up",
    "stragglers",
    "unexplained",
    "useful",
}
"""Words that are also names of something else, so that a file may have them."""


@settings(max_examples=30, deadline=None)
@given(runs())
def test_every_cause_of_a_prediction_is_a_member(run):
    found = sw.predict(run)
    assert all(type(cause) is Cause for cause in found.ledger)
    assert {Cause(key) for key in json.loads(json.dumps(found.to_dict()))["ledger_s"]} == {*found.ledger}
    stages = found.work.stages
    causes = {op.cause for s in stages for block, _ in s.in_a_step(2) for op in block.operations}
    assert all(type(cause) is Cause for cause in causes)


def test_jobs_measured_steps_labs_and_traces_have_members_only():
    run = sw.Run(model="llama-3.1-8b", cluster="dgx-h100", nodes=8)
    maintenance = {"every_s": 7 * 86400.0, "time_s": 3600.0}
    job = sw.Job.model_validate(
        {"run": run, "tokens": 1e11, "simulations": 100, "data_stall": 0.01, "maintenance": maintenance}
    )
    ledger = sw.finish(job).ledger
    assert {Cause.USEFUL, Cause.MAINTENANCE, Cause.DATA_LOADING} <= set(ledger)
    booked = [
        *ledger,
        *CAUSES,
        *COMPUTE,
        COPY,
        *(one for group in GROUPS.values() for one in group),
    ]
    assert all(type(cause) is Cause for cause in booked)
    assert all(_kind(cause) in KINDS for cause in Cause)


def test_every_stream_and_every_collective_can_be_waited_for():
    assert set(EXPOSED) == set(Stream) - {Stream.COMPUTE}
    kinds = {*get_args(CollectiveKind), *(kind for _, kind in _KINDS), "other"}
    waits = [*EXPOSED.values(), *map(Cause.exposed, kinds), Cause.LINKS]
    assert {cause for cause in Cause if cause.is_exposed} == set(waits)
    assert all(cause.is_wait and cause.moved in cause.title for cause in waits)


def test_a_cause_is_its_key():
    for number, cause in enumerate(Cause):
        assert (Cause(str(cause)), cause.order) == (cause, number)
        assert pickle.loads(pickle.dumps(cause)) is cause
        assert {cause: 1}[cause.value] == 1
        assert cause.is_wait == (cause.kind is CauseKind.WAIT)
    with pytest.raises(ValueError, match="exposed XY"):
        Cause("exposed XY")


def test_titles_are_told_apart_and_colours_are_there():
    assert len({cause.title for cause in Cause}) == len(Cause)
    for style, mark in (("web/static/colours.css", "--{}:"), ("show/draw/chart.css", r"\.{}\b")):
        rules = (ROOT / style).read_text()
        assert all(re.search(mark.format(cause.colour), rules) for cause in Cause)


def literals() -> Iterator[tuple[Path, ast.Constant]]:
    """Strings of the source, docstrings left out."""
    for path in ROOT.rglob("*.py"):
        if path.name != "cause.py":
            nodes = list(ast.walk(ast.parse(path.read_text())))
            said = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
            for node in nodes:
                if isinstance(node, ast.Constant) and id(node) not in said:
                    yield path, node


def test_no_other_file_writes_a_cause():
    """Nor the beginning of one: what a wait is, only `Cause` says."""
    keys = {str(cause) for cause in Cause} - OTHERS
    parts = re.compile(r"exposed (?!communication)|idle: ")
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.value!r}"
        for path, node in literals()
        if isinstance(node.value, str) and node.value not in SAID
        if node.value in keys or parts.match(node.value)
    ]
    assert not wrong


@pytest.mark.parametrize("path", sorted(ROOT.glob("web/static/**/*.js")), ids=lambda path: path.stem)
def test_no_script_writes_a_cause(path):
    keys = "|".join(re.escape(str(cause)) for cause in Cause if str(cause) not in OTHERS)
    assert not re.search(rf"[\"'`]({keys}|exposed |idle: )[\"'`]", path.read_text())


def test_pages_have_the_same_causes():
    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'syncwall[web]'")
    pytest.importorskip("httpx2", reason="httpx2 is not installed: the test client needs it")
    from fastapi.testclient import TestClient

    from syncwall.web.application import Options, application

    client = TestClient(application(Options(processes=1)), base_url="http://127.0.0.1")
    script = client.get("/static/cause_list.js")
    assert script.headers["content-type"].startswith("text/javascript")
    found = json.loads(script.text.partition("CAUSES = ")[2].partition(";\n")[0])
    names = ("colour", "moved")
    assert found == [{"key": one.value} | {name: getattr(one, name) for name in names} for one in Cause]
