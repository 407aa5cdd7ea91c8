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

pytest.importorskip(
    "fastapi", reason="fastapi is not installed: pip install fastapi uvicorn plotly python-multipart brotli"
)
TOKEN = "a-long-token"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0: others could ask too: write --token-file FILE"),
        (["--host", "::"], "or --token TEXT, or --no-auth to allow it"),
        (["--token", "short"], "--token: write at least 8"),
        (["--token", "with space and;"], "--token: write at least 8"),
        (["--token", "ünsäglich"], "--token: write at least 8"),
        (["--port", "70000"], "write another --port"),
        (["--port", "-1"], "write another --port"),
        (["--host", "192.0.2.1", "--token", TOKEN], "192.0.2.1:8321: "),
        (["--token-file", "nowhere"], "--token-file nowhere: [Errno 2]"),
        (["--token-file", "/dev/null"], "--token-file /dev/null: write at least 8"),
        (["--allow-host", "https://a.example"], "--allow-host: write a name"),
        (["--allow-host", "a.example", "--allow-host", "b:c"], "--allow-host: write a name"),
        (["--root-path", "sync"], "--root-path: write a path"),
        (["--root-path", "/a//b"], "--root-path: write a path"),
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
    assert (
        f"{missing} is missing: pip install fastapi uvicorn plotly python-multipart brotli"
        in capsys.readouterr().err
    )


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


@pytest.fixture
def options(monkeypatch):
    """`options("--port", "0", ...)`: how the pages would be served."""
    found = []
    monkeypatch.setattr("syncwall.web.application.served", lambda *given: found.append(given))

    def options(*words):
        assert main(["serve", "--port", "0", *words]) == 0
        made, listening = found.pop()
        listening.close()
        return made

    return options


def test_the_token_of_a_file_or_the_environment_is_not_printed(options, monkeypatch, capsys, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert options("--token-file", str(file)).token == TOKEN
    monkeypatch.setenv("SYNCWALL_TOKEN", TOKEN[::-1])
    assert options("--host", "0.0.0.0").token == TOKEN[::-1]
    said = capsys.readouterr().out
    assert said.count("/?token=...  (Ctrl-C") == 2
    assert TOKEN not in said
    assert TOKEN[::-1] not in said
    assert options("--token", TOKEN).token == TOKEN


def test_the_names_and_the_path_of_a_proxy(options, capsys):
    made = options("--allow-host", "Sync.example", "--allow-host", "b:8443", "--root-path", "/t/s/")
    assert made.names == {"127.0.0.1", "localhost", "::1", "sync.example", "b"}
    assert (made.origins, made.root) == ({"sync.example", "b:8443"}, "/t/s")
    assert "/t/s/  (Ctrl-C" in capsys.readouterr().out
    anywhere = options("--host", "0.0.0.0", "--no-auth")
    assert anywhere.names is None
    stated = options("--host", "0.0.0.0", "--no-auth", "--allow-host", "sync.example")
    assert "sync.example" in stated.names
    assert "evil.example" not in stated.names


def status(port, path, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_ends_at_once_even_while_it_searches(end):
    command = [sys.executable, "-m", "syncwall", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
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
