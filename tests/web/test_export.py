"""A prediction in other forms: each is what the command line writes."""

import json

import pytest
import yaml

from syncwall.cli import main
from syncwall.web.questions import ExportKind


def exported(client, kind, run):
    answer = client.post(f"/api/export/{kind}", json=run)
    assert answer.status_code == 200
    return answer.json()


def test_the_run_file_is_the_run(client, run, tmp_path, capsys):
    text = exported(client, "yaml", run)
    assert yaml.safe_load(text) == run
    (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
    assert main(["predict", str(tmp_path / "run.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(exported(client, "json", run))


def test_the_report_is_the_one_of_the_command_line(client, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(exported(client, "yaml", run), encoding="utf-8")
    assert main(["report", "run.yaml", "--html", "report.html"]) == 0
    written = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert exported(client, "html", run) == written


def test_the_trace_is_one_of_perfetto(client, run):
    events = json.loads(exported(client, "perfetto", run))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}


@pytest.mark.parametrize("kind", list(ExportKind))
def test_a_run_that_cannot_be_has_no_file(client, run, kind):
    answer = client.post(f"/api/export/{kind}", json={**run, "nodes": 3})
    assert answer.status_code == 422


def test_other_kinds_are_refused(client, run):
    assert client.post("/api/export/exe", json=run).status_code == 422
