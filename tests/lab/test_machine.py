"""Labs are made, listed and removed, and nothing else is touched."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from syncwall.cli import main
from syncwall.lab import host_machine
from syncwall.lab.virtual_network import Topology
from syncwall.problems import InputError

ROOT = Path(__file__).parents[2]


def spaces(name: str) -> list[str]:
    return [path.name for path in Path("/run/netns").glob(f"syncwall-{name}-*")]


def root_links() -> str:
    return subprocess.check_output(["ip", "-o", "link"], text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="the advice is for Linux")
@pytest.mark.parametrize("part", [["up", "x.yaml"], ["run", "x.yaml"], ["down", "--all"]])
def test_without_root_the_advice_is_kind(part, without_root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text("places: [2x1]\njobs: [{run: [x.py]}]\n")
    assert main(["lab", *part]) == 2
    said = capsys.readouterr().err
    assert "needs root" in said
    assert f"sudo syncwall lab {part[0]}" in said


@pytest.mark.skipif(sys.platform != "linux", reason="the advice is for Linux")
def test_a_missing_tool_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(InputError, match="`ip` is not installed: apt-get install iproute2"):
        host_machine.needed("up")


@pytest.mark.lab
def test_up_list_down(tmp_path, capsys):
    before = root_links()
    file = tmp_path / "there and back.yaml"
    file.write_text("places: [1x1, 2x2]\nrates: [100Mb/s]\nnics: 2\njobs: [{run: [x.py]}]\n")
    assert main(["lab", "up", str(file), "--place", "2x2"]) == 0
    said = capsys.readouterr().out
    name = said.partition(":")[0]
    try:
        assert name.startswith("there-and-back-")
        assert f"h1  eth0 10.77.0.2, eth1 10.77.1.2   ip netns exec syncwall-{name}-h1 bash" in said
        assert main(["lab", "list"]) == 0
        listed = capsys.readouterr().out.splitlines()
        assert [name, "2", "0"] in [line.split() for line in listed]
        assert root_links() == before
    finally:
        assert main(["lab", "down", name]) == 0
    assert spaces(name) == []
    assert main(["lab", "down", name]) == 2
    assert f'no lab is called "{name}"' in capsys.readouterr().err


@pytest.mark.lab
def test_down_ends_what_runs_inside_and_only_that():
    name = host_machine.new_name("test")
    other = subprocess.Popen(["sleep", "30"])
    made = host_machine.up(Topology(hosts=1), name)
    inner = subprocess.Popen(["ip", "netns", "exec", made.hosts[0], "sleep", "30"])
    time.sleep(0.2)
    found = next(lab for lab in host_machine.labs() if lab.name == name)
    assert found.processes == 1
    assert host_machine.down(name) == [name]
    assert inner.wait(timeout=5) == -9
    assert other.poll() is None
    other.kill()
    other.wait()


@pytest.mark.lab
def test_a_lab_that_cannot_be_finished_is_removed(monkeypatch):
    real, issued = host_machine.issue, 0

    def failing(command):
        nonlocal issued
        issued += 1
        if issued == 9:
            raise InputError.of("no more")
        real(command)

    monkeypatch.setattr(host_machine, "issue", failing)
    name = host_machine.new_name("test")
    with pytest.raises(InputError, match="no more"):
        host_machine.up(Topology(hosts=3), name)
    assert spaces(name) == []


@pytest.mark.lab
def test_a_file_without_a_namespace_is_removed_too():
    name = host_machine.new_name("test")
    Path("/run/netns").mkdir(exist_ok=True)
    stale = Path(f"/run/netns/syncwall-{name}-h0")
    stale.touch()
    assert host_machine.down(name) == [name]
    assert not stale.exists()


CHILDREN = """
import os, pathlib, subprocess, sys, time
started = [subprocess.Popen(["sleep", "60"], start_new_session=own) for own in (False, True)]
text = " ".join(str(pid) for pid in (os.getpid(), *(one.pid for one in started)))
part = pathlib.Path(sys.argv[1], "part" + os.environ["RANK"])
part.write_text(text)
part.rename(part.with_name("rank" + os.environ["RANK"]))
time.sleep(60)
"""


@pytest.mark.lab
def test_after_kill_9_and_down_nothing_is_left(tmp_path, monkeypatch):
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setenv("TMPDIR", str(folders))
    monkeypatch.setattr(tempfile, "tempdir", None)
    title = host_machine.new_name("killed")
    program, experiment = tmp_path / "children.py", tmp_path / f"{title}.yaml"
    program.write_text(CHILDREN)
    experiment.write_text(f'places: [2x2]\njobs: [{{run: ["{program}", "{tmp_path}"]}}]\n')
    run = subprocess.Popen([sys.executable, "-m", "syncwall", "lab", "run", str(experiment)])
    try:
        until = time.monotonic() + 60
        while len(found := list(tmp_path.glob("rank*"))) < 4:
            assert time.monotonic() < until
            assert run.poll() is None
            time.sleep(0.05)
        processes = [int(pid) for path in found for pid in path.read_text().split()]
        (name,) = {lab.name for lab in host_machine.labs() if lab.name.startswith(title)}
        run.kill()  # nobody waits for it before `down`
        assert main(["lab", "down", name]) == 0
        assert [pid for pid in processes if host_machine._runs(pid)] == []
        assert spaces(name) == []
        assert list(folders.iterdir()) == []
    finally:
        run.kill()
        run.wait()
        for name in {lab.name for lab in host_machine.labs() if lab.name.startswith(title)}:
            host_machine.down(name)


@pytest.mark.lab
@pytest.mark.slow
def test_random_ends_leave_nothing():
    command = [sys.executable, "-m", "bench", "scale", "lab-cycles", "--count", "6"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no namespace, process, link or qdisc" in done.stdout


def test_folders_of_killed_runs_are_removed_and_those_of_others_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f"syncwall-lab-{gone.pid}-abc"
    left.mkdir()
    (left / "rank0.out").write_text("")
    with host_machine.log_folder() as used:
        host_machine._remove_abandoned_logs()
        assert [str(path) for path in tmp_path.iterdir()] == [used]
