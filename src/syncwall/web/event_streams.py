"""Long work with live progress, in a process of its own that ends when nobody listens;
errors as JSON.

What is sent are lines of JSON: `{"progress": 0.4}` again and again, perhaps with more beside it,
and at last `{"answer": ...}` or `{"problems": [...]}`. Going away is cancelling: there is nothing
else to clean up. The answer to a question that somebody may ask again is kept for a while.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from syncwall.problems import InputError
from syncwall.web.workers import (
    Answer,
    Busy,
    TooLong,
    answered,
    bounded,
    called,
    given_up_after_s,
    process_context,
)

_LIST_BYTES: Final = 60_000
_WHERE, _WHAT = 100, 1000
"""Letters of a key and of a sentence."""


def problem_list(error: InputError) -> list[dict[str, str]]:
    """Each problem with the key that it is about."""
    return _listed(
        [(one.key or one.file, str(one) if one.line else one.sentence()) for one in error.problems]
    )


def _listed(problems: list[tuple[str, str]]) -> list[dict[str, str]]:
    """The first of them, and how many more there are."""
    shown: list[dict[str, str]] = []
    left_bytes = _LIST_BYTES
    for where, what in problems:
        one = {"where": where[:_WHERE], "what": what[:_WHAT]}
        left_bytes -= len(json.dumps(one))
        if left_bytes < 0:
            more = f"and {len(problems) - len(shown):,} more"
            return [*shown, {"where": "", "what": more}]
        shown.append(one)
    return shown


def add_refusals(app: FastAPI) -> None:
    """Say in the same form whatever is wrong."""

    def refused(status: int, problems: list[dict[str, str]]) -> JSONResponse:
        return JSONResponse({"problems": problems}, status)

    @app.exception_handler(InputError)
    async def wrong(_: Request, error: InputError) -> Response:
        return refused(422, problem_list(error))

    @app.exception_handler(RequestValidationError)
    async def unreadable(_: Request, error: RequestValidationError) -> Response:
        found = [(".".join(map(str, one["loc"][1:])), str(one["msg"])) for one in error.errors()]
        return refused(422, _listed(found))

    @app.exception_handler(Busy)
    @app.exception_handler(TooLong)
    async def busy(_: Request, error: Exception) -> Response:
        return refused(503, [{"where": "", "what": str(error)}])


AT_ONCE: Final = 2
"""Searches that may run at the same time."""
_EVERY_S: Final = 0.1
_LOOK_S: Final = 0.03
_GRACE_S: Final = 15.0
"""What sending may take beyond working."""
_KEPT_BYTES: Final = 48_000_000
"""Answers that are kept, the newest."""
_PROGRESS: Final = b'{"progress"'
_ANSWER: Final = b'{"answer"'
_LOST: Final = b'{"problems":[{"where":"","what":"the search was lost"}]}'


class Streams:
    """What runs, and the newest answers."""

    def __init__(self) -> None:
        self._running: set[_Work] = set()
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    @property
    def running(self) -> int:
        """How many searches run."""
        return len(self._running)

    def streamed(
        self,
        function: Answer,
        *arguments: Any,
        limit_s: float,
        after: Callable[[], None] = lambda: None,
        question: str = "",
    ) -> "Followed":
        """The lines of `function(*arguments, progress=...)`; Busy before anything is sent.

        `after` is called once nobody listens any more. The answer to a `question` is kept.
        """
        known = self.kept(question)
        if known is not None:
            return Followed(_Answered(known), after)
        if self.running >= AT_ONCE:
            raise Busy(f"{AT_ONCE} searches are running already: try again in a minute")
        work = _Work(function, arguments, limit_s)
        self._running.add(work)

        def left() -> None:
            self._running.discard(work)
            if question and work.line.startswith(_ANSWER):
                self._keep(question, work.line)
            work.end()
            after()

        return Followed(work, left)

    def kept(self, question: str) -> bytes | None:
        """The line with the answer to `question`, if it was answered not long ago."""
        if question in self._kept:
            self._kept.move_to_end(question)
        return self._kept.get(question)

    def _keep(self, question: str, line: bytes) -> None:
        self._kept[question] = line
        while sum(map(len, self._kept.values())) > _KEPT_BYTES:
            self._kept.popitem(last=False)

    def close(self) -> None:
        """End everything; who listens hears that it was lost."""
        for work in tuple(self._running):
            work.end()


class _Work:
    """A process, and the last line that it wrote."""

    def __init__(self, function: Answer, arguments: tuple[Any, ...], limit_s: float) -> None:
        context = process_context()
        self.limit_s = limit_s
        self.line = b'{"progress":0.0}'
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(theirs, limit_s, function, arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def is_done(self) -> bool:
        """True once the answer is there, or will never come."""
        return not self.line.startswith(_PROGRESS)

    def look(self) -> bytes:
        """The newest line."""
        try:
            while not self.is_done and self._ours.poll():
                self.line = self._ours.recv_bytes()
        except (EOFError, OSError):
            self.line = _LOST
        if self.is_done:
            self.end()
        return self.line

    def end(self) -> None:
        """Stop, whatever is under way."""
        if not self.is_done:
            self.line = _LOST
        self._ours.close()
        if self._process.is_alive():
            self._process.kill()


class _Answered(_Work):
    """An answer that is there already, without a process."""

    def __init__(self, line: bytes) -> None:
        self.line, self.limit_s = line, 0.0

    def look(self) -> bytes:
        """The answer."""
        return self.line

    def end(self) -> None:
        """Nothing is under way."""


class Followed(Response):
    """The lines of some work, as long as somebody listens."""

    media_type = "application/x-ndjson"

    def __init__(self, work: _Work, left: Callable[[], None]) -> None:
        super().__init__()
        self._work, self._left = work, left

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send every new line."""
        del scope
        listening = asyncio.ensure_future(_gone(receive))
        headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        try:
            async with asyncio.timeout(given_up_after_s(self._work.limit_s) + _GRACE_S):
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await self._lines(send, listening)
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._left()
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def _lines(self, send: Any, listening: "asyncio.Future[None]") -> None:
        last = b""
        while not listening.done():
            line = self._work.look()
            if line != last:
                last = line
                await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
            if self._work.is_done:
                return
            await asyncio.wait([listening], timeout=_LOOK_S)


async def _gone(receive: Any) -> None:
    """Wait until the visitor leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _run(to: Connection, limit_s: float, function: Answer, arguments: tuple[Any, ...]) -> None:
    bounded()
    last = 0.0

    def progress(share: float, **more: Any) -> None:
        nonlocal last
        if monotonic() - last >= _EVERY_S:
            last = monotonic()
            to.send_bytes(json.dumps({"progress": round(float(share), 4), **more}).encode())

    def whole() -> dict[str, Any]:
        try:
            return {"answer": called(function)(*arguments, progress=progress)}
        except InputError as error:
            return {"problems": problem_list(error)}

    try:
        line = answered(limit_s, whole, ())
    except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
        kinds = {"MemoryError": "needs too much memory"}
        kinds |= {name: str(error) for name in ("TooLong", "InputError")}
        what = kinds.get(type(error).__name__)
        problem = {"where": "", "what": what or "the search failed", "too_large": what is not None}
        line = json.dumps({"problems": [problem]}).encode()
    with suppress(OSError):  # nobody listens any more
        to.send_bytes(line)
