import json

import pytest

from syncwall.measure.result import JobFacts, Result, this_host
from syncwall.problems import InputError
from syncwall.records import json_data, json_text


@pytest.fixture
def result():
    job = JobFacts(backend="gloo", device="cpu", hosts=("a", "a", "b"))
    return Result(kind="links", job=job, hosts=(this_host(),), data={"rows": [{"x": 1.5}]})


def test_a_file_gives_back_what_was_written(result, tmp_path):
    path = tmp_path / "out.json"
    text = json_text(json_data("measure links", result))
    path.write_text(text)
    assert Result.read(path) == result
    written = json.loads(text)
    assert (written["schema_version"], written["verb"]) == (1, "measure links")
    assert written["complete"] is True
    assert written["load"] is None


def test_a_file_of_an_earlier_version_is_read(result, tmp_path):
    path = tmp_path / "out.json"
    earlier = result.model_dump(mode="json")
    del earlier["load"]
    path.write_text(json.dumps(earlier))
    assert Result.read(path) == result


def test_a_job_knows_its_hosts(result):
    assert result.job.world == 3
    assert result.job.host_names == ("a", "b")


def test_a_file_of_something_else_is_an_input_error(tmp_path):
    path = tmp_path / "out.json"
    path.write_text('{"kind": "links", "rows": []}')
    with pytest.raises(InputError, match="missing"):
        Result.read(path)
