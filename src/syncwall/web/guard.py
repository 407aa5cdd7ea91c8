"""Who may ask, and how much: all that a request and its connection must pass.

The server answers only under names that it was told (a page of another site that resolves to
127.0.0.1 is refused), only to requests of its own pages or of programs, only to who has the token
if there is one, and only to small ones.

Nobody who sends nothing, sends slowly or does not read keeps others out: such connections are
closed, sooner if there are many, and those that have waited longest go first.
"""

import asyncio
import re
import secrets
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl, quote, urlencode

from uvicorn.protocols.http.h11_impl import H11Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Refusal = tuple[int, str, dict[str, str]]
"""Status, reason and headers."""
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY_BYTES: Final = 256 * 1024
BODY_S: Final = 10.0
"""Seconds in which a body must have come."""
FILES: Final = "/api/explain"
"""Where people send files to be explained: bodies may be larger, and come more slowly."""
MAX_FILES_BYTES: Final = 320 * 2**20
FILES_S: Final = 120.0
COOKIE: Final = "syncwall-token"
_EMPTY: Final = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of no text: Plotly adds an empty style element and fills it by calls."""
CONTENT_POLICY: Final = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""With every answer."""


class _Refused(Exception):  # noqa: N818 - ends the application, nobody sees it
    """The rest of the body is not read."""


