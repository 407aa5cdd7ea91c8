"""The page for recorded programs says what `predict --work` says, and runs nobody's code."""

import gzip
import json
import pickle
import time
from base64 import b64encode
from pathlib import Path

import pytest

import syncwall as sw
from syncwall.describe import lookup
from syncwall.problems import InputError
from syncwall.read.recorded_program import program_in

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


def many_calls(rounds):
    """The recording with the calls of its longest block again and again, in a few kilobytes."""
    value = json.loads(gzip.decompress(PROGRAM.read_bytes()))
    rank = value["ranks"][0]
    length = sum(block[0] * block[1] for block in rank["blocks"])
    rank["blocks"] += [[1, rounds]]
    for column in ("name", "task", "stream", "phase"):
        rank[column].append(0)
    rank["after"].append([])
    for column, row in (("where", [0, 0]), ("reads", []), ("writes", [])):
        rank[column] = rank[column][:length] + [row] * rounds
    return gzip.compress(json.dumps(value).encode())


@pytest.mark.parametrize(("rounds", "reason"), [(100_000, "values"), (20_000, "syncwall predict --work")])
def test_small_files_cannot_cost_much(client, rounds, reason):
    """100,000 calls in 7 kB took 12 s; now as many are taken as are priced, with their changes, in 2 s."""
    data = many_calls(rounds)
    assert len(data) < 20_000
    answer = asked(client, data)
    assert answer.status_code == 422
    assert reason in answer.json()["problems"][0]["what"]


@pytest.mark.parametrize(
    ("part", "row"), [("held", ["other", "", 1]), ("tasks", ["elementwise", {"bytes": 8}])]
)
def test_long_lists_of_anything_else_are_refused(client, part, row):
    value = json.loads(gzip.decompress(PROGRAM.read_bytes()))
    (value["ranks"][0] if part == "held" else value)[part] += [row] * 500_000
    before = time.process_time()
    with pytest.raises(InputError, match="values"):
        program_in(gzip.compress(json.dumps(value).encode()), "held")
    assert time.process_time() - before < 2.0
    assert asked(client, gzip.compress(json.dumps(value).encode())).status_code == 422


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
