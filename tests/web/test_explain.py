"""The Explain page says what `explain` says, of files that are gone afterwards."""

import json
import tempfile
from pathlib import Path

import pytest

import syncwall as sw
from syncwall.show.explanation import verdict
from syncwall.web.answers.explanation import explained_folder, listed
from syncwall.web.questions import AskedFolder

FILES = Path(__file__).parents[2] / "examples" / "explain"
TRACES = sorted((FILES / "traces").glob("*.json"))


def said(answer):
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text.splitlines()[-1])


def sent(client, *paths, **fields):
    texts = {name: text for name, text in fields.items() if isinstance(text, str)}
    files = [("files", (path.name, path.read_bytes())) for path in paths]
    files += [("against", (path.name, path.read_bytes())) for path in fields.get("against", ())]
    return client.post("/api/explain", files=files, data=texts)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Where files of visitors are written."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_answer_is_that_of_python_and_nothing_stays(client, scratch):
    found = said(sent(client, *TRACES, FILES / "nccl.log"))["answer"]
    expected = sw.explain([*TRACES, FILES / "nccl.log"])
    assert found["record"]["state"] == expected.state == "wrong"
    assert verdict(expected) in found["html"]
    assert found["html"].count("<svg") == 3
    assert "<html" in found["page"]
    assert found["record"]["verdict"] == expected.to_dict()["verdict"]
    assert not [one for one in scratch.iterdir() if one.name.startswith("syncwall-sent")]


def test_two_days_and_a_run_stand_side_by_side(client):
    run = "model: llama-3.1-8b\ncluster: dgx-h100\nnodes: 1\nseq: 8192\n"
    beside = said(sent(client, TRACES[0], run=run, cluster="dgx-h100"))["answer"]
    assert "predicted" in beside["html"]
    days = said(sent(client, TRACES[1], against=TRACES[:1]))["answer"]
    assert "against" in days["html"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("rank0.json", b"", "rank0.json"),
        ("../../etc/passwd", b"nothing known", "passwd"),
        ("a.json", b"[" * 100_000, "a.json"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_name_only(client, name, data, reason):
    answer = client.post("/api/explain", files=[("files", (name, data))])
    (problem,) = said(answer)["problems"]
    text = problem["where"] + problem["what"]
    assert reason in text
    assert "syncwall-sent" not in text


def test_text_of_the_box_of_which_nothing_is_known_is_not_judged(client):
    answer = said(client.post("/api/explain", files=[("files", ("pasted.txt", b"nothing known"))]))
    assert answer["answer"]["record"]["state"] == "not judged"
    assert answer["answer"]["record"]["next"]


def test_forms_that_are_none_are_refused(client):
    assert "choose files" in said(client.post("/api/explain", data={"run": ""}))["problems"][0]["what"]
    other = client.post("/api/explain", files=[("other", ("a", b"x"))])
    assert other.status_code == 422
    wrong = sent(client, FILES / "nccl.log", run="model: nothing-known\n")
    assert "nothing-known" in json.dumps(said(wrong)["problems"])
    assert "problems" in said(sent(client, FILES / "nccl.log", cluster="/etc/passwd"))


def test_a_folder_gives_only_what_it_lists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "files"
    home.mkdir()
    (home / "nccl.log").write_bytes((FILES / "nccl.log").read_bytes())
    (home / ".hidden").write_text("x")
    (tmp_path / "secret").write_text("x")
    assert listed(home) == {"folder": "files", "names": ["nccl.log"]}
    assert listed(None) == {"folder": None, "names": []}
    found = explained_folder(home, AskedFolder(name="nccl.log"), progress=lambda share: None)
    assert "NCCL_IB_DISABLE" in found["html"]
    for name in ("../secret", ".hidden", "/etc/passwd", "."):
        with pytest.raises(sw.InputError, match="there is no"):
            explained_folder(home, AskedFolder(name=name), progress=lambda share: None)
    with pytest.raises(sw.InputError, match="there is no"):
        explained_folder(None, AskedFolder(name="nccl.log"), progress=lambda share: None)


def test_the_page_asks_for_the_folder(client):
    assert client.get("/api/explain/folder").json() == {"folder": None, "names": []}
    assert "problems" in said(client.post("/api/explain/folder", json={"name": "x"}))
