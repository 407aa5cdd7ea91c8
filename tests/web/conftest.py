"""The application, asked without a network."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'syncwall[web]'")
pytest.importorskip("httpx2", reason="httpx2 is not installed: the test client needs it")

RUN: dict[str, Any] = {
    "model": "llama-3.1-70b",
    "cluster": "dgx-h100",
    "nodes": 64,
    "layout": {"tp": 8, "shard": "fsdp", "global_batch": 1024},
}


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A program that asks the application of this process."""
    from fastapi.testclient import TestClient

    from syncwall.web.application import Options, application

    with TestClient(application(Options(processes=1)), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def run() -> dict[str, Any]:
    """A run as a page asks for it."""
    return {**RUN, "layout": dict(RUN["layout"])}
