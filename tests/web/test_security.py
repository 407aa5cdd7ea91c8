"""What somebody who means harm may send: refused quickly, nothing opened, nothing broken."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from syncwall.describe.names import only_catalogue
from syncwall.problems import InputError
from syncwall.web.answers import prediction
from syncwall.web.guard import HEADERS, MAX_BODY_BYTES
from syncwall.web.questions import AskedJob, AskedRun, ExportKind
from syncwall.web.workers import answered

PATHS = [
    "/etc/passwd",
    "../x.yaml",
    "x.yaml",
    "a/b",
    "C:\\x",
    "\\\\host\\share",
    "~/x.json",
    "http://169.254.169.254/latest",
    "https://evil.example/x.yaml",
    "file:///etc/passwd",
]
MODEL = {
    "name": "x",
    "layers": 2,
    "hidden": 64,
    "vocab": 100,
    "attention": {"heads": 4},
    "mlp": {"hidden": 128},
}
_HEARD: list[str] = []
_LISTENING = [False]


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if _LISTENING[0] and (event == "open" or event.startswith("socket.")):
        _HEARD.append(f"{event} {arguments[0]}")


sys.addaudithook(_heard)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Files that are opened and sockets that are used meanwhile."""
    _HEARD.clear()
    _LISTENING[0] = True
    try:
        yield _HEARD
    finally:
        _LISTENING[0] = False


def hostile(run, name):
    """`run` with `name` in every place where a name may stand."""
    return {
        "model": {**run, "model": name},
        "cluster": {**run, "cluster": name},
        "model.base": {**run, "model": {"base": name}},
        "cluster.base": {**run, "cluster": {"base": name}},
        "device": {**run, "cluster": {"base": "dgx-h100", "node": {"device": name, "gpus": 8}}},
        "device.base": {
            **run,
            "cluster": {"base": "dgx-h100", "node": {"device": {"base": name}, "gpus": 8}},
        },
        "framework": {**run, "software": {"framework": name}},
    }


@pytest.mark.parametrize("name", PATHS)
def test_no_path_and_no_address_is_opened(client, run, name):
    for where, asked in hostile(run, name).items():
        answer = client.post("/api/predict", json=asked)
        assert answer.status_code == 422, where
        assert answer.json()["problems"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.yaml", "http://169.254.169.254/latest"])
def test_nothing_outside_of_the_catalogue_is_even_looked_at(run, name):
    asked = list(hostile(run, name).values())
    with listening() as heard:
        for one in asked:
            with pytest.raises(InputError):
                answered(10, prediction.predicted, (AskedRun(**one),))
    assert [what for what in heard if name in what or what.startswith("socket.")] == []


def test_a_job_opens_no_path_either(client, run):
    from syncwall.web.answers import job

    asked = {
        "run": run,
        "job": {"steps": 10, "failures": {"like": "/etc/passwd"}},
    }
    with listening() as heard, pytest.raises(InputError, match="path"):
        answered(10, job.played, (AskedJob(**asked),))
    assert "open /etc/passwd" not in heard
    assert client.post("/api/job", json=asked).status_code == 422


def test_a_report_and_a_paste_open_no_path(client, run):
    with only_catalogue(), pytest.raises(InputError, match="path"):
        prediction.exported(ExportKind.HTML, AskedRun(**{**run, "model": "/etc/passwd"}))
    text = "model: /etc/passwd\ncluster: dgx-h100\nnodes: 1\n"
    assert client.post("/api/paste", json={"text": text}).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/static/../application.py",
        "/static/%2e%2e/application.py",
        "/static/..%2fapplication.py",
        "/static/%2e%2e%2f%2e%2e%2fproblems.py",
        "/static/..\\application.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/....//application.py",
        "/static/%c0%ae%c0%ae/application.py",
        "/static/" + "a" * 5000,
        "/findings/../x",
        "/api/findings/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/findings/..%5cx",
    ],
)
def test_no_way_leads_out_of_the_static_files(client, path):
    answer = client.get(path)
    assert answer.status_code in (400, 404, 405, 422)
    assert "root:" not in answer.text
    assert "import" not in answer.text
    assert HEADERS.items() <= dict(answer.headers).items()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200),
        ("GET", "/static/app.css", 200),
        ("GET", "/static/plotly.js", 200),
        ("GET", "/api/openapi.json", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/static/none", 404),
        ("POST", "/api/predict", 422),
        ("DELETE", "/api/predict", 405),
        ("PUT", "/", 405),
    ],
)
def test_every_answer_has_the_headers(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert HEADERS.items() <= dict(answer.headers).items()
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "server" not in answer.headers


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "[" * 50_000,
        "{a: " * 10_000,
        "- " * 25_000,
        '{"a":' * 10_000,
        "&a [*a]",
        "*a",
        "a: !!python/object/apply:os.system [ls]",
        "\x00",
        "\ufeff",
        "a: 1\n" * 10_000,
        "layers: " + "9" * 50_000,
        "cluster: dgx-h100\nmodel: " + "x" * 50_000,
        "\t",
        "---\n" * 10_000,
        "x" * 60_001,
    ],
    ids=range(16),
)
def test_what_is_pasted_is_read_quickly_or_refused(client, text):
    answer = client.post("/api/paste", json={"text": text})
    assert answer.status_code == 422
    assert "takes more than" not in answer.text


@pytest.mark.parametrize("value", [10**6, 10**10, 10**18, 10**400, 1e308, -1, 0, True, "9" * 5000])
@pytest.mark.parametrize(
    "where", ["layers", "hidden", "nodes", "seq", "micro_batch", "global_batch", "pp", "bucket"]
)
def test_huge_numbers_are_answered_or_refused(client, run, where, value):
    if where in MODEL:
        run["model"] = {**MODEL, where: value}
    elif where in ("nodes", "seq"):
        run[where] = value
    else:
        run["layout"] = {where: value}
    for route in ("predict", "timeline", "next"):
        answer = client.post(f"/api/{route}", json=run)
        assert answer.status_code in (200, 422)
        assert "takes more than" not in answer.text


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "llama-3.1-8b", "cluster": "dgx-h100", "nodes": NaN}',
        b'{"model": "llama-3.1-8b", "cluster": "dgx-h100", "layout": {"bucket": Infinity}}',
        b'{"model": {"layers": NaN}, "cluster": "dgx-h100"}',
        b'{"model": {"layers": 1e999}, "cluster": "dgx-h100"}',
        b'{"model": "\xff\xfe", "cluster": "dgx-h100"}',
        b"\xff",
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b'{"model": "\\ud800", "cluster": "dgx-h100"}',
        b'{"model": {"name": "\\ud800"}, "cluster": "dgx-h100"}',
        b'{"model": ' + b"[" * 100_000,
        b'{"model": ' + b'{"a":' * 500 + b"1" + b"}" * 501,
        b'{"model": ' + b'{"a":' * 40_000 + b"1" + b"}" * 40_001,
    ],
    ids=range(16),
)
def test_what_is_no_json_for_a_run_is_refused(client, body):
    before = time.process_time()
    answer = client.post("/api/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert time.process_time() - before < 2.0


def test_a_body_without_end_is_refused(client):
    def chunks() -> Iterator[bytes]:
        yield b'{"model": "'
        for _ in range(MAX_BODY_BYTES // 1000 + 2):
            yield b"x" * 1000

    headers = {"content-type": "application/json"}
    assert client.post("/api/predict", content=chunks(), headers=headers).status_code == 413
    long = json.dumps({"model": "x" * MAX_BODY_BYTES}).encode()
    assert client.post("/api/predict", content=long, headers=headers).status_code == 413
