"""Scripts in processes of their own: what they see, what they leave, how the verb answers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from syncwall.cli import main
from syncwall.problems import InputError
from syncwall.read.recorded_program import read_program
from syncwall.show.schema import schema
from tests.capture.broken_scripts import BEGIN, MODEL, TRAIN

SEEN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--json", action="store_true")
given = parser.parse_args()
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_PORT")
print([os.environ[name] for name in names], given, __name__, os.path.basename(sys.path[0]))
"""
SENT_AWAY = """
if not os.fork():
    os.setsid()
    if not os.fork():
        open("pid.txt", "w").write(str(os.getpid()))
        time.sleep(99)
    os._exit(0)
while not os.path.exists("pid.txt") or not open("pid.txt").read():
    time.sleep(0.01)
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def has_ended(pid: int) -> bool:
    """True once the kernel is done with it, which takes a moment after the signal."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_ranks_stand_on_nodes_as_torchrun_would_put_them(desk, capfd):
    (desk / "train.py").write_text(BEGIN + SEEN + MODEL + TRAIN)
    words = ["capture", "train.py", "--world", "1024", "--rank", "9", "--nproc-per-node", "4"]
    assert main(words) == 0
    assert str(["9", "1", "1024", "4", "2", "29500"]) in capfd.readouterr().err


@pytest.mark.slow
def test_a_script_sees_what_torchrun_gives_it_and_its_step_is_saved(desk, capfd):
    (desk / "train.py").write_text(BEGIN + SEEN + MODEL + TRAIN)
    words = ["capture", "train.py", "--world", "1024", "--rank", "9", "-o", "a.work.json.gz"]
    assert main([*words, "--json", "--", "--lr", "3e-4", "--json"]) == 0
    out, said = capfd.readouterr()
    seen = ["9", "1", "1024", "8", "1", "29500"]
    assert f"{seen} Namespace(lr=0.0003, json=True) __main__ {desk.name}" in said
    answer = json.loads(out)
    assert answer["world_size"] == 1024
    assert answer["command"] == "train.py --lr 3e-4 --json"
    assert answer["ranks"][0]["model_flops"] == 4 * 2 * 4 * 8 * 8 / 2
    assert set(schema("capture")["required"]) == set(answer)
    assert read_program("a.work.json.gz").world_size == 1024


@pytest.mark.slow
def test_a_module_runs_as_main_and_what_it_sent_away_is_ended(desk, capfd):
    (desk / "mine").mkdir()
    (desk / "mine" / "lr.py").write_text("RATE = 0.1\n")
    (desk / "mine" / "train.py").write_text(
        BEGIN + SENT_AWAY + "from mine.lr import RATE\n" + MODEL + "if __name__ == '__main__':\n"
        "    step(); step()\n"
    )
    assert main(["capture", "-m", "mine.train", "--world", "4"]) == 0
    assert "-m mine.train" in capfd.readouterr().out
    assert has_ended(int(Path("pid.txt").read_text()))


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_running(desk):
    (desk / "train.py").write_text(BEGIN + SENT_AWAY + "time.sleep(99)\n")
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs behind & ignore it
    process = subprocess.Popen(
        [sys.executable, "-m", "syncwall", "capture", "train.py"], stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, ours)
    deadline = time.monotonic() + 60
    while not Path("pid.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "interrupted; nothing is left running"
    assert has_ended(int(Path("pid.txt").read_text()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one script"),
        (["a.py", "b.py"], "name one script"),
        (["a.py", "-m", "b"], "name one script"),
        (["missing.py"], "missing.py: cannot be read: No such file"),
        (["."], "is a directory"),
        (["a.py", "--world", "0"], "--world: 0 is not a number of ranks"),
        (["a.py", "--rank", "8"], "8 is not a rank of a job of 8"),
        (["a.py", "--ranks", "0,x"], "x is not a rank of a job of 8"),
        (["a.py", "--timeout", "0"], "--timeout"),
        (["a.py", "-o", "no/where.gz"], "cannot be written"),
        (["a.py", "--lr", "3"], "; flags of the script stand behind --"),
        (["a.py", "--arguments", "'"], "--arguments: No closing quotation"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_runs(words, said, desk, capsys):
    assert main(["capture", *words]) == 2
    assert said in capsys.readouterr().err


def test_without_torch_there_is_advice(desk, capsys, monkeypatch):
    import syncwall as sw

    monkeypatch.setattr("syncwall.capture.step_function.find_spec", lambda name: None)
    Path("a.py").touch()
    assert main(["capture", "a.py"]) == 2
    advice = 'PyTorch is not installed: pip install "torch>=2.8,<2.16"\n'
    assert capsys.readouterr().err.endswith(advice)
    with pytest.raises(InputError, match="PyTorch is not installed"):
        sw.capture(lambda: None, world_size=8)


def test_help_is_ours_before_the_dashes(capsys):
    assert main(["capture", "train.py", "--help"]) == 0
    assert "as torchrun gets it" in capsys.readouterr().out


def test_an_exception_without_words_says_where_it_was_raised(desk, capsys):
    script = Path("train.py")
    (desk / "site-packages").mkdir()
    (desk / "site-packages" / "theirs.py").write_text("def check():\n    assert 1 == 2\n")
    script.write_text("import sys\nsys.path.insert(0, 'site-packages')\nimport theirs\n\ntheirs.check()\n")
    assert main(["capture", "train.py"]) == 2
    said = capsys.readouterr().err
    assert "train.py:5:1  AssertionError at " in said
    assert "site-packages/theirs.py:2 (`assert 1 == 2`); --traceback shows what called it" in said
    assert main(["capture", "train.py", "--traceback"]) == 2


@pytest.mark.slow
def test_the_whole_traceback_is_shown_on_demand(desk):
    Path("train.py").write_text("def inner():\n    raise ValueError('no')\n\n\ninner()\n")
    words = [sys.executable, "-m", "syncwall", "capture", "train.py"]
    for more, shows in (([], False), (["--traceback"], True)):
        done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert ("Traceback (most recent call last)" in done.stderr) == shows
        assert "train.py:2:5  ValueError: no" in done.stderr
