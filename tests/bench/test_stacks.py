"""Published speeds of models that are no transformers: errors as the page states them."""

import re
from pathlib import Path

import pytest
from bench.accuracy.published import predicted_speeds

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "stacks.md"


def test_errors_are_as_the_page_says():
    found = list(predicted_speeds())
    mean = sum(abs(one.error) for one in found) / len(found)
    text = PAGE.read_text()
    said = re.search(r"mean error (\d+)%, (\d+) of (\d+) inside", text)
    assert said is not None
    assert 100 * mean == pytest.approx(int(said[1]), abs=0.5)
    assert [sum(one.inside for one in found), len(found)] == [int(said[2]), int(said[3])]
    for one in found:
        row = f"| {one.row.model} | {one.row.gpus} | {one.row.per_s:,.0f} | {one.per_s:,.0f} |"
        assert row in text


def test_the_interval_covers_four_fifths():
    found = list(predicted_speeds())
    assert sum(one.inside for one in found) / len(found) >= 0.8
