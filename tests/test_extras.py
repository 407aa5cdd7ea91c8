"""What `pyproject.toml` has a user install is used: by the package, or by its benches and fits."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORT = re.compile(r"""^\s*(?:from|import) (\w+)|(?:import_module|find_spec)\("(\w+)""", re.MULTILINE)
MODULES = {
    "pyyaml": "yaml",
    "markdown-it-py": "markdown_it",
    "mlflow-skinny": "mlflow",
    "nvidia-ml-py": "pynvml",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
}
"""Names of modules that differ from those of their packages."""


def modules(requirements: list[str]) -> set[str]:
    names = [re.split(r"[<>=!~\[ ;]", one)[0].lower() for one in requirements]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def imported() -> set[str]:
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    text = "\n".join(path.read_text() for path in files)
    return {name for match in IMPORT.findall(text) for name in match if name}


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_every_package_of_an_extra_is_imported(extra: str):
    assert modules(PROJECT["optional-dependencies"][extra]) <= imported()


def test_every_dependency_is_imported():
    assert modules(PROJECT["dependencies"]) <= imported()
