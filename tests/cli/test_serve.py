"""How the server is started, and when it is not."""

import builtins
import http.client
import json
import signal
import socket
import subprocess
import sys

import pytest

import syncwall
from syncwall.cli import main

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'syncwall[web]'")
TOKEN = "a-long-token"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: others could ask too: write --token TEXT"),
        (["--host", "::"], "write --token TEXT, or --no-auth to allow it"),
        (["--token", "short"], "--token: write at least 8"),
        (["--token", "with space and;"], "--token: write at least 8"),
        (["--token", "ünsäglich"], "--token: write at least 8"),
        (["--port", "70000"], "write another --port"),
        (["--port", "-1"], "write another --port"),
        (["--host", "192.0.2.1", "--token", TOKEN], "192.0.2.1:8321: "),
    ],
)
def test_what_is_wrong_with_a_call_is_said(words, message, capsys):
    assert main(["serve", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_port_in_use_is_said(capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}: Address already in use; write another --port, or 0" in said


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_named(missing, monkeypatch, capsys):
    real = builtins.__import__

    def importing(name, *rest):
        if name.partition(".")[0] == missing:
            raise ImportError(f"No module named {name!r}", name=missing)
        return real(name, *rest)

    monkeypatch.setattr(syncwall, "web", None, raising=False)  # put back with its modules
    for name in [name for name in sys.modules if name.startswith(("syncwall.web", missing))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", importing)
    assert main(["serve"]) == 2
    assert f"{missing} is missing: pip install 'syncwall[web]'" in capsys.readouterr().err


def test_a_served_page_with_a_token(tmp_path):
    command = [sys.executable, "-m", "syncwall", "serve", "--port", "0", "--token", TOKEN]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        port = int(said.split("127.0.0.1:")[1].split("/")[0])
        assert said.startswith(f"syncwall is served at http://127.0.0.1:{port}/?token={TOKEN}")
        try:
            assert status(port, "/") == 401
            assert status(port, f"/?token={TOKEN}") == 303
            assert status(port, "/", {"Authorization": f"Bearer {TOKEN}"}) == 200
            assert status(port, "/", {"Host": "evil.example"}) == 421
        finally:
            process.terminate()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert process.returncode in (0, -15)


def status(port, path, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_ends_at_once_even_while_it_searches(end):
    command = [sys.executable, "-m", "syncwall", "serve", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        where = server.stdout.readline().split("//")[1].split("/")[0]
        asking = http.client.HTTPConnection(where, timeout=30)
        run = {"model": "gpt3-175b", "cluster": "dgx-a100", "nodes": 128}
        asked = {"run": {**run, "layout": {"global_batch": 1536}}}
        head = {"content-type": "application/json"}
        asking.request("POST", "/api/plan", json.dumps(asked), head)
        answer = asking.getresponse()
        assert "progress" in answer.readline().decode()
        server.send_signal(end)
        said = server.communicate(timeout=5)[1]
        assert (server.returncode, said) == (0, "")
        asking.close()
