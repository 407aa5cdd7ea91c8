"""What a page says of a run beside a pinned one is what `sw.compare` says."""

import pytest

import syncwall as sw
from tests.web.test_predict import predicted


@pytest.mark.parametrize("changed", [{}, {"cluster": "dgx-b200"}, {"nodes": 16}])
def test_it_is_that_of_the_api(client, run, changed):
    other = run | changed
    said = client.post("/api/beside", json={"pinned": run, "run": other}).json()
    pair = [predicted(one) for one in (run, other)]
    own = sw.compare(*(one.settled.asked for one in pair)).to_dict()["beside"][0]
    assert {key: said[key] for key in own} == own
    assert said["pinned"]["step_s"] == pair[0].step_s
    assert said["pinned"]["exposed_s"] == pair[0].exposed_s
    assert said["told_apart"] == (" sure" in said["verdict"][0] and "uncertain" not in said["verdict"][0])


def test_a_pinned_run_that_is_not_possible_says_so(client, run):
    wrong = run | {"cluster": "dgx-h1000"}
    answer = client.post("/api/beside", json={"pinned": wrong, "run": run})
    assert answer.status_code == 422
    assert [one["where"] for one in answer.json()["problems"]] == ["pinned.cluster"]
