"""The public interface, pinned: a change here is a change for every user."""

import subprocess
import sys

import pytest

import syncwall

PUBLIC = {
    "Attention", "Checkpoints", "Cluster", "Device", "Fabric", "Failures", "InputError", "Job",
    "Layout", "Link", "Mlp", "Model", "Moe", "Nics", "Node", "Prediction", "Run", "ScaleUp",
    "Software", "Tier", "__version__", "cluster", "device", "finish", "link", "model",
    "plan", "predict", "prices", "run",
}  # fmt: skip


def test_the_public_names_are_these():
    assert set(syncwall.__all__) == PUBLIC
    assert set(dir(syncwall)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there(name):
    assert getattr(syncwall, name) is not None


def test_others_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'predictt'"):
        _ = syncwall.predictt


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("numpy", "pydantic", "rich", "tyro", "torch", "yaml")
    code = f"import sys, syncwall; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
