"""Every route, asked with whatever its own description allows, and with what it does not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'syncwall[web]'")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
general = pytest.importorskip("schemathesis.checks")
openapi = pytest.importorskip("schemathesis.specs.openapi.checks")

CHECKS = [
    general.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_schema_conformance,
]
EXAMPLES = int(os.environ.get("SYNCWALL_SCHEMA_EXAMPLES", "6"))
"""For each route."""


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of a `syncwall serve` of its own."""
    command = [sys.executable, "-m", "syncwall", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split(" at ")[1].split()[0].rstrip("/")
        process.terminate()


def operations() -> list[Any]:
    """Every route with every method that it has."""
    from syncwall.web.application import application

    document = application()._app.openapi()  # type: ignore[attr-defined]  # the application inside
    every = schemathesis.openapi.from_dict(document).get_all_operations()
    return [operation.ok() for operation in every]


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.label)
def test_every_answer_is_one_that_is_described(operation: Any, mode: Any, served: str) -> None:
    """Not one server error, and every status, type and schema as the document says."""
    is_open = operation.body or operation.query or operation.path_parameters

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES if is_open else 1,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def asked(case: Any) -> None:
        case.call_and_validate(base_url=served, checks=CHECKS, timeout=60)

    try:
        asked()
    except Unsatisfiable:
        pytest.skip("nothing can be wrong with it")


def test_every_route_says_what_it_does(client: Any) -> None:
    document = client.get("/api/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            where = f"{method} {path}"
            assert route.get("summary"), where
            assert route.get("description"), where
            assert route.get("tags"), where
            assert {"422", "503", "421", "403", "413"} <= set(route["responses"]), where


def test_every_field_of_a_run_says_what_it_is(client: Any) -> None:
    document = client.get("/api/openapi.json").json()
    fields = document["components"]["schemas"]["AskedRun"]["properties"]
    for name, field in fields.items():
        assert field.get("description"), name
