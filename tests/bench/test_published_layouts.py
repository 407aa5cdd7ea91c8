"""What large runs chose is close to what the search finds, given their software."""

import pytest
from bench.accuracy.published import published_layouts


@pytest.mark.slow
def test_published_layouts_are_close_to_the_best():
    found = {one.name: one.ratio for one in published_layouts()}
    assert len(found) == 4
    assert all(0.95 <= ratio <= 1.15 for ratio in found.values()), found
