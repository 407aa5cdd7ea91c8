"""Attaches to the training in this process, without a change of its code.

Holds `start`, `stop`, `tell` and `start_with_torch`, which start-up files call: it waits until the
program loads torch itself. Whatever goes wrong here is said once on standard error, and the
training goes on unwatched.
"""

import atexit
import json
import os
import stat
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from syncwall.hosts import Place, host_name, place
from syncwall.watch.events import RankFacts
from syncwall.watch.place import EXPECT, folder, store_port
from syncwall.watch.rings import MarkKind, Ring, leave_error
from syncwall.watch.secret import attach_secret, share_secret
from syncwall.watch.watching import AppliedPatches, Watching

_LAUNCHERS: Final = frozenset(
    {
        "torchrun",
        "torch.distributed.run",
        "torch.distributed.launch",
        "accelerate",
        "deepspeed",
    }
)
_WORDS: Final = 32
_LONGEST: Final = 200
"""Of a command; whoever names a run needs no more."""
_watching: Watching | None = None
_expected: str | None = None
"""What the script says that the run should be like."""


def start(expect: str | None = None) -> None:
    """Watch the training in this process from now on; call it before models are made.

    `expect` says what the run should be like, in the words of `syncwall predict`: "run.yaml",
    "run.yaml --known-run measured.yaml", "step.work.json.gz --cluster dgx-h100"; or the JSON of an
    earlier `syncwall watch`. The agent of this node, which is started if there is none, compares
    with it. None: as the variable SYNCWALL_WATCH_EXPECT says.
    """
    global _watching, _expected  # noqa: PLW0603 - a process is watched once
    _expected = expect or _expected
    if _watching is not None:  # SYNCWALL_WATCH was quicker than the script
        if _watching.ring is not None:
            _expect(folder(os.environ))
        return
    _watching = Watching(_open_ring)
    os.register_at_fork(after_in_child=_forked)
    atexit.register(_exit)
    _attach(_watching)
    attach_secret(_watching, lambda: folder(os.environ))
    if place(os.environ) is not None and not _is_a_helper():
        _watching.begin()


def stop() -> None:
    """Put everything back as it was."""
    global _watching, _expected  # noqa: PLW0603
    if _watching is not None:
        _watching.stop()
    _watching = _expected = None


def tell(
    *, loss: float | None = None, tokens: float | None = None, gradient_norm: float | None = None
) -> None:
    """Add what only the training loop knows to the step that it is in."""
    if _watching is None:
        return
    told = {
        MarkKind.LOSS: loss,
        MarkKind.TOKENS: tokens,
        MarkKind.GRADIENT_NORM: gradient_norm,
    }
    for kind, value in told.items():
        if value is not None:
            _watching.mark(int(kind), float(value))


def start_with_torch() -> None:
    """Call `start` once the program has loaded torch."""
    AppliedPatches().when_imported("torch", lambda _: _start_quietly())


def _start_quietly() -> None:
    try:
        start()
    except Exception as error:  # noqa: BLE001 - a training must not fail for being watched
        _say(f"not watched: {type(error).__name__}: {error}")


def _attach(watching: Watching) -> None:
    from syncwall.watch.hooks import HOOKS

    for part, attach in HOOKS.items():
        try:
            attach(watching)
        except (ImportError, AttributeError, TypeError) as error:
            _say(f"{part} cannot be watched with this PyTorch: {error}")


def _is_a_helper() -> bool:
    """True in processes that a rank starts, such as workers of a loader: they have its rank. So may
    launchers that Slurm or Kubernetes start, one a node.
    """
    program = next((one for one in sys.orig_argv[1:] if not one.startswith("-")), "")
    is_worker = "--multiprocessing-fork" in sys.argv or "multiprocessing.spawn" in sys.argv[0:1]
    return is_worker or Path(program).name in _LAUNCHERS


def _open_ring() -> Ring | None:
    here = place(_environment()) or Place(0, 1)
    try:
        home = _made(folder(os.environ))
        ring = Ring(home / f"rank-{here.rank}-{os.getpid()}.ring", here.rank)
        _describe(home, here)
        share_secret(home)
    except (OSError, ValueError) as error:
        _say(f"rank {here.rank} is not watched: {error}")
        return None
    _expect(home)
    from syncwall.watch.place import ensure_agent

    with suppress(OSError):
        ensure_agent(home)
    return ring


def _expect(home: Path) -> None:
    """Say to the agent what the run should be like, if somebody knows."""
    words = _expected or os.environ.get(EXPECT)
    if not words:
        return
    from syncwall.problems import InputError
    from syncwall.watch.expected import leave_expectation

    try:
        leave_expectation(home, words)
    except (OSError, InputError) as error:
        _say(f"nothing to compare with: {error}")


def _environment() -> dict[str, str]:
    """Variables of this process, with the rank that `torch.distributed` knows if they have none."""
    found = dict(os.environ)
    dist: Any = sys.modules.get("torch.distributed")
    if "RANK" not in found and dist is not None and dist.is_available() and dist.is_initialized():
        found |= {"RANK": str(dist.get_rank()), "WORLD_SIZE": str(dist.get_world_size())}
    return found


def _describe(home: Path, here: Place) -> None:
    """What the agent wants to know of this process, beside its ring."""
    facts = RankFacts(
        here.rank,
        os.getpid(),
        here.world,
        host_name(),
        here.node_rank,
        here.nodes,
        here.address,
        store_port(os.environ),
        os.environ.get("TORCH_WORKER_SERVER_SOCKET", ""),
        tuple(word[:_LONGEST] for word in sys.orig_argv[:_WORDS]),
    )
    text = json.dumps(asdict(facts))
    new = home / f"rank-{here.rank}-{os.getpid()}.new"
    new.write_text(text, encoding="utf-8")
    new.rename(new.with_suffix(".json"))


def _made(path: Path) -> Path:
    """The folder, for this user only, and no link to another one."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to somebody else, or is a link")
    return path


def _forked() -> None:
    if _watching is not None:
        _watching.forked()


def _exit() -> None:
    """Say that this process ends on its own, and whether by an exception."""
    if _watching is not None and _watching.ring is not None and _watching.pid == os.getpid():
        error = getattr(sys, "last_value", None)
        if error is not None:
            with suppress(Exception):  # whatever its message is like, the process shall end
                leave_error(_watching.ring.path, error)
        _watching.mark(int(MarkKind.EXIT), float(error is not None))


def _say(text: str) -> None:
    with suppress(OSError, ValueError):
        print(f"syncwall watch: {text}", file=sys.stderr, flush=True)
