"""What a user gets from `pip install`: few packages, few megabytes, a quick start."""

import json
import os
import resource
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the package installed from its checkout."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    known = ROOT / ".ci" / "constraints.txt"  # so that no release of others changes what is counted
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", known, ROOT], check=True)
    return python


def output(python: Path, *arguments: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, *arguments], capture_output=True, text=True, check=True, cwd="/", env=environment
    )
    return done.stdout


def cpu_s(python: Path, *codes: str) -> list[float]:
    """CPU seconds of `python -c code` for each, the best of nine; in turn, as machines vary."""
    best = [float("inf")] * len(codes)
    for _ in range(9):
        for number, code in enumerate(codes):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            output(python, "-c", code)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best[number] = min(best[number], used)
    return best


def test_at_most_15_packages_are_installed(python):
    listed = json.loads(output(python, "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in listed} - {"pip", "setuptools", "wheel"}
    assert "syncwall" in names
    assert len(names) <= 15, names


def test_at_most_110_megabytes_are_installed(python):
    packages = Path(output(python, "-c", "import syncwall; print(syncwall.__file__)")).parents[1]
    own = ("pip", "pip-", "setuptools", "setuptools-", "_distutils_hack", "pkg_resources")
    files = (
        path
        for top in packages.iterdir()
        if not top.name.startswith(own)
        for path in (top.rglob("*") if top.is_dir() else [top])
    )
    size = sum(path.stat().st_size for path in files if path.is_file())
    assert size <= 110e6, f"{size / 1e6:.0f} MB"


@pytest.mark.alone
def test_the_import_is_quick(python):
    """Every description takes less than twice the time of one pydantic model, on any machine."""
    nothing, *loaded = cpu_s(
        python,
        "pass",
        "import syncwall",
        "import syncwall.describe.lookup",
        "import pydantic\nclass A(pydantic.BaseModel): x: int",
    )
    own, everything, model = (seconds - nothing for seconds in loaded)
    print(f"import syncwall {own:.3f} s, every description {everything:.3f}, one {model:.3f} s")
    assert own <= 0.1
    assert everything <= 1.7 * model


def test_the_installed_command_answers(python, tmp_path):
    command = python.parent / "syncwall"
    text = output(command, "show", "model", "llama-3.1-405b", "--json")
    assert json.loads(text)["entry"]["parameters"] == 405853388800


def test_describing_needs_neither_torch_nor_numpy(python):
    code = "import syncwall.describe.lookup, sys; print({'torch', 'numpy'} & set(sys.modules))"
    assert output(python, "-c", code).strip() == "set()"


def test_collectives_are_measured_by_what_is_installed(python, tmp_path):
    """The first command of the README; torch is borrowed from this environment."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    own = Path(output(python, "-c", "import syncwall; print(syncwall.__file__)")).parents[1]
    path = own / "torch-of-the-tests.pth"
    path.write_text(f"{Path(torch.__file__).parents[1]}\n")
    try:
        result = tmp_path / "out.json"
        printed = output(
            python,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "-m",
            "syncwall",
            "measure",
            "collectives",
            "--backend",
            "gloo",
            "--seconds",
            "0.05",
            "--max-size",
            "1MiB",
            "--json",
            str(result),
        )
    finally:
        path.unlink()
    assert "2 ranks on 1 host, gloo on cpu" in printed
    rows = json.loads(result.read_text())["data"]["rows"]
    assert {row["kind"] for row in rows} >= {"all-reduce", "all-gather", "reduce-scatter"}
