"""An address gives the same answer as Python, by the rules of `static/state.js`."""

import json
import re
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import syncwall as sw
from syncwall.describe import Run
from syncwall.describe.layout import PLAIN
from syncwall.records import plain
from syncwall.web.answers.prediction import layout_fields
from tests.answer.runs import runs

UNHURRIED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)
WHOLE = re.compile(r"[-+]?\d{1,15}")
FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)(e[-+]?\d+)?", re.IGNORECASE)
OPEN = ("", "~", "null")


def written(value: Any) -> str:
    """A value as the page writes it: JavaScript's text of what JSON says."""
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    if isinstance(value, (bool, dict)):
        return json.dumps(value)
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def scalar(text: str) -> Any:
    """Text of an address as the page reads it."""
    if text.startswith("[") and text.endswith("]"):
        return [one.strip() for one in text[1:-1].split(",") if one.strip()]
    if WHOLE.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def address(fields: dict[str, Any]) -> str:
    """The address of a run; what is open stays out of it."""
    flat = {key: one for key, one in fields.items() if key not in ("layout", "software")}
    for key in ("layout", "software"):
        flat |= {f"{key}.{name}": one for name, one in fields.get(key, {}).items()}
    return urlencode({key: written(one) for key, one in flat.items() if one not in (None, "")})


def asked(query: str) -> dict[str, Any]:
    """The run that a page asks for at this address."""
    found: dict[str, Any] = {"layout": {}, "software": {}}
    for key, text in parse_qsl(query, keep_blank_values=True):
        outer, _, inner = key.partition(".")
        if text in OPEN:
            continue
        if inner:
            found[outer][inner] = scalar(text)
        else:
            found[key] = text if key in ("model", "cluster") else scalar(text)
    return found


def fields_of(run: Run, *, by_gpus: bool = False) -> dict[str, Any]:
    """A run as somebody would state it."""
    size = {"gpus": run.gpus} if by_gpus else {"nodes": run.nodes}
    software = {name: plain(value) for name, value in dict(run.software).items()}
    return {
        "model": run.model.name,
        "cluster": run.cluster.name,
        "seq": run.seq,
        **size,
        "layout": layout_fields(run),
        "software": software,
    }


@st.composite
def open_runs(draw: Any) -> Run:
    """Runs in which some fields that may be open are."""
    run = draw(runs())
    left = draw(st.sets(st.sampled_from(sorted(PLAIN)), min_size=1))
    if "virtual_stages" in left or "schedule" in left:
        left |= {"virtual_stages", "schedule"}
    changed: Run = run.changed(**dict.fromkeys(left))
    return changed


def same(client: Any, run: Run, query: str) -> None:
    """The page, the file that it exports and Python agree."""
    own = sw.predict(run)
    body = asked(query)
    said = client.post("/api/predict", json=body)
    assert said.status_code == 200, said.text
    assert said.json()["step_s"] == pytest.approx(own.step_s, rel=1e-9)
    assert said.json()["memory_bytes"] == pytest.approx(own.memory_bytes, rel=1e-9)
    assert said.json()["left_open"] == own.assumed


@pytest.mark.slow
@settings(UNHURRIED, max_examples=200)
@given(run=st.one_of(runs(), open_runs()), by_gpus=st.booleans())
def test_an_address_gives_the_answer_of_python(client, tmp_path, run, by_gpus):
    query = address(fields_of(run, by_gpus=by_gpus))
    assert ("gpus=" in query) == by_gpus
    same(client, run, query)
    file = tmp_path / "run.yaml"
    file.write_text(client.post("/api/export/yaml", json=asked(query)).json(), encoding="utf-8")
    read = sw.run(file)
    assert read == run
    assert sw.predict(read).step_s == pytest.approx(sw.predict(run).step_s, rel=1e-9)


@pytest.mark.slow
@settings(UNHURRIED, max_examples=60)
@given(run=open_runs())
def test_a_settled_run_in_an_address_is_predicted_the_same(client, run):
    settled = sw.predict(run).run
    query = address(fields_of(settled))
    same(client, settled, query)
    step_s = client.post("/api/predict", json=asked(query)).json()["step_s"]
    assert step_s == pytest.approx(sw.predict(run).step_s, rel=1e-9)


@pytest.mark.parametrize("text", ["", "null", "~"])
def test_an_empty_key_is_open(client, run, text):
    query = f"{address(run)}&layout.micro_batch={text}&layout.recompute={text}"
    assert asked(query)["layout"] == run["layout"]
    said = client.post("/api/predict", json=asked(query)).json()
    assert {"micro_batch", "recompute"} <= set(said["left_open"])


def test_nothing_is_open_for_the_api_either(client, run):
    stated = client.post("/api/predict", json=run).json()
    run["layout"] |= {"micro_batch": None, "recompute": None, "dp": None}
    assert client.post("/api/predict", json=run).json() == stated
    assert "micro_batch" not in client.post("/api/export/yaml", json=run).json()


def test_gpus_that_are_no_whole_nodes_are_refused_by_their_key(client, run):
    del run["nodes"]
    answer = client.post("/api/predict", json=run | {"gpus": 511})
    assert [one["where"] for one in answer.json()["problems"]] == ["gpus"]
    both = client.post("/api/predict", json=run | {"gpus": 512, "nodes": 3})
    assert [one["where"] for one in both.json()["problems"]] == ["gpus"]
