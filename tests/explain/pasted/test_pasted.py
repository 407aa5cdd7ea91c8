"""What people paste into threads is of the kind, the state and the cause that the thread tells.

The texts are excerpts of public threads, with their address. On the first run of the reader, 101 of
109 were right in all that is asked here; 105 in kind, state and cause.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from syncwall.explain.answer import explain
from syncwall.explain.verdict import VerdictState
from syncwall.read.failure_text import failure_causes

HERE = Path(__file__).parent
CASES = [
    pytest.param(case, id=f"{file.stem}-{number}")
    for file in sorted(HERE.glob("*.yaml"))
    for number, case in enumerate(yaml.safe_load(file.read_text()))
]
UNNAMED = (VerdictState.HEALTHY, VerdictState.NOT_JUDGED)


@pytest.mark.parametrize("case", CASES)
def test_a_pasted_text_has_its_kind_its_cause_and_one_next_step(case, tmp_path):
    path = tmp_path / "pasted"
    path.write_text(case["text"])
    found = explain([path])
    assert case["kind"] in found.read
    assert found.state == case["state"]
    if found.state not in UNNAMED:
        assert found.conclusion.cause == case["cause"]
        assert len(list(found.next)) == 1
    screen = " ".join(str(found).split())
    assert [words for words in case["says"] if words not in screen] == []


def test_there_are_many_kinds_from_many_places():
    cases: list[Any] = [case.values[0] for case in CASES]
    assert len(cases) >= 60
    assert len({case["cause"] for case in cases}) >= 14
    assert len({case["source"] for case in cases}) >= 0.9 * len(cases)
    assert all(case["source"].startswith("https://") for case in cases)
    assert all(len(case["text"].splitlines()) <= 26 for case in cases)


def test_every_meaning_has_a_source_and_a_next_step():
    for cause in failure_causes().values():
        assert cause.source.startswith("https://")
        assert cause.why
        assert cause.next
        assert cause.state in ("wrong", "suspect")
        assert 0 <= cause.depth <= 5
