import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncwall.problems import InputError
from syncwall.report import read_source
from syncwall.show.article import article
from syncwall.show.write.whole_files import markdown, page
from tests.show.report_samples import (
    collectives_data,
    lab_records,
    lab_result,
    links_data,
    matmul_data,
    result,
    step_data,
    written,
)

SAMPLES = [
    found.model_dump(mode="json")
    for found in (
        lab_result(lab_records()[:6]),
        result("collectives", collectives_data(2, 1e9)),
        result("links", links_data(), tuple("abcd")),
        result("matmul", matmul_data()),
        result("step", step_data(0.2, 0.1)),
    )
]
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**62, 10**30, -1]),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["nan", "Infinity", "<b>", "1e400"]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(), max_size=2),
)


def places(value, path=()):
    """The path of every value inside `value`."""
    yield path
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*path, key))


def changed(value, path, other):
    """A copy of `value` with `other` at `path`."""
    value = copy.deepcopy(value)
    inside = value
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = other
    return value


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), sample=st.sampled_from(SAMPLES), strange=STRANGE)
def test_a_file_with_anything_in_it_is_reported_or_refused_with_its_name(data, sample, strange, tmp_path):
    path = data.draw(st.sampled_from([path for path in places(sample) if path]))
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed(sample, path, strange)), encoding="utf-8")
    try:
        source = read_source(file)
    except InputError as error:
        problems = error.problems
    else:
        problems = ()
        found = article([source])
        assert page(found)
        assert markdown(found, "r").text
    assert all(problem.file == str(file) and problem.line for problem in problems)


def refused(tmp_path, sample, path, other) -> str:
    with pytest.raises(InputError) as caught:
        read_source(written(tmp_path / "r.json", changed(sample, path, other)))
    return str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("number", "path", "other", "message"),
    [
        (0, ("data", "records", 1, "result", "data", "times"), {}, '"median_s" is missing'),
        (0, ("data", "records", 1, "predicted"), {"step": 1}, '"step_s" is missing'),
        (0, ("data", "records", 1, "predicted", "step_s"), 0, "longer than a nanosecond"),
        (0, ("data", "records", 1, "topology", "hosts"), 0, "0 is out of range"),
        (0, ("data", "records"), None, '"None" is not a list'),
        (2, ("data", "rows", 0, "source"), 9, "a rank beyond the 4 of the job"),
        (2, ("data", "rows", 0, "p10"), "nan", '"nan" is not a number'),
        (3, ("data", "beside", "alone_s"), 0, '"0" is out of range: write more than 0'),
        (4, ("data", "ledger_s", "optimizer"), -1, '"optimizer": -1.0 cannot have been measured'),
    ],
)
def test_what_is_wrong_is_said_with_its_place(number, path, other, message, tmp_path):
    text = refused(tmp_path, SAMPLES[number], path, other)
    assert message in text
    assert text.startswith("/r.json:")
    assert not text.startswith("/r.json:1:1 ")
