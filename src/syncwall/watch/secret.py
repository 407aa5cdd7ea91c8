"""The secret of a job, which reports between nodes are sealed with.

Holds `share_secret` and `attach_secret`, with which ranks agree on one through the store of their own
process group, and leave it to their agent; `secret_of`, what an agent finds; and `Seal`. Whoever can
write to the store of the training can end the training: nobody else can write a report.
SYNCWALL_WATCH_SECRET states one, for reports before there is a process group.
"""

import hashlib
import hmac
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from syncwall.watch.watching import Function, Watching

SECRET: Final = "SYNCWALL_WATCH_SECRET"  # noqa: S105 - the name of a variable
_FILE: Final = "secret"
_KEY: Final = "syncwall/secret"
_MOST_BYTES: Final = 1024
_C10D: Final = "torch.distributed.distributed_c10d"


def secret_of(home: Path) -> bytes:
    """Of the job whose ranks share this folder; empty as long as they have not agreed on one."""
    if stated := os.environ.get(SECRET):
        return stated.encode()
    with suppress(OSError), (home / _FILE).open("rb") as file:
        return file.read(_MOST_BYTES)
    return b""


def share_secret(home: Path) -> None:
    """Agree with all ranks, if this one has a process group; nobody waits for anybody."""
    dist: Any = sys.modules.get(_C10D)
    if os.environ.get(SECRET) or dist is None or not dist.is_initialized():
        return
    with suppress(Exception):  # whatever a store may raise: nodes judge alone
        known = secret_of(home) or secrets.token_hex(32).encode()
        agreed = dist._get_default_store().compare_set(_KEY, "", known.decode())
        if agreed != secret_of(home):
            new = home / f"{_FILE}-{os.getpid()}.new"
            new.write_bytes(agreed)
            new.rename(home / _FILE)


def attach_secret(watching: Watching, home: Callable[[], Path]) -> None:
    """Agree once the process group is there."""

    def made(function: Function) -> Function:
        def init_process_group(*given: Any, **named: Any) -> Any:
            found = function(*given, **named)
            if watching.ring is not None and watching.pid == os.getpid():
                share_secret(home())
            return found

        return init_process_group

    def attach(module: ModuleType) -> None:
        watching.patches.replace(module, "init_process_group", made, "torch.distributed")

    watching.patches.when_imported(_C10D, attach)


class Seal:
    """Marks texts as the job's own, each for the key that it stands under."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sealed(self, key: str, text: bytes) -> bytes:
        """The text behind its code."""
        return self._code(key, text) + text

    def opened(self, key: str, sealed: bytes) -> bytes | None:
        """The text; None if it is not the job's."""
        size = hashlib.sha256().digest_size * 2
        code, text = sealed[:size], sealed[size:]
        return text if hmac.compare_digest(code, self._code(key, text)) else None

    def _code(self, key: str, text: bytes) -> bytes:
        return hmac.new(self._secret, key.encode() + b"\0" + text, "sha256").hexdigest().encode()
