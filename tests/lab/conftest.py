import os
import shutil
import subprocess
import sys

import pytest

from syncwall.lab.host_machine import new_name


def why_not() -> str:
    """Why no lab can be made here; empty if one can."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc", "sysctl", "setpriv") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is not installed"
    name = f"syncwall-{new_name('try')}-h0"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"no network namespace can be made here: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return ""


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("lab")]
    reason = why_not() if marked else ""
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def without_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
