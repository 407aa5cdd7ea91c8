"""Labs on this machine: made, listed and removed, found by their names alone.

Holds `up`, `down`, `labs`, `Lab`, `log_folder` and `new_name`. Only namespaces called
`syncwall-...` are ever touched. `inside` says how a program is started inside a host.

`awake`: processors kept awake while a lab measures. A virtual processor that has nothing to do is
taken away by the machine below, and given back late: 10 to 60 ms were seen where 0.1 ms is usual.
Token buckets overflow meanwhile, and a link that stands still a few times a second loses up to a
third of its rate. So one process on each processor spins in the class SCHED_IDLE: it runs only when
no worker wants to. Workers must stay in the session of these processes: with `sched_autogroup` the
kernel divides time between sessions first, and an idle class counts only inside one. Workers in
sessions of their own were seen to run at two thirds of their speed.
"""

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from syncwall.lab.virtual_network import PREFIX, Command, LabNetwork, Topology, network
from syncwall.problems import InputError
from syncwall.public import published


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """`command` in a namespace, killed by the kernel when the process that started it dies.

    The kernel watches the thread that starts it, so that must not be a short-lived one.
    """
    setpriv, ip = (shutil.which(tool) or tool for tool in ("setpriv", "ip"))
    return [setpriv, "--pdeathsig", "KILL", ip, "netns", "exec", namespace, *command]


_SPIN = (
    "import os; os.sched_setaffinity(0, {{{cpu}}}); "
    "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"
    "while True: pass"
)


@contextmanager
def awake(namespace: str) -> Iterator[None]:
    """Keep every processor awake; the processes belong to `namespace` and end with it."""
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            program = [sys.executable, "-I", "-S", "-c", _SPIN.format(cpu=cpu)]
            spinning.append(
                subprocess.Popen(  # noqa: S603 - our own program
                    inside(namespace, program),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield
    finally:
        for process in spinning:
            process.send_signal(signal.SIGKILL)
            process.wait()


_NAME: Final = re.compile(re.escape(PREFIX) + r"(?P<lab>.+)-(?P<kind>[hs])(?P<number>\d+)")
_NAMED: Final = Path("/run/netns")
_END_S: Final = 10.0
_LOGS: Final = "syncwall-lab-"
_TOOLS: Final = {"ip": "iproute2", "tc": "iproute2", "sysctl": "procps", "setpriv": "util-linux"}


@published("name namespaces hosts processes")
@dataclass(frozen=True)
class Lab:
    """A lab that exists."""

    name: str
    """For `lab down`."""
    namespaces: tuple[str, ...]
    """Network namespaces of its hosts and switches."""
    processes: int
    """Running inside it."""

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return sum(_kind(name) == "h" for name in self.namespaces)


def up(topology: Topology, name: str) -> LabNetwork:
    """Make the hosts and links of `topology`; if that fails, nothing is left of it."""
    needed("up")
    made = network(topology, name)
    try:
        for command in made.commands:
            issue(command)
    except BaseException:
        down(made.lab)
        raise
    return made


def down(name: str | None = None) -> list[str]:
    """Remove a lab, or every lab if `name` is None, with all that runs inside; their names."""
    needed("down")
    found = [namespace for namespace in _namespaces() if name in (None, _lab(namespace))]
    known = {namespace: _identity(namespace) for namespace in found}
    _end_processes(known.values())
    for namespace in found:
        _delete(namespace)
    _end_processes(known.values())  # one that was just starting
    _remove_abandoned_logs()
    return sorted({_lab(namespace) for namespace in found})


def log_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for what workers print; its name says whose it is, for `down` after `kill -9`."""
    return tempfile.TemporaryDirectory(prefix=f"{_LOGS}{os.getpid()}-")


def _remove_abandoned_logs() -> None:
    """Folders of `log_folder` whose process is gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{_LOGS}*-*"):
        number = path.name.removeprefix(_LOGS).partition("-")[0]
        mine = path.lstat().st_uid == os.geteuid() and not path.is_symlink()
        if mine and number.isdecimal() and not _runs(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _runs(pid: int) -> bool:
    """False also for a process that has ended but that nobody has waited for."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def labs() -> list[Lab]:
    """All labs of this machine."""
    found: dict[str, list[str]] = {}
    for namespace in _namespaces():
        found.setdefault(_lab(namespace), []).append(namespace)
    return [
        Lab(name, tuple(sorted(spaces)), len(processes_of(map(_identity, spaces))))
        for name, spaces in sorted(found.items())
    ]


def needed(part: str) -> None:
    """Refuse, kindly, where no lab can be made."""
    if sys.platform != "linux":
        raise InputError.of("a lab is made of network namespaces, which only Linux has")
    if os.geteuid() != 0:
        raise InputError.of(
            f"lab needs root to make network namespaces; nothing was changed: sudo syncwall lab {part} ..."
        )
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        package = _TOOLS[missing[0]]
        raise InputError.of(f"`{missing[0]}` is not installed: apt-get install {package}")


def issue(command: Command) -> None:
    """Run one command of a network; what it complains of is the error."""
    path = shutil.which(command[0]) or command[0]
    done = subprocess.run([path, *command[1:]], capture_output=True, text=True, check=False)  # noqa: S603 - our own commands
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise InputError.of(f"`{' '.join(command)}` failed: {lines[-1]}")


def processes_of(identities: Iterable[tuple[int, int] | None]) -> list[int]:
    """Processes inside namespaces, never those of the namespace that this process is in."""
    own = _stat(Path("/proc/self/ns/net"))
    wanted = set(identities) - {None, own}
    if not wanted:
        return []
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [pid for pid in pids if _stat(Path(f"/proc/{pid}/ns/net")) in wanted]


def new_name(title: str) -> str:
    """A name that no other lab has: several may exist at once."""
    plain = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40] or "lab"
    return f"{plain}-{secrets.token_hex(3)}"


def _namespaces() -> list[str]:
    """Namespaces of labs, also those of which only the file is left."""
    names = (path.name for path in _NAMED.iterdir()) if _NAMED.is_dir() else ()
    return sorted(name for name in names if _NAME.fullmatch(name))


def _lab(namespace: str) -> str:
    found = _NAME.fullmatch(namespace)
    assert found is not None
    return found["lab"]


def _kind(namespace: str) -> str:
    found = _NAME.fullmatch(namespace)
    assert found is not None
    return found["kind"]


def _identity(namespace: str) -> tuple[int, int] | None:
    return _stat(_NAMED / namespace)


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:  # gone, or not ours to see
        return None
    return found.st_dev, found.st_ino


def _end_processes(identities: Iterable[tuple[int, int] | None]) -> None:
    wanted = list(identities)
    until = time.monotonic() + _END_S
    while pids := processes_of(wanted):
        if time.monotonic() > until:
            raise InputError.of(f"process {pids[0]} of a lab does not end; nothing was removed")
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)


def _delete(namespace: str) -> None:
    """Remove the namespace; links and queues go with it."""
    path = shutil.which("ip") or "ip"
    subprocess.run([path, "netns", "delete", namespace], capture_output=True, check=False)  # noqa: S603 - our own name
    (_NAMED / namespace).unlink(missing_ok=True)  # a file that is left if its making was cut short
