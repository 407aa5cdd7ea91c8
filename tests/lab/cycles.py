"""Whether labs leave anything behind: `python -m bench scale lab-cycles`."""

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from syncwall.lab import host_machine

ENDS = ("none", "worker", "SIGINT", "SIGTERM", "SIGKILL", "SIGINT twice")
MARK = "SYNCWALL_CYCLE"
CHEAP = """
import os, socket, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(where)
    others = [server.accept()[0] for _ in range(world - 1)]
    for other in others:
        other.sendall(b"x" * 1000000)
else:
    for _ in range(200):
        try:
            own = socket.create_connection(where)
            break
        except OSError:
            time.sleep(0.02)
    while own.recv(65536):
        pass
time.sleep(1.2)
"""
REAL = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(5):
    dist.all_reduce(torch.zeros(250000))
dist.barrier()
os._exit(0)
"""


def cycles(count: int = 50, everything: bool = False, seed: int = 0) -> int:
    """Whether labs leave anything behind, whatever ends them (root).

    Each cycle runs `syncwall lab run` and ends it at a random moment: not at all, by killing a
    worker, by SIGINT or SIGTERM, or by killing the launcher itself with SIGKILL. Then `lab down`
    removes what is left (with --everything every lab of the machine), and what remains of
    namespaces, processes, links and queues is counted.
    """
    random.seed(seed)
    before, name = root_network(), f"cycles-{secrets.token_hex(2)}"
    ends, left_by, remains = Counter[str](), Counter[str](), Counter[str]()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            end = ENDS[number % len(ENDS)]
            real = torch_is_there() and number % 5 == 4
            ends[cycle(Path(folder), name, end, real=real)] += 1
            left_by[end] += len(own_labs(name))
            remove(name, everything=everything)
            remains.update(leftovers(name, before))
    seconds = time.monotonic() - start
    print(f"{count} cycles in {seconds:.0f} s; launcher ended with {dict(sorted(ends.items()))}")
    print(f"labs left before `lab down`: {dict(+left_by) or 'none'}")
    print(f"left after `lab down`: {dict(+remains) or 'no namespace, process, link or qdisc'}")
    return 1 if +remains or set(+left_by) - {"SIGKILL"} else 0


def cycle(folder: Path, name: str, end: str, *, real: bool) -> str:
    """One run that comes to its end in the given way; the exit code of the launcher."""
    program, file = folder / "job.py", folder / f"{name}.yaml"
    program.write_text(REAL if real else CHEAP)
    place = random.choice(["1x2", "2x1", "2x2", "3x1"])
    file.write_text(
        f"places: [{place}]\nrates: [500Mb/s]\njobs:\n"
        f"  - run: ['{program}']\n    time_limit: {15 if real else 5} s\n"
    )
    command = [sys.executable, "-m", "syncwall", "lab", "run", str(file)]
    launcher = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {MARK: name},
    )
    time.sleep(random.uniform(0.4, 5.0 if real else 2.2))
    if end == "worker":
        found = [pid for pid in marked(name) if pid != launcher.pid]
        for pid in random.sample(found, min(1, len(found))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    elif end.startswith("SIG"):
        launcher.send_signal(signal.Signals[end.split(maxsplit=1)[0]])
        if end.endswith("twice"):
            time.sleep(random.uniform(0, 0.1))
            launcher.send_signal(signal.SIGINT)
    try:
        return str(launcher.wait(timeout=120))
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
        return "hung"


def own_labs(name: str) -> list[str]:
    return [lab.name for lab in host_machine.labs() if lab.name.startswith(f"{name}-")]


def remove(name: str, *, everything: bool) -> None:
    """What a person would do after a crash."""
    for words in [["--all"]] if everything else [[lab] for lab in own_labs(name)]:
        command = [sys.executable, "-m", "syncwall", "lab", "down", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def leftovers(name: str, before: str) -> Counter[str]:
    """What is still there, by kind."""
    spaces = sum(path.name.startswith(f"syncwall-{name}") for path in Path("/run/netns").iterdir())
    changed = int(root_network() != before)
    return Counter(namespaces=spaces, processes=len(marked(name)), root_network=changed)


def marked(name: str) -> list[int]:
    """Processes that carry the mark of these cycles."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={name}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def root_network() -> str:
    """Links and queues of the machine's own network."""
    commands = (["ip", "-o", "link"], ["tc", "qdisc"])
    return "".join(subprocess.check_output(command, text=True) for command in commands)


def torch_is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None
