"""Files that visitors send: written to a folder of their own, and removed with it.

Holds `Uploads` and `Sent`. Names are those of the visitor without folders; what is sent is never
kept longer than somebody waits for the answer.
"""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import python_multipart  # noqa: F401 - what FastAPI reads forms with; said to be missing at once
from fastapi import Request

from syncwall.problems import InputError
from syncwall.web.workers import Busy

AT_ONCE: Final = 2
"""Visitors that may send files at the same time."""
MOST_FILES: Final = 1100
"""Of one visitor: a trace for each of a thousand ranks, and some logs."""


@dataclass
class Sent:
    """What one visitor sent: files in folders by the name of their field, and texts."""

    folder: Path
    texts: dict[str, str] = field(default_factory=dict)
    is_kept: bool = False
    """True once somebody else will `remove` it."""

    def remove(self) -> None:
        """Delete all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Uploads:
    """All that is being sent."""

    def __init__(self) -> None:
        self._open = 0

    @asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[Sent]:
        """The parts of a form, on disk; removed at the end unless they are to be kept."""
        if self._open >= AT_ONCE:
            raise Busy(f"{AT_ONCE} others send files already: try again in a minute")
        self._open += 1
        sent = Sent(Path(tempfile.mkdtemp(prefix="syncwall-sent-")))
        try:
            async with request.form(max_files=MOST_FILES, max_fields=20) as form:
                for name, value in form.multi_items():
                    if isinstance(value, str):
                        sent.texts[name] = value
                    else:
                        await asyncio.to_thread(_write, sent.folder, name, value)
            yield sent
        finally:
            self._open -= 1
            if not sent.is_kept:
                sent.remove()


def _write(folder: Path, field_name: str, upload: Any) -> None:
    if field_name not in ("files", "against"):
        raise InputError.of(f"files are sent as `files` or `against`, not as {field_name[:40]!r}")
    home = folder / field_name
    home.mkdir(exist_ok=True)
    given = re.sub(r"[^\w.+-]", "_", Path(upload.filename or "file").name)[-120:].lstrip(".")
    name, number = given or "file", 1
    while (home / name).exists():
        number += 1
        name = f"{number}-{given}"
    with (home / name).open("wb") as file:
        shutil.copyfileobj(upload.file, file, 1 << 20)
