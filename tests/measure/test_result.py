import json

import pytest

from syncwall.measure.result import JobFacts, Result, this_host
from syncwall.problems import InputError


@pytest.fixture
def result():
    job = JobFacts(backend="gloo", device="cpu", hosts=("a", "a", "b"))
    return Result(kind="links", job=job, hosts=(this_host(),), data={"rows": [{"x": 1.5}]})


def test_a_file_gives_back_what_was_written(result, tmp_path):
    path = tmp_path / "out.json"
    path.write_text("something old")
    result.write(path)
    assert Result.read(path) == result
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]
    assert json.loads(path.read_text())["complete"] is True


def test_a_job_knows_its_hosts(result):
    assert result.job.world == 3
    assert result.job.host_names == ("a", "b")


def test_a_file_that_cannot_be_written_is_an_input_error(result, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        result.write(tmp_path / "nowhere" / "out.json")


def test_a_file_of_something_else_is_an_input_error(tmp_path):
    path = tmp_path / "out.json"
    path.write_text('{"kind": "links", "rows": []}')
    with pytest.raises(InputError, match="missing"):
        Result.read(path)
