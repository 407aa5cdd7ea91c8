"""The page for recorded programs says what `predict --work` says, and runs nobody's code."""

import gzip
import pickle
from base64 import b64encode
from pathlib import Path

import pytest

import syncwall as sw
from syncwall.describe import lookup

PROGRAM = Path(__file__).parents[2] / "examples" / "capture" / "hybrid.work.json.gz"


def asked(client, data, cluster="dgx-h100", **more):
    body = {"file": b64encode(data).decode(), "cluster": cluster, **more}
    return client.post("/api/program", json=body)


@pytest.mark.parametrize("compiled", [None, True])
def test_the_answer_is_that_of_the_api(client, compiled):
    answer = asked(client, PROGRAM.read_bytes(), compiled=compiled)
    assert answer.status_code == 200
    said = answer.json()
    found = sw.predict(sw.read_program(PROGRAM), cluster=lookup.cluster("dgx-h100"), compiled=compiled)
    assert {key: said[key] for key in ("step_s", "memory_bytes", "ledger_s", "next")} == {
        key: value
        for key, value in found.to_dict().items()
        if key in said and key in {"step_s", "memory_bytes", "ledger_s", "next"}
    }
    assert found.verdict.text in said["html"]
    assert "<svg" in said["html"]


class _Evil:
    def __reduce__(self):
        return eval, ("open('/tmp/never', 'w')",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not whole JSON"),
        (b"not a program", "not"),
        (gzip.compress(b'{"format": "syncwall program", "version": 1}'), "damaged"),
        (gzip.compress(b"[" * 10**6), ""),
        (gzip.compress(b"0" * 200_000_000), ""),
        (pickle.dumps(_Evil()), ""),
    ],
    ids=["empty", "text", "damaged", "nested", "bomb", "pickle"],
)
def test_other_files_are_refused_in_words(client, data, reason):
    answer = asked(client, data)
    assert answer.status_code == 422
    assert reason in answer.json()["problems"][0]["what"]
    assert not Path("/tmp/never").exists()


def test_what_is_no_base64_a_path_or_too_large_is_refused(client):
    body = {"file": "?", "cluster": "dgx-h100"}
    assert client.post("/api/program", json=body).json()["problems"][0]["what"].endswith("base64")
    assert asked(client, PROGRAM.read_bytes(), cluster="/etc/passwd").status_code == 422
    assert asked(client, bytes(300_000)).status_code == 413


def test_a_script_in_a_command_stays_text(client, tmp_path):
    program = sw.read_program(PROGRAM)
    sw.write_program(type(program)(**{**vars(program), "command": "<script>x</script>"}), tmp_path / "a.gz")
    said = asked(client, (tmp_path / "a.gz").read_bytes()).json()
    assert "<script>" not in said["html"]