class Guard:
    """An application that passes on only what may be asked.

    `names` are the hosts under which it answers (None: any); `token` is what a visitor must show.
    A proxy may have other names, `origins`, and may serve the pages under a path, `root`.
    """

    def __init__(
        self,
        app: App,
        names: frozenset[str] | None,
        token: str | None,
        *,
        origins: frozenset[str] = frozenset(),
        root: str = "",
    ) -> None:
        self._app, self._names, self._token = app, names, token
        self._origins, self._root = origins, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = _merged(scope["headers"])
        scope = self._below_root(scope)
        refused = self._refusal(scope, headers)
        if refused is not None:
            await _answer(send, *refused)
            return
        await self._passed_on(scope, _Visitor(receive, send, *_limits(scope["path"])))

    async def _passed_on(self, scope: Scope, visitor: "_Visitor") -> None:
        """Let the application answer, until the visitor goes away."""
        app = asyncio.ensure_future(self._app(scope, visitor.receive, visitor.send))
        leaving = asyncio.ensure_future(visitor.left())
        try:
            await asyncio.wait({app, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not app.done() and not visitor.started:
                app.cancel()  # nobody waits for the answer
            await asyncio.wait({app})
            if visitor.refused is not None:
                await _answer(visitor.passed, *visitor.refused)
            elif not app.cancelled():
                app.result()
        finally:
            leaving.cancel()
            app.cancel()

    def _below_root(self, scope: Scope) -> Scope:
        """The request without the path of the proxy, which may have taken it off already."""
        if not self._root or not f"{scope['path']}/".startswith(f"{self._root}/"):
            return scope
        return {**scope, "path": scope["path"].removeprefix(self._root)}

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        """Why the request may not pass, if so."""
        host = headers.get("host", "")
        if self._names is not None and host_name(host) not in self._names:
            return 421, f"this server does not answer for {host[:200]!r}", {}
        malformed = _malformed(scope, headers)
        if malformed is not None:
            return malformed
        own = self._origins | {host}
        if scope["method"] not in ("GET", "HEAD") and not _is_own(scope, headers, own):
            return 403, "requests of other sites are refused", {}
        most_bytes, _ = _limits(scope["path"])
        if _length(headers) > most_bytes:
            return 413, _too_large(most_bytes), {"connection": "close"}
        refused = self._stranger(scope, headers) if self._token is not None else None
        if refused is None and not scope["path"]:
            return 303, "", {"location": f"{self._root}/"}  # addresses in pages are relative
        return refused

    def _stranger(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        """Refuse who does not show the token; who shows it in the address gets a cookie."""
        assert self._token is not None
        if self._is_token(_cookie(headers)) or self._is_token(_bearer(headers)):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and self._is_token(dict(query).get("token", "")):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            cookie = f"{COOKIE}={self._token}; Path={self._root or '/'}; HttpOnly; SameSite=Lax"
            cookie += "; Secure" if _is_encrypted(scope, headers) else ""
            where = f"{self._root}/" + quote(scope["path"].lstrip("/\\")) + (f"?{rest}" if rest else "")
            return 303, "", {"location": where, "set-cookie": cookie}
        said = "write the token: open the address that `syncwall serve` printed (?token=...), or "
        return 401, said + "send `Authorization: Bearer TOKEN`", {"www-authenticate": "Bearer"}

    def _is_token(self, shown: str) -> bool:
        return secrets.compare_digest(shown.encode(), (self._token or "").encode())


class _Visitor:
    """The two ends of a request: what comes is counted and timed, what goes gets the headers."""

    def __init__(self, receive: Receive, send: Send, most_bytes: int, within_s: float) -> None:
        self._receive, self.passed = receive, send
        self._seen, self._most_bytes = 0, most_bytes
        self._until = asyncio.get_running_loop().time() + within_s
        self._complete, self._gone = asyncio.Event(), asyncio.Event()
        self.started = False
        self.refused: Refusal | None = None
        """Said in the place of the application, whatever that makes of a body that ends early."""

    async def receive(self) -> Message:
        """The next part of the body; then nothing but that the visitor has gone."""
        if self._complete.is_set():
            await self._gone.wait()
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            self._refuse(408, "the request came too slowly")
        self._seen += len(message.get("body", b""))
        if self._seen > self._most_bytes:
            self._refuse(413, _too_large(self._most_bytes))
        if not message.get("more_body", False):
            self._complete.set()
        return message

    async def left(self) -> None:
        """Return when the visitor has gone."""
        await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer."""
        if self.refused is not None:
            return
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", []), *_headers(HEADERS)]
        await self.passed(message)

    def _refuse(self, status: int, said: str) -> NoReturn:
        if not self.started:
            self.refused = status, said, {"connection": "close"}
        raise _Refused


def _limits(path: str) -> tuple[int, float]:
    """Bytes of a body, and seconds in which it must have come."""
    return (MAX_FILES_BYTES, FILES_S) if path == FILES else (MAX_BODY_BYTES, BODY_S)


def _too_large(most_bytes: int) -> str:
    return f"more than {most_bytes // 1024:,} KiB"


def _malformed(scope: Scope, headers: dict[str, str]) -> Refusal | None:
    """Why nobody should try to understand the request, if so."""
    if {"content-length", "transfer-encoding"} <= headers.keys():  # a proxy may count otherwise
        return 400, "a body has one length", {"connection": "close"}
    if "\0" in scope["path"]:  # no name of a file, and older servers of files fail on it
        return 404, "not found", {}
    return None


def _merged(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; what is said twice is one text with both."""
    found: dict[str, str] = {}
    for key, value in headers:
        name, text = key.decode("latin-1"), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _is_own(scope: Scope, headers: dict[str, str], own: frozenset[str]) -> bool:
    """True for pages of this server, and for programs, which are no browser."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    if "origin" not in headers:
        return True
    scheme, _, name = headers["origin"].partition("://")
    return name in own and (scheme == "https" or not _is_encrypted(scope, headers))


def _is_encrypted(scope: Scope, headers: dict[str, str]) -> bool:
    """True if the visitor came by https; who only says so gets less by it, not more."""
    return "https" in (scope.get("scheme"), headers.get("x-forwarded-proto", "").split(",")[0])


def host_name(host: str) -> str:
    """The name in a Host header, without the port; empty if it is none."""
    found = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", host.lower(), re.ASCII)
    return (found[1] or found[2]) if found else ""


def _length(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0


def _cookie(headers: dict[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _bearer(headers: dict[str, str]) -> str:
    kind, _, shown = headers.get("authorization", "").partition(" ")
    return shown.strip() if kind.lower() == "bearer" else ""


def _headers(named: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(key.encode(), value.encode("latin-1", "replace")) for key, value in named.items()]


async def _answer(send: Send, status: int, said: str, extra: dict[str, str]) -> None:
    kind = {"content-type": "text/plain; charset=utf-8"}
    headers = _headers(HEADERS | kind | extra)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": said.encode()})


IDLE_S: Final = 10.0
"""Seconds in which the whole head of a request must have come."""
WRITE_S: Final = 30.0
"""Seconds in which a visitor must have taken something of what is sent."""
TAKEN_BYTES: Final = 1_000_000
"""What counts as something, if it is not everything."""
UNSENT_BYTES: Final = 60_000_000
"""What may wait to be sent, to all visitors together."""
MOST: Final = 1500
_OTHERS: Final = 256
"""Descriptors that are kept for other things than connections."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Room:
    """All open connections: at most `most`, half of them from one address.

    That is enough for a proxy, behind which all visitors have one address.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[Connection, None] = {}  # who was answered last comes last
        self._from: Counter[str] = Counter()

    def enter(self, one: "Connection") -> bool:
        """Let `one` in, in the place of another if it must be; False if nobody can leave."""
        if self._from[one.address] >= max(self._most // 2, 1):
            full = not self._pushed_out(one.address)
        else:
            full = len(self._open) >= self._most and not self._pushed_out()
        if not full:
            self._open[one] = None
            self._from[one.address] += 1
        return not full

    def leave(self, one: "Connection") -> None:
        """Forget `one`."""
        if one in self._open:
            del self._open[one]
            self._from[one.address] -= 1
            if not self._from[one.address]:
                del self._from[one.address]

    def answered(self, one: "Connection") -> None:
        """`one` has just been answered: others leave before it."""
        if one in self._open:
            del self._open[one]
            self._open[one] = None

    def look(self, now_s: float) -> None:
        """Close what has waited too long."""
        for one in [one for one in self._open if one.is_overdue(now_s)]:
            one.drop()

    def limit_unsent(self) -> None:
        """Close connections that do not read, while too much waits to be sent."""
        unsent = {one: one.unsent_bytes for one in self._open if one.unsent_bytes}
        total = sum(unsent.values())
        for one in sorted(unsent, key=lambda one: one.since_s):
            if total <= UNSENT_BYTES:
                return
            total -= unsent[one]
            one.drop()

    def _pushed_out(self, address: str | None = None) -> bool:
        """Close the connection that has waited for its visitor longest."""
        waiting = (one for one in self._open if one.waits and address in (None, one.address))
        found = next(waiting, None)
        if found is not None:
            found.drop()
        return found is not None


class Connection(H11Protocol):
    """One connection; it leaves its room when it is dropped."""

    def __init__(self, *given: Any, room: Room, **named: Any) -> None:
        super().__init__(*given, **named)
        self._room = room
        self._unsent_bytes = 0
        self.since_s = 0.0
        """When the visitor last did what it should."""
        self.address = ""

    @property
    def unsent_bytes(self) -> int:
        """What the visitor has not taken yet."""
        return int(self.transport.get_write_buffer_size())

    @property
    def _is_asked(self) -> bool:
        return not getattr(self.cycle, "response_complete", True)  # None before the first request

    @property
    def waits(self) -> bool:
        """True if it is the visitor's turn: to ask, to send the rest of a body, or to read."""
        return not self._is_asked or self.cycle.more_body or self.unsent_bytes > 0

    def is_overdue(self, now_s: float) -> bool:
        """True if the visitor has not done in time what it should."""
        unsent = self.unsent_bytes
        if bool(unsent) != bool(self._unsent_bytes) or self._unsent_bytes - unsent >= TAKEN_BYTES:
            self._unsent_bytes, self.since_s = unsent, now_s
        self._unsent_bytes = max(self._unsent_bytes, unsent)
        waited_s = now_s - self.since_s
        return waited_s > WRITE_S if unsent else not self._is_asked and waited_s > IDLE_S

    def drop(self) -> None:
        """Close it now; what is unsent goes nowhere, or the system would keep it for minutes."""
        self._room.leave(self)
        if self._is_asked:
            self.cycle.disconnected = True  # so that no more is written to it
        if self.unsent_bytes:
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """A visitor comes."""
        super().connection_made(transport)
        self.since_s = self.loop.time()
        self.address = self.client[0] if self.client else ""
        if not self._room.enter(self):
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed, by whomever."""
        self._room.leave(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The answer is on its way; the next request may come."""
        self.since_s = self.loop.time()
        self._room.answered(self)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """More waits to be sent than the visitor takes."""
        super().pause_writing()
        self._room.limit_unsent()

    def resume_writing(self) -> None:
        """The visitor has taken nearly all."""
        self.since_s = self.loop.time()
        super().resume_writing()


def most_connections() -> int:
    """As many as the descriptors of this process allow: a connection and a file that is sent."""
    try:
        import resource
    except ImportError:  # not on Windows
        return MOST
    descriptors, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST + _OTHERS
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if 0 <= descriptors < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return max((wanted - _OTHERS) // 2, 16)
