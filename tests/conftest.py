import os
from pathlib import Path

import pytest
from hypothesis import settings

MARKED = {"web/browser": pytest.mark.browser, "laws": pytest.mark.slow, "capture": pytest.mark.slow}
"""Folders of which every test has a mark."""

# Timings vary on shared machines; what is slow is caught by the benchmarks. Continuous integration
# tries the same cases every time, so that it fails only for a change; elsewhere cases are random.
settings.register_profile("syncwall", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("syncwall")
# pytest-xdist sets it: what is printed into a pipe has the width that users get without it.
os.environ.pop("COLUMNS", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for folder, mark in MARKED.items():
            if item.path.is_relative_to(Path(__file__).parent / folder):
                item.add_marker(mark)
